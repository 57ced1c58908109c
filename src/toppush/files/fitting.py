"""From a file to a model: read, prepare the columns, fit, and write down how it went."""

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import InvalidParameterError

from toppush import metrics
from toppush.explain.contributions import learn_reference
from toppush.files.leaks import leakage_cautions
from toppush.files.readers import FileOrReader, Reader, reading
from toppush.files.reference import meaning, watched_rows
from toppush.metrics.ranking import MAX_DEPTH
from toppush.modelfile.model import Model
from toppush.modeltypes import model_type_of, select_model_type
from toppush.modeltypes.base import About, FitRows, ModelType, OptionError, Options, Ranker, Steps
from toppush.modeltypes.linear import certificate
from toppush.system.extras import versions_of
from toppush.system.reading import DataError
from toppush.tables.column_types import Column, Date, Number
from toppush.tables.columns import Columns, sizes_named
from toppush.tables.ids import caution, id_like
from toppush.tables.labels import LabelRule, caution_blanks, choose, count, count_blanks
from toppush.tables.leakage import LeakageWarning
from toppush.tables.rows import NO_ROLES, NOTHING, Layout, LoadedRows, Roles, RoleValues, take_roles
from toppush.tables.scaling import fit_transform, scaler_of
from toppush.types import Array, Labels, Mask, Matrix

PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn", "skops", "pyarrow")
STAGES = ("reading", "preparing", "solving", "holding out", "measuring")
"""What takes the seconds of a fit; held out are rows from further fits, by which scores mean."""
Given = ParamSpec("Given")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Training:
    """Labelled rows of a file, as they were read."""

    file: Reader
    fingerprint: str
    rows: LoadedRows
    positive: Mask
    rule: LabelRule
    categorical: tuple[str, ...]
    ids: tuple[str, ...]
    """Columns that look like ids and were left out."""
    roles: Roles = NO_ROLES
    held: RoleValues = NOTHING
    """Weights, groups and times of the rows."""

    def preparation(
        self, *, scale: str = "maxabs", missing: str = "impute", form: str = "filled"
    ) -> Steps:
        """Steps from these rows to numbers; what is made of a table may be overwritten."""
        table = self.rows.label is not None
        steps: Steps = []
        if table:
            columns = Columns(categorical=self.categorical, missing=missing, form=form)
            steps.append(("columns", columns))
        scaler = scaler_of(scale, copy=not table)
        return steps if scaler is None else [*steps, ("scale", scaler)]

    def cautions(self) -> list[str]:
        """Warn of columns that look like ids or may hold the label; the texts of the warnings."""
        leakage = leakage_cautions(self.rows.X, self.positive, self.categorical, self.first)
        return caution(self.ids) + leakage

    @property
    def first(self) -> int:
        """Number of a matrix's first column in the file."""
        return int(self.rows.layout.get("first", 0))


def read_training_file(
    path: FileOrReader,
    *,
    label: str | None = None,
    positive: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    keep: Collection[str] = (),
    roles: Roles = NO_ROLES,
    kind: str | None = None,
) -> Training:
    """Rows and labels of a file; parameters as for `fit`."""
    named = roles.named.values()
    with reading(path, kind) as file:
        fingerprint = file.fingerprint()
        file.require(list(named), used=(label, *drop))
        rows = file.load(label, [name for name in drop if name not in named], categorical)
    rows, held = with_file(take_roles, file, rows, roles)
    counts = with_file(count, file, rows.labels, rows.label)
    caution_blanks(count_blanks(rows.labels), rows.label)
    rule = with_file(choose, file, counts, rows.label, positive)
    positives = rule.positives(rows.labels)
    ids = id_like(rows.X, {*categorical, *keep}) if rows.label is not None else ()
    if ids:
        rows = rows._replace(X=rows.X.drop_columns(list(ids)))
    taken = tuple(categorical)
    return Training(file, fingerprint, rows, positives, rule, taken, ids, roles, held)


def fit(
    path: FileOrReader,
    *,
    model: str | None = None,
    label: str | None = None,
    positive: str | None = None,
    lam: float | str | None = None,
    top: float | str | None = None,
    loss: str | None = None,
    scale: str | None = None,
    members: int | Sequence[str] | None = None,
    effort: str | None = None,
    seconds: float | None = None,
    tol: float | None = None,
    scoring: str | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    time: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    keep: Collection[str] = (),
    missing: str = "impute",
    cv: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    kind: str | None = None,
    verbose: int = 0,
) -> Model:
    """Fit a ranker to a file of rows.

    An option that a kind of model does not take is refused; one that is not given is the kind's
    own default, as the estimator's documentation says.

    Parameters
    ----------
    path : path, or a reader that is open
        CSV, TSV, Parquet, Arrow, LIBSVM, NPZ or NPY.
    model : {"auto", "linear", "additive", "trees", "net"}, optional
        "auto" by default, and "linear" if one of lam, top, loss, scale and tol is given.
    label : str, optional
        Column of the labels; "label" in a table. Of an NPZ file the array, "y"; of an NPY file "0"
        or "-1", the first or last column, or another NPY file.
    positive : str, optional
        The label to rank first; by default the rarer of two strings, the greater of two numbers.
    lam : float or "cv", optional
        Strength of the penalty, or chosen by cross-validation, which is linear's default.
    top : int, float, "auto" or "cv", optional
        As for `TopPush`, or chosen by cross-validation, which is linear's default.
    loss : str, optional
    scale : {"maxabs", "standard", "none"}, optional
        "maxabs" where columns are scaled at all.
    members : int or sequence of str, optional
        How many models are averaged; of "auto" the names of those to choose among.
    effort : {"quick", "normal", "thorough"}, optional
        How much "auto" tries.
    seconds : float, optional
        After which "auto" begins nothing more.
    tol : float, optional
        Relative gap at which fits end, of the linear model.
    scoring : str, optional
        The measure that settings are chosen by: a name of `toppush.metrics.METRICS` that needs no
        parameters, or of scikit-learn's scorers.
    sample_weight : str, optional
        Column of weights, which enter the fit and every measure.
    groups : str, optional
        Column by whose values rows belong together; folds do not part them.
    time : str, optional
        Column of dates or numbers; folds hold out rows that are later than those they train on.
        These three columns are no features.
    drop, categorical : collection of str
        Columns to leave out, and columns to read as text whatever they hold.
    keep : collection of str
        Columns to learn from although they look like ids.
    missing : {"impute", "error"}
    cv : int, optional
        Folds of the linear model, 5.
    seed : int
        Seed of the folds and of everything else that is random.
    threads : int, optional
        All cores by default.
    kind : str, optional
        The format, if the ending does not say.
    verbose : int
        1 shows how far the folds and the fit are, see `TopPushCV`.

    Returns
    -------
    Model

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import files
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> table.to_csv("train.csv", index=False)
    >>> model = files.fit("train.csv", label="target", lam=0.01, top=0.1)
    >>> type(model.ranker).__name__, model.ranker.top
    ('TopPush', 0.1)
    """
    asked: Options = {
        "lam": lam, "top": top, "loss": loss, "scale": scale, "cv": cv,
        "members": members, "effort": effort, "seconds": seconds, "tol": tol, "scoring": scoring,
        "groups": groups, "time": time, "threads": threads,
    }  # fmt: skip
    made = select_model_type(model, **asked)
    made.require_engine()
    options = made.options(**asked)
    clock = [perf_counter()]
    roles = Roles(sample_weight, groups, time)
    given = read_training_file(
        path, label=label, positive=positive, drop=drop, categorical=categorical, keep=keep,
        roles=roles, kind=kind,
    )  # fmt: skip
    clock.append(perf_counter())
    steps, X = _prepared(given, made, options, missing)
    cautions = given.cautions()
    clock.append(perf_counter())
    rows = FitRows(given.positive, given.rule, given.file.path, columns_of(steps), given.held)
    ranker = made.ranker(options, rows, seed).set_params(verbose=verbose)
    with sizes_named(rows.columns, given.first, rows.path):
        said = fit_and_warn(ranker, X, given.positive, given.held.weight, made.is_reported)
    more = made.training_facts(ranker, X, rows)
    for text in (few := made.cautions(ranker, X, rows, seed)):
        warnings.warn(text, UserWarning, stacklevel=2)
    clock.append(perf_counter())
    _forget_folds(ranker)
    measured = {"scores": meaning(made, ranker, rows, X, seed)}
    clock.append(perf_counter())
    measured |= measures(ranker, X, given.positive, given.held.weight)
    measured |= {"watched": watched_rows(ranker, given.rows, rows, X)}
    learn_reference(ranker, X, given.positive)
    clock.append(perf_counter())
    found = Model(Pipeline([*steps, ("ranker", ranker)]))
    given_to = {"scale": _scale(made, options), "missing": missing, "seed": seed}
    found.about = known(_facts(given, rows), given.rows.layout, given.rule, ranker) | {
        "columns": described(
            rows.columns, _types(given), int(given.rows.X.shape[1]), drop, given.ids
        ),
        "fit": made.settings(ranker, options) | given_to,
        "warnings": [*cautions, *said, *few],
        "seconds": spent(clock),
        **measured,
        **more,
    }
    return found


def _scale(made: ModelType, options: Options) -> str:
    return str(options.get("scale", made.scale or "none"))


def _prepared(
    given: Training, made: ModelType, options: Options, missing: str
) -> tuple[Steps, Matrix]:
    """The fitted steps before the ranker, and the rows that they return."""
    steps = given.preparation(scale=_scale(made, options), missing=missing, form=made.form)
    X = given.rows.X
    for _, step in steps:
        X = with_file(fit_transform, given.file, step, X)
    return steps, X


def columns_of(steps: Steps) -> Columns | None:
    """How a table is read, if it is one."""
    first = steps[0][1] if steps else None
    return first if isinstance(first, Columns) else None


def measures(ranker: Ranker, X: Matrix, positive: Mask, weight: Array | None = None) -> About:
    """How well the training rows are ranked, by members that did not see them if there are any."""
    weight = None if weight is None else _countable(weight)
    unseen = getattr(ranker, "out_of_fold_", None)
    known = np.zeros(len(positive), bool) if unseen is None else ~np.isnan(unseen)
    if unseen is not None and len(np.unique(positive[known])) == 2:
        some = None if weight is None else weight[known]
        found = metrics.summary(positive[known], unseen[known], sample_weight=some)
        return {"out_of_fold": found | {"rows": int(known.sum())}}
    scores = ranker.decision_function(X)
    return {"training": metrics.summary(positive, scores, sample_weight=weight)}


def _countable(weight: Array) -> Array:
    """Weights as they are; with mean 1 if their sum is more ranks than measures count."""
    return weight if weight.sum() <= MAX_DEPTH else weight / weight.mean()


def _facts(given: Training, rows: FitRows) -> About:
    return {
        "file": given.file.path.name,
        "kind": given.file.kind,
        "fingerprint": given.fingerprint,
        "rows": rows.n_rows,
        "positives": rows.n_positives,
        **given.roles.named,
    }


def _types(given: Training) -> dict[str, str]:
    """Types of the columns of a table."""
    schema = () if given.rows.label is None else given.rows.X.schema
    return {column.name: str(column.type) for column in schema}


def fit_and_warn(
    ranker: Ranker,
    X: Matrix,
    y: Labels,
    weight: Array | None = None,
    is_told: Callable[[Warning], bool] = lambda warning: False,
) -> list[str]:
    """Fit, and give the warnings on that are not told anyway; all texts are the result."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            ranker.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
            ranker.set_params(verbose=0)
        except InvalidParameterError as error:
            raise OptionError(str(error)) from None
    for warning in said:
        if warning.category is LeakageWarning:  # `Training.cautions` names columns of the file
            continue
        if isinstance(warning.message, Warning) and is_told(warning.message):
            continue
        warnings.warn(warning.message, warning.category, stacklevel=3)
    others = [warning for warning in said if warning.category is not LeakageWarning]
    return sorted({str(warning.message) for warning in others})


def _forget_folds(ranker: Any) -> None:
    """Keep the number of folds instead of the rows in them, which a model file need not name."""
    if isinstance(getattr(ranker, "cv", None), list):
        ranker.cv = len(ranker.cv)


def spent(clock: list[float], stages: Sequence[str] = STAGES) -> dict[str, float]:
    """Seconds of each stage."""
    return dict(zip(stages, np.diff(clock).tolist(), strict=True))


def known(facts: About, layout: Layout, rule: LabelRule, ranker: Ranker) -> About:
    """What is known of a fit, apart from its columns and settings; `facts` tell of the data."""
    kind, proof = model_type_of(ranker), certificate(ranker)
    packages = [] if kind is None else kind.packages(ranker)
    return {
        "model": None if kind is None else kind.name,
        "versions": versions_of([*PACKAGES, *packages]),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": facts,
        "layout": layout,
        "label": asdict(rule) | {"others": list(rule.others)},
        **({} if proof is None else {"certificate": proof}),
    }


def with_file(
    function: Callable[Given, Made], file: Reader, *arguments: Given.args, **more: Given.kwargs
) -> Made:
    """Call, naming the file in an error, and the line of a CSV file."""
    try:
        return function(*arguments, **more)
    except DataError as error:
        raise file.placed(error) from None


def _learned(outputs: list[Column]) -> About:
    """What is known of a column besides its name."""
    first = outputs[0]
    if isinstance(first, Date):
        return {"parts": [one.part for one in outputs if isinstance(one, Date)]}
    if isinstance(first, Number):
        written = {"decimal": first.decimal, "unit": first.unit} if first.decimal else {}
        return written | ({} if first.keep_nan else {"fill": first.fill})
    return {"texts": len(first.categories)}


def described(
    columns: Columns | None,
    types: dict[str, str],
    width: int,
    drop: Collection[str],
    ids: Collection[str] = (),
) -> About:
    """What became of each column."""
    if columns is None:
        return {"numbered": width}
    return {
        "named": [
            {
                "name": name,
                "kind": type(outputs[0]).__name__.lower(),
                "type": types[name],
                "outputs": sum(one.width for one in outputs),
                "missing": columns.filled_.get(name, 0),
                **_learned(outputs),
            }
            for name, outputs in columns.by_source().items()
        ],
        "form": columns.form,
        "dropped": sorted(drop),
        "ids": sorted(ids),
        "empty": columns.empty_,
        "constant": columns.constant_,
    }
