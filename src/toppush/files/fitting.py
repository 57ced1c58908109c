"""Fits a model to a file: read the rows, prepare the columns, fit, and record how it went."""

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow as pa
from sklearn.pipeline import Pipeline
from sklearn.utils._param_validation import InvalidParameterError

from toppush import metrics
from toppush.explain.contributions import learn_reference
from toppush.files.readers import FileOrReader, Reader, reading
from toppush.files.reference import calibration_record, training_profile
from toppush.metrics.ranking import MAX_DEPTH
from toppush.modelfile.model import Model
from toppush.modeltypes import model_type_of, select_model_type
from toppush.modeltypes.base import About, FitRows, OptionError, RankerLike, Steps
from toppush.modeltypes.linear import certificate
from toppush.system.extras import versions_of
from toppush.system.reading import DataError
from toppush.tables import ids, leakage
from toppush.tables.column_types import Category, Column, Counts, Date, Number, Text
from toppush.tables.columns import Columns, learn, sizes_named, texts_of
from toppush.tables.labels import LabelRule, caution_blanks, choose, count, count_blanks
from toppush.tables.rows import NO_ROLES, NOTHING, Layout, LoadedRows, Roles, RoleValues, take_roles
from toppush.tables.scaling import fit_transform, scaler_of
from toppush.types import Array, Labels, Mask, Matrix

PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn", "skops", "pyarrow")
STAGES = ("reading", "preparing", "solving", "holding out", "measuring")
"""Stages of a fit whose seconds are recorded; "holding out" are the fits that calibrate scores."""
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ModelOptions(TypedDict, total=False):
    """Options of `fit` that only some model types take; None is the default.

    Attributes
    ----------
    lam : float or "cv", optional
        Strength of the penalty, or chosen by cross-validation, which is linear's default.
    top : int, float, "auto" or "cv", optional
        As for `TopPush`, or chosen by cross-validation, which is linear's default.
    loss : str, optional
    scale : {"maxabs", "standard", "none"}, optional
        "maxabs" where columns are scaled at all.
    members : int or sequence of str, optional
        How many models are averaged; of "auto" the names of its base models.
    effort : {"quick", "normal", "thorough"}, optional
        How much "auto" tries.
    seconds : float, optional
        Time after which "auto" starts no further fit.
    tol : float, optional
        Relative duality gap at which fits of the linear model end.
    scoring : str, optional
        The metric by which settings are chosen: a name of `toppush.metrics.METRICS` that needs no
        parameters, or of scikit-learn's scorers.
    cv : int, optional
        Number of folds; 5 for the linear model.
    threads : int, optional
        All cores by default.

    Examples
    --------
    >>> from toppush import files
    >>> options: files.ModelOptions = {"lam": 0.01, "top": 0.1}
    >>> options["top"]
    0.1
    """

    lam: float | str | None
    top: float | str | None
    loss: str | None
    scale: str | None
    members: int | Sequence[str] | None
    effort: str | None
    seconds: float | None
    tol: float | None
    scoring: str | None
    cv: int | None
    threads: int | None


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
    text: tuple[str, ...] = ()
    """Columns of free text."""
    roles: Roles = NO_ROLES
    held: RoleValues = NOTHING
    """Weights, groups and times of the rows."""

    def preparation(
        self, *, scale: str = "maxabs", missing: str = "impute", form: str = "filled"
    ) -> Steps:
        """Unfitted steps from these rows to numbers; they may overwrite what is made of a table."""
        table = self.rows.label is not None
        steps: Steps = []
        if table:
            columns = Columns(
                categorical=self.categorical, text=self.text, missing=missing, form=form
            )
            steps.append(("columns", columns))
        scaler = scaler_of(scale, copy=not table)
        return steps if scaler is None else [*steps, ("scale", scaler)]

    def cautions(self) -> list[str]:
        """Warn of columns that look like ids or may hold the label; the messages."""
        X = self.rows.X if not self.text else self.rows.X.drop_columns(list(self.text))
        leaks = leakage_cautions(X, self.positive, self.categorical, self.first)
        return ids.caution(self.ids) + leaks

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
    text: Collection[str] = (),
    keep: Collection[str] = (),
    roles: Roles = NO_ROLES,
    kind: str | None = None,
) -> Training:
    """Rows and labels of a file; parameters as for `fit`."""
    role_columns = roles.named.values()
    if twice := sorted({*text} & {*categorical}):
        raise OptionError(f"{twice[0]} is named as categorical and as text; choose one.")
    strings = (*categorical, *text)
    with reading(path, kind) as file:
        fingerprint = file.fingerprint()
        file.require(list(role_columns), used=(label, *drop))
        rows = file.load(label, [name for name in drop if name not in role_columns], strings)
    rows, role_values = with_file(take_roles, file, rows, roles)
    counts = with_file(count, file, rows.labels, rows.label)
    caution_blanks(count_blanks(rows.labels), rows.label)
    rule = with_file(choose, file, counts, rows.label, positive)
    positives = rule.positives(rows.labels)
    id_columns: tuple[str, ...] = ()
    if rows.label is not None:
        wanted = {name for name in text if name in rows.X.column_names}
        text = tuple(sorted(wanted.union(texts_of(rows.X, {*strings}))))
        id_columns = ids.id_like(rows.X, {*strings, *text, *keep})
    if id_columns:
        rows = rows._replace(X=rows.X.drop_columns(list(id_columns)))
    return Training(
        file, fingerprint, rows, positives, rule, tuple(categorical), id_columns, tuple(text),
        roles, role_values,
    )  # fmt: skip


def leakage_cautions(
    X: Matrix, positive: Mask, categorical: Collection[str] = (), first: int = 0
) -> list[str]:
    """Warn of columns that alone rank almost perfectly; the warning's text.

    Parameters
    ----------
    X : table or matrix
        The columns that a model learns from.
    positive : array of bool
    categorical : collection of str
        Columns of a table that are read as strings.
    first : int
        Number of a matrix's first column.
    """
    if not positive.any() or positive.all():
        return []
    if isinstance(X, pa.Table):
        rows = leakage.rows_to_check(positive, X.num_columns)
        columns = _column_values(X.take(pa.array(rows)), categorical)
        by_name = {leak.name: leak for leak in leakage.leaks_of(columns, positive[rows])}
        leaks, remedy = list(by_name.values()), "use --drop {names}"
    else:
        names = range(first, first + X.shape[1])
        leaks = leakage.leaks_of_matrix(X, names, (), positive)
        remedy = "leave it out of the file"
    if not leaks:
        return []
    remedy = remedy.format(names=",".join(str(leak.name) for leak in leaks))
    text = leakage.caution(leaks, remedy)
    warnings.warn(text, leakage.LeakageWarning, stacklevel=3)
    return [text]


def _column_values(table: pa.Table, categorical: Collection[str]) -> list[leakage.SampledColumn]:
    """The columns of a table as numbers or codes, by the name of their source."""
    values = []
    for name in table.column_names:
        cells = table[name].combine_chunks()
        if cells.null_count == len(cells):
            continue
        try:
            columns = learn(name, table[name], name in categorical, Counts())
        except DataError:  # reported where all rows are read
            continue
        for column in columns:
            numbers, missing = column.read(cells, Counts())
            numbers = numbers.astype(np.float64)
            if missing is not None:
                numbers[missing] = np.nan
            values.append(leakage.SampledColumn(name, numbers, isinstance(column, Category)))
    return values


def fit(
    path: FileOrReader,
    *,
    model: str | None = None,
    label: str | None = None,
    positive: str | None = None,
    sample_weight: str | None = None,
    groups: str | None = None,
    time: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    text: Collection[str] = (),
    keep: Collection[str] = (),
    missing: str = "impute",
    seed: int = 0,
    kind: str | None = None,
    verbose: int = 0,
    exports: Collection[str] = (),
    **options: Unpack[ModelOptions],
) -> Model:
    """Fit a ranker to a file of rows.

    An option that a model type does not take is refused; one that is not set has the default of
    the estimator.

    Parameters
    ----------
    path : path, or a reader that is open
        CSV, TSV, Parquet, Arrow, LIBSVM, NPZ or NPY.
    model : {"auto", "linear", "additive", "trees", "net"}, optional
        "auto" by default, and "linear" if one of lam, top, loss, scale and tol is set.
    label : str, optional
        Column of the labels; "label" in a table. Of an NPZ file the array, "y"; of an NPY file "0"
        or "-1", the first or last column, or another NPY file.
    positive : str, optional
        The label to rank first; by default the rarer of two strings, the greater of two numbers.
    sample_weight : str, optional
        Column of weights, which enter the fit and every metric.
    groups : str, optional
        Group column; groups are never split across folds.
    time : str, optional
        Column of dates or numbers; held-out rows are later than those that a fold trains on.
        These three columns are no features.
    drop, categorical : collection of str
        Columns to leave out, and columns to read as strings whatever they hold.
    text : collection of str
        Columns to read as free text whatever they hold; others are recognised. Model types other
        than "auto" and "linear" refuse text.
    keep : collection of str
        Columns to learn from although they look like ids.
    missing : {"impute", "error"}
    seed : int
        Seed of the folds and of everything else that is random.
    kind : str, optional
        The file format, if the ending does not say.
    verbose : int
        1 shows the progress of cross-validation and fit, see `TopPushCV`.
    exports : collection of str
        "onnx" and "weights": the exports to write after the fit. Free text, which they do not take,
        is refused before it.
    **options : ModelOptions
        Options of the model type: lam, top, loss, scale, tol, members, effort, seconds, scoring, cv
        and threads, see `ModelOptions`.

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
    for name in options:
        if name not in ModelOptions.__annotations__:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}")
    model_type = select_model_type(model, **options)
    model_type.require_engine()
    chosen = model_type.options(**options, groups=groups, time=time)
    scale = str(chosen.get("scale", model_type.scale or "none"))
    clock = [perf_counter()]
    training = read_training_file(
        path, label=label, positive=positive, drop=drop, categorical=categorical, text=text,
        keep=keep, roles=Roles(sample_weight, groups, time), kind=kind,
    )  # fmt: skip
    if why := model_type.refused_text(training.text, exports):
        raise training.file.error(why)
    clock.append(perf_counter())
    steps = training.preparation(scale=scale, missing=missing, form=model_type.form)
    X = training.rows.X
    for _, step in steps:
        X = with_file(fit_transform, training.file, step, X)
    cautions = training.cautions()
    clock.append(perf_counter())
    rows = FitRows(
        training.positive, training.rule, training.file.path, columns_of(steps), training.held
    )
    ranker = model_type.ranker(chosen, rows, seed).set_params(verbose=verbose)
    weight = rows.roles.weight
    with sizes_named(rows.columns, training.first, rows.path):
        cautions += fit_and_warn(ranker, X, rows.positive, weight, model_type.is_reported)
    facts = model_type.training_facts(ranker, X, rows)
    for text in (few := model_type.cautions(ranker, X, rows, seed)):
        warnings.warn(text, UserWarning, stacklevel=2)
    clock.append(perf_counter())
    _forget_folds(ranker)
    calibration = calibration_record(model_type, ranker, rows, X, seed)
    clock.append(perf_counter())
    quality = training_quality(ranker, X, rows.positive, weight)
    profile = training_profile(training.rows.X, rows.columns, training.first, ranker, X, weight)
    learn_reference(ranker, X, rows.positive)
    clock.append(perf_counter())
    settings = model_type.settings(ranker, chosen)
    data = {
        "file": rows.path.name,
        "kind": training.file.kind,
        "fingerprint": training.fingerprint,
        "rows": rows.n_rows,
        "positives": rows.n_positives,
        **training.roles.named,
    }
    schema = () if training.rows.label is None else training.rows.X.schema
    types = {column.name: str(column.type) for column in schema}
    width = int(training.rows.X.shape[1])
    settings |= {"scale": scale, "missing": missing, "seed": seed}
    about = fit_record(data, training.rows.layout, training.rule, ranker) | {
        "columns": columns_record(rows.columns, types, width, drop, training.ids),
        "fit": settings,
        "description": model_type.describe(settings),
        "warnings": [*cautions, *few],
        "seconds": seconds_of(clock),
        "scores": calibration,
        **quality,
        "profile": profile,
        **facts,
    }
    return Model(Pipeline([*steps, ("ranker", ranker)]), about)


def columns_of(steps: Steps) -> Columns | None:
    """The step that reads a table, if rows are a table."""
    first = steps[0][1] if steps else None
    return first if isinstance(first, Columns) else None


def training_quality(
    ranker: RankerLike, X: Matrix, positive: Mask, weight: Array | None = None
) -> About:
    """Metrics of out-of-fold scores if there are any, else of the training rows."""
    if weight is not None and weight.sum() > MAX_DEPTH:  # more ranks than metrics count
        weight = weight / weight.mean()
    scores = getattr(ranker, "out_of_fold_", None)
    if scores is not None:
        known = ~np.isnan(scores)
        if len(np.unique(positive[known])) == 2:
            known_weight = None if weight is None else weight[known]
            summary = metrics.summary(positive[known], scores[known], sample_weight=known_weight)
            return {"out_of_fold": summary | {"rows": int(known.sum())}}
    scores = ranker.decision_function(X)
    return {"training": metrics.summary(positive, scores, sample_weight=weight)}


def fit_and_warn(
    ranker: RankerLike,
    X: Matrix,
    y: Labels,
    weight: Array | None = None,
    is_reported: Callable[[Warning], bool] = lambda warning: False,
) -> list[str]:
    """Fit, and pass on the warnings that are not reported otherwise; the messages of all."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ranker.fit(X, y, **({} if weight is None else {"sample_weight": weight}))
            ranker.set_params(verbose=0)
        except InvalidParameterError as error:
            raise OptionError(str(error)) from None
    # `Training.cautions` warns of leakage by the names of the file.
    others = [known for known in caught if known.category is not leakage.LeakageWarning]
    for warning in others:
        if not (isinstance(warning.message, Warning) and is_reported(warning.message)):
            warnings.warn(warning.message, warning.category, stacklevel=3)
    return sorted({str(warning.message) for warning in others})


def _forget_folds(ranker: Any) -> None:
    """Keep the number of folds instead of their row numbers, which a model file does not need."""
    if isinstance(getattr(ranker, "cv", None), list):
        ranker.cv = len(ranker.cv)


def seconds_of(clock: list[float], stages: Sequence[str] = STAGES) -> dict[str, float]:
    """Seconds of each stage."""
    return dict(zip(stages, np.diff(clock).tolist(), strict=True))


def fit_record(data: About, layout: Layout, rule: LabelRule, ranker: RankerLike) -> About:
    """The record about a fit, apart from its columns and settings; `data` describes the rows."""
    model_type, bounds = model_type_of(ranker), certificate(ranker)
    packages = [] if model_type is None else model_type.packages(ranker)
    return {
        "model": None if model_type is None else model_type.name,
        "versions": versions_of([*PACKAGES, *packages]),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": data,
        "layout": layout,
        "label": asdict(rule) | {"others": list(rule.others)},
        **({} if bounds is None else {"certificate": bounds}),
    }


def with_file(
    function: Callable[Arguments, Result],
    file: Reader,
    *arguments: Arguments.args,
    **keywords: Arguments.kwargs,
) -> Result:
    """Call a function, naming the file in an error, and the line of a CSV file."""
    try:
        return function(*arguments, **keywords)
    except DataError as error:
        raise file.placed(error) from None


def columns_record(
    columns: Columns | None,
    types: dict[str, str],
    width: int,
    drop: Collection[str],
    id_columns: Collection[str] = (),
) -> About:
    """How each column was prepared."""
    if columns is None:
        return {"numbered": width}
    return {
        "named": [
            {
                "name": name,
                "kind": type(outputs[0]).__name__.lower(),
                "type": types[name],
                "outputs": sum(column.width for column in outputs),
                "missing": columns.filled_.get(name, 0),
                **_learned(outputs),
            }
            for name, outputs in columns.by_source().items()
        ],
        "form": columns.form,
        "dropped": sorted(drop),
        "ids": sorted(id_columns),
        "empty": columns.empty_,
        "constant": columns.constant_,
    }


def _learned(outputs: list[Column]) -> About:
    """What was learned of a column besides its name."""
    first = outputs[0]
    if isinstance(first, Date):
        order = {"order": first.order} if first.order else {}
        return order | {"parts": [column.part for column in outputs if isinstance(column, Date)]}
    if isinstance(first, Number):
        written = {"decimal": first.decimal, "unit": first.unit} if first.decimal else {}
        return written | ({} if first.keep_nan else {"fill": first.fill})
    if isinstance(first, Text):
        return {"terms": len(first.terms)}
    return {"categories": len(first.categories)}
