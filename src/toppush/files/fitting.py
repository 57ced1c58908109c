"""From a file to a model: read, prepare the columns, fit, and write down how it went."""

import time
import warnings
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from toppush import metrics
from toppush.estimators import choice as rules
from toppush.estimators.cross_validation import TopPushCV
from toppush.estimators.toppush import TopPush
from toppush.files.columns import Columns
from toppush.files.errors import BadColumns
from toppush.files.id_columns import caution, id_like
from toppush.files.labels import LabelRule, choose, count
from toppush.files.model.fitted import About, Model, Ranker, Steps
from toppush.files.model.saving import certificate
from toppush.files.readers import FileOrReader, LoadedRows, Reader, reading
from toppush.files.readers.base import Layout
from toppush.system.reading import DataError
from toppush.system.versions import versions_of
from toppush.types import Labels, Mask, Matrix

PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn", "skops", "pyarrow")
SCALES = ("maxabs", "standard", "none")
STAGES = ("reading", "preparing", "solving", "measuring")
Given = ParamSpec("Given")
Made = TypeVar("Made")
GAMMA_ROWS = 10_000
"""Rows from which the width of the kernel is taken."""


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
    """Columns that look like ids."""

    def preparation(self, *, scale: str = "maxabs", missing: str = "impute") -> Steps:
        """Steps from these rows to numbers; what is made of a table may be overwritten."""
        table = self.rows.label is not None
        steps: Steps = []
        if table:
            steps.append(("columns", Columns(categorical=self.categorical, missing=missing)))
        if scale == "maxabs":
            steps.append(("scale", MaxAbsScaler(copy=not table)))
        elif scale == "standard":
            # A shift of all rows changes no ranking, and would fill sparse rows.
            steps.append(("scale", StandardScaler(copy=not table, with_mean=False)))
        elif scale != "none":
            raise ValueError(f"scale is {scale!r}; give one of {', '.join(SCALES)}.")
        return steps


def read_training_file(
    path: FileOrReader,
    *,
    label: str | None = None,
    positive: str | None = None,
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    kind: str | None = None,
) -> Training:
    """Rows and labels of a file; parameters as for `fit`."""
    with reading(path, kind) as file:
        fingerprint = file.fingerprint()
        rows = file.load(label, drop, categorical)
    counts = with_file(count, file, rows.labels, rows.label)
    rule = with_file(choose, file, counts, rows.label, positive)
    positives = rule.positives(rows.labels)
    ids = id_like(rows.X, categorical) if rows.label is not None else ()
    return Training(file, fingerprint, rows, positives, rule, tuple(categorical), ids)


def fit(
    path: FileOrReader,
    *,
    label: str | None = None,
    positive: str | None = None,
    lam: float | str = "cv",
    top: float | str = "cv",
    loss: str = "truncated_quadratic",
    kernel: str | None = None,
    scale: str = "maxabs",
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    missing: str = "impute",
    cv: int = 5,
    seed: int = 0,
    kind: str | None = None,
    verbose: int = 0,
) -> Model:
    """Fit a ranker to a file of rows.

    Parameters
    ----------
    path : path, or a reader that is open
        CSV, TSV, Parquet, Arrow, LIBSVM, NPZ or NPY.
    label : str, optional
        Column of the labels; "label" in a table. Of an NPZ file the array, "y"; of an NPY file "0"
        or "-1", the first or last column, or another NPY file.
    positive : str, optional
        The label to rank first; by default the rarer of two texts, the greater of two numbers.
    lam : float or "cv"
        Strength of the penalty, or chosen by cross-validation.
    top : int, float, "auto" or "cv"
        As for `TopPush`, or chosen by cross-validation.
    loss : str
    kernel : str, optional
        "nystroem:500", or with a width "nystroem:500:0.1": 500 features of a Gaussian kernel
        exp(-gamma |x - z|^2); gamma is 1 / (columns x variance) unless it is given.
    scale : {"maxabs", "standard", "none"}
    drop, categorical : collection of str
        Columns to leave out, and columns to read as text whatever they hold.
    missing : {"impute", "error"}
    cv, seed : int
        Folds, and the seed that shuffles them and picks the kernel's rows.
    kind : str, optional
        The format, if the ending does not say.
    verbose : int
        1 shows how far the folds and the fit are, see `TopPushCV`.

    Returns
    -------
    Model
    """
    clock = [time.perf_counter()]
    given = read_training_file(
        path, label=label, positive=positive, drop=drop, categorical=categorical, kind=kind
    )
    clock.append(time.perf_counter())
    steps, X = _prepared(given, scale, missing, kernel, seed)
    cautions = caution(given.ids)
    clock.append(time.perf_counter())
    folds = StratifiedKFold(cv, shuffle=True, random_state=seed)
    ranker = ranker_for(lam, top, loss, folds)
    positives, rows = int(given.positive.sum()), len(given.positive)
    by_folds = isinstance(ranker, TopPushCV)
    if by_folds:
        require_folds(given.rule, positives, rows, cv, given.file.path)
    said = fit_and_warn(ranker.set_params(verbose=verbose), X, given.positive)
    rival = {"beside": beside(ranker, X, given.positive, folds)} if by_folds else {}
    clock.append(time.perf_counter())
    model = Model(Pipeline([*steps, ("ranker", ranker)]))
    facts = {
        "file": given.file.path.name,
        "kind": given.file.kind,
        "fingerprint": given.fingerprint,
        "rows": rows,
        "positives": positives,
    }
    schema = () if model.columns is None else given.rows.X.schema
    types = {column.name: str(column.type) for column in schema}
    training = metrics.summary(given.positive, ranker.decision_function(X))
    clock.append(time.perf_counter())
    model.about = known(facts, given.rows.layout, given.rule, ranker) | {
        "columns": described(model.columns, types, int(given.rows.X.shape[1]), drop),
        "fit": settings(ranker, kernel=kernel, scale=scale, missing=missing, cv=cv, seed=seed),
        "warnings": [*cautions, *said],
        "training": training,
        "seconds": spent(clock),
        **rival,
    }
    return model


def require_folds(rule: LabelRule, positives: int, rows: int, cv: int, path: str | Path) -> None:
    """Refuse more folds than the rarer class has rows: some would hold none of it out."""
    fewest = min(positives, rows - positives)
    if fewest < cv:
        raise DataError(
            f"{cv} folds are asked for with --cv, and there are {positives} positives "
            f"({rule.positive!r}) and {rows - positives} negatives; each fold needs one of each, "
            f"so ask for at most {fewest}" + (", or give --lam and --top." if fewest < 2 else "."),
            file=path,
        )


def fit_and_warn(ranker: Ranker, X: Matrix, y: Labels) -> list[str]:
    """Fit, and give the warnings on; their texts are the result."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ranker.fit(X, y).set_params(verbose=0)
    for warning in said:
        warnings.warn(warning.message, warning.category, stacklevel=3)
    return sorted({str(warning.message) for warning in said})


def spent(clock: list[float]) -> dict[str, float]:
    """Seconds of each stage."""
    return dict(zip(STAGES, np.diff(clock).tolist(), strict=True))


def _prepared(
    given: Training, scale: str, missing: str, kernel: str | None, seed: int
) -> tuple[Steps, Matrix]:
    """The fitted steps before the ranker, and what they make of the rows."""
    steps, X = given.preparation(scale=scale, missing=missing), given.rows.X
    for _, step in steps:
        X = with_file(step.fit_transform, given.file, X)
    if kernel is not None:
        steps.append(("kernel", _nystroem(kernel, X, seed)))
        X = steps[-1][1].fit_transform(X)
    return steps, X


def known(facts: About, layout: Layout, rule: LabelRule, ranker: Ranker) -> About:
    """What is known of a fit, apart from its columns and settings; `facts` tell of the data."""
    return {
        "versions": versions_of(PACKAGES),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": facts,
        "layout": layout,
        "label": asdict(rule) | {"others": list(rule.others)},
        "certificate": certificate(ranker),
    }


def ranker_for(
    lam: float | str, top: float | str, loss: str, folds: StratifiedKFold | int
) -> Ranker:
    """What fits the rows: by given settings, or by those that the folds choose."""
    if "cv" not in (lam, top):
        return TopPush(float(lam), top=top, loss=loss)
    lams = None if lam == "cv" else [float(lam)]
    return TopPushCV(lams, tops=None if top == "cv" else (top,), loss=loss, cv=folds)


def beside(ranker: Ranker, X: Matrix, positive: Mask, folds: StratifiedKFold) -> dict[str, float]:
    """Mean average precision over the folds of the chosen pair, and of logistic regression.

    Rows that a fold holds out weigh nothing, so none are copied.
    """
    theirs = []
    for train, test in folds.split(np.empty(len(positive)), positive):
        weight = np.zeros(len(positive))
        weight[train] = 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rival = LogisticRegression().fit(X, positive, sample_weight=weight)
        scores = rival.decision_function(X)
        theirs.append(metrics.average_precision(positive[test], scores[test]))
    found = ranker.cv_results_
    ours = found["mean_average_precision"][np.argmin(found["rank_test_score"])]
    return {"average_precision": float(ours), "logistic_regression": float(np.mean(theirs))}


def _nystroem(kernel: str, X: Matrix, seed: int) -> Nystroem:
    """The kernel map that a text such as nystroem:500:0.1 asks for."""
    try:
        name, count, *width = kernel.split(":")
        if name != "nystroem" or len(width) > 1 or int(count) < 1:
            raise ValueError
        gamma = float(width[0]) if width else _gamma(X)
    except ValueError:
        raise ValueError(f"kernel is {kernel!r}; write nystroem:500 or nystroem:500:0.1.") from None
    return Nystroem(gamma=gamma, n_components=min(int(count), X.shape[0]), random_state=seed)


def _gamma(X: Matrix) -> float:
    part = X[:: max(1, X.shape[0] // GAMMA_ROWS)]
    variance = float((part * part).mean() - part.mean() ** 2)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def with_file(
    function: Callable[Given, Made], file: Reader, *arguments: Given.args, **more: Given.kwargs
) -> Made:
    """Call, naming the file in an error, and the line where a text stands among numbers."""
    try:
        return function(*arguments, **more)
    except BadColumns as error:
        placed = [file.placed(one) for one in error.errors]
        raise BadColumns(placed, error.names, file.path) from None
    except DataError as error:
        raise file.placed(error) from None


def described(
    columns: Columns | None, types: dict[str, str], width: int, drop: Collection[str]
) -> About:
    """What became of each column."""
    if columns is None:
        return {"numbered": width}
    return {
        "named": [
            {
                "name": one.name,
                "kind": type(one).__name__.lower(),
                "type": types[one.name],
                "outputs": one.width,
                "missing": columns.filled_.get(one.name, 0),
                **({"fill": one.fill} if hasattr(one, "fill") else {"texts": len(one.texts)}),
            }
            for one in columns.columns_
        ],
        "dropped": sorted(drop),
        "empty": columns.empty_,
        "constant": columns.constant_,
    }


def settings(ranker: Ranker, **given: str | int | None) -> About:
    """The settings of a fit, and how they were chosen."""
    chosen = isinstance(ranker, TopPushCV)
    return {
        "lam": float(ranker.lam_ if chosen else ranker.lam),
        "lams_tried": [float(ranker.lams_[0]), float(ranker.lams_[-1])] if chosen else None,
        "top": ranker.top_,
        "loss": ranker.loss,
        "chosen_by_cv": chosen,
        "cv_measure": (ranker.scoring or rules.NAME) if chosen else None,
        "cv_score": ranker.best_score_ if chosen else None,
        **given,
    }
