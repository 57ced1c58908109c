"""A model from a file in many parts, which the workers of a Dask cluster read and prepare.

The workers look at their parts first: labels, columns, gaps. What all parts have in common is then
fixed here, they read again and keep the prepared rows, and the fit goes on where these are. This
process never holds rows.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from toppush import metrics
from toppush.files import fitting
from toppush.files.readers import reading
from toppush.files.scoring import labelled_rows
from toppush.modelfile.model import Model
from toppush.models.linear import TopPush
from toppush.models.linear_cv import TopPushCV
from toppush.modeltypes.base import require_folds
from toppush.modeltypes.linear import Linear
from toppush.system.reading import DataError, kind_of, part_paths
from toppush.tables.columns import Columns, LearnedPart, merge
from toppush.tables.ids import caution, id_like
from toppush.tables.labels import LabelRule, Value, caution_blanks, choose, count, count_blanks
from toppush.tables.rows import Layout
from toppush.tables.scaling import SCALES, by_sizes
from toppush.types import Array, Labels, Mask, Matrix

STAGES = tuple(stage for stage in fitting.STAGES if stage != "holding out")


class ReadingOptions(NamedTuple):
    """How every part is read; as for `fit`."""

    label: str | None
    drop: tuple[str, ...]
    categorical: tuple[str, ...]
    missing: str
    kind: str | None
    keep: tuple[str, ...] = ()


class Seen(NamedTuple):
    """What a worker saw in a part."""

    path: str
    n_rows: int
    labels: Counter[Value]
    """How often there is each label."""
    label: str | None
    layout: Layout
    columns: Columns | None
    types: dict[str, str]
    fingerprint: str
    ids: tuple[str, ...]
    """Columns that look like ids."""
    blanks: int
    """Labels with blanks around them."""


def fit_parts(
    where: str | Path,
    *,
    label: str | None = None,
    positive: str | None = None,
    lam: float | str = "cv",
    top: float | str = "cv",
    loss: str = "truncated_quadratic",
    scale: str = "maxabs",
    drop: Collection[str] = (),
    categorical: Collection[str] = (),
    keep: Collection[str] = (),
    missing: str = "impute",
    cv: int = 5,
    kind: str | None = None,
    verbose: int = 0,
) -> Model:
    """Fit a ranker to a file in parts, on the workers of the running Dask client.

    Every worker must see the files under the same names. The model is that of `fit` on all rows,
    but for this: a gap is filled with the median of the parts' medians, and the folds take the rows
    of each class in turn.

    Parameters
    ----------
    where : path
        A folder, a pattern such as ``"rows/part-*.parquet"``, or one file.
    label, positive, lam, top, loss, scale, drop, categorical, keep, missing, cv, kind, verbose
        As for `fit`.

    Returns
    -------
    Model

    Examples
    --------
    >>> from distributed import Client
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import files
    >>> load_breast_cancer(as_frame=True).frame.to_csv("train.csv", index=False)
    >>> with Client(processes=False, dashboard_address="127.0.0.1:0"):
    ...     model = files.fit_parts("train.csv", label="target", lam=0.01, top=0.1)
    ...
    >>> type(model.ranker).__name__
    'TopPush'
    """
    from toppush.designs.dask import LostRows, on_workers

    clock = [time.perf_counter()]
    how = ReadingOptions(label, tuple(drop), tuple(categorical), missing, kind, tuple(keep))
    paths = [str(path.absolute()) for path in part_paths(where)]
    seen = _all_sound(on_workers(looked, paths, how))
    ids = sorted(set.intersection(*(set(part.ids) for part in seen)))
    common = _in_common(seen, positive, how, ids)
    cautions = caution(ids)
    clock.append(time.perf_counter())
    X, y, scaler = _prepared(seen, common, scale, how)
    clock.append(time.perf_counter())
    linear = Linear()
    options = linear.options(lam=lam, top=top, loss=loss, scale=scale, cv=cv)
    ranker = linear.ranker_for(options)
    labels = sum((part.labels for part in seen), Counter())
    positives = labels[common.rule.positive]
    if isinstance(ranker, TopPushCV):
        require_folds(common.rule, positives, labels.total(), cv, where)
    try:
        said = cautions + fitting.fit_and_warn(ranker.set_params(verbose=verbose), X, y)
    except LostRows as error:
        raise DataError(str(error), file=where) from error
    clock.append(time.perf_counter())
    steps = [("columns", common.columns), ("scale", scaler), ("ranker", ranker)]
    model = Model(Pipeline([(name, step) for name, step in steps if step is not None]))
    joined = "".join(part.fingerprint for part in seen)
    facts = {
        "file": Path(where).name,
        "kind": kind_of(Path(paths[0]), kind),
        "fingerprint": hashlib.blake2b(joined.encode(), digest_size=16).hexdigest(),
        "rows": sum(part.n_rows for part in seen),
        "positives": positives,
        "parts": len(seen),
    }
    width = int(X.shape[1])
    training = metrics.summary(y, ranker.decision_function(X))
    clock.append(time.perf_counter())
    model.about = fitting.known(facts, common.layout, common.rule, ranker) | {
        "columns": fitting.described(common.columns, seen[0].types, width, drop, ids),
        "fit": linear.settings(ranker, options)
        | {"scale": scale, "missing": missing, "seed": None},
        "warnings": said,
        "training": training,
        "seconds": fitting.spent(clock, STAGES),
    }
    return model


# ---- what a worker does with a part


def looked(path: str, how: ReadingOptions) -> Seen | DataError:
    """What `look` sees, or why it cannot: a worker logs pages about an error that is raised."""
    try:
        return look(path, how)
    except DataError as error:
        return error


def _all_sound(found: Iterable[Seen | DataError]) -> list[Seen]:
    seen = []
    for part in found:
        if isinstance(part, DataError):
            raise part
        seen.append(part)
    return seen


def look(path: str, how: ReadingOptions) -> Seen:
    """Read a part and tell what it holds."""
    columns, types = None, {}
    ids: tuple[str, ...] = ()
    with reading(path, how.kind) as file:
        fingerprint = file.fingerprint()
        rows = file.load(how.label, how.drop, how.categorical)
    if rows.label is not None:
        columns = Columns(categorical=how.categorical, missing=how.missing)
        fitting.with_file(columns.learn, file, rows.X)
        types = {column.name: str(column.type) for column in rows.X.schema}
        ids = id_like(rows.X, {*how.categorical, *how.keep})
    labels = fitting.with_file(count, file, rows.labels, rows.label)
    n_rows = len(rows.labels)
    blanks = count_blanks(rows.labels)
    return Seen(
        path, n_rows, labels, rows.label, rows.layout, columns, types, fingerprint, ids, blanks
    )


class Common(NamedTuple):
    """What all parts have in common."""

    rule: LabelRule
    layout: Layout
    columns: Columns | None


def prepare(path: str, common: Common, how: ReadingOptions) -> tuple[Matrix, Mask]:
    """Read a part again, as numbers, and which of its rows are positive."""
    steps = [] if common.columns is None else [("columns", common.columns)]
    about = {"label": asdict(common.rule), "layout": common.layout}
    reader = Model(Pipeline([*steps, ("ranker", TopPush())]), about)  # reads, but cannot score
    rows = labelled_rows(reader, path, kind=how.kind)
    if common.columns is None:
        return rows.X, rows.positive
    return common.columns.transform(rows.X), rows.positive


class ColumnMoments(NamedTuple):
    """What scaling must know of a part."""

    n_rows: int
    largest: Array
    mean: Array
    variance: Array


def column_moments(X: Matrix) -> ColumnMoments:
    """Greatest size, mean and variance of every column."""
    moments = StandardScaler(with_mean=False).fit(X)
    return ColumnMoments(X.shape[0], MaxAbsScaler().fit(X).max_abs_, moments.mean_, moments.var_)


# ---- what the parts have in common


def _in_common(
    seen: Sequence[Seen], positive: str | None, how: ReadingOptions, ids: Sequence[str]
) -> Common:
    first = seen[0]
    for part in seen[1:]:
        if _kind(part) != _kind(first):
            raise DataError(
                f"the labels are {_kind(part)}, and {_kind(first)} in {first.path}.",
                file=part.path,
                column=part.label,
            )
    labels = sum((part.labels for part in seen), Counter())
    caution_blanks(sum(part.blanks for part in seen), first.label)
    rule = choose(labels, first.label, positive)
    columns = None if first.columns is None else merged(seen, ids)
    return Common(rule, _layout(seen), columns)


def _kind(part: Seen) -> str:
    """What the labels of a part are."""
    return "strings" if any(isinstance(label, str) for label in part.labels) else "numbers"


def _layout(seen: Sequence[Seen]) -> Layout:
    """What scoring another file must know; LIBSVM parts may use more columns than others do."""
    layout = seen[0].layout
    if "first" in layout:
        first = min(part.layout["first"] for part in seen)
        end = max(part.layout["first"] + part.layout["width"] for part in seen)
        return layout | {"first": first, "width": end - first}
    for part in seen:
        if part.layout != layout:
            raise DataError(
                f"has {part.layout.get('width')} columns, and {seen[0].path} "
                f"{layout.get('width')}; all parts must have the same.",
                file=part.path,
            )
    return layout


def merged(seen: Sequence[Seen], ids: Sequence[str] = ()) -> Columns:
    """The columns of all parts except ids; all parts must have the same columns."""
    names = list(seen[0].types)
    for part in seen:
        if list(part.types) != names:
            other = set(part.types) ^ set(names)
            what = f"column {min(other)!r} is not in both" if other else "their order differs"
            raise DataError(f"has other columns than {seen[0].path}: {what}.", file=part.path)
    parts = [
        LearnedPart(part.columns, part.n_rows, part.path)
        for part in seen
        if part.columns is not None
    ]
    try:
        return merge(parts, [name for name in names if name not in ids])
    except DataError as error:
        raise error if error.file is not None else error.at(seen[0].path) from None


# ---- rows on the workers


def _prepared(
    seen: Sequence[Seen], common: Common, scale: str, how: ReadingOptions
) -> tuple[Matrix, Labels, MaxAbsScaler | StandardScaler | None]:
    """Scaled rows and labels that the workers hold, and the fitted scaler."""
    from toppush.designs.dask import Parts

    parts = Parts(prepare, [part.path for part in seen], common, how)
    scaler = None if scale == "none" else _scaler(scale, parts.ask(column_moments))
    lengths = [part.n_rows for part in seen]
    return (*parts.arrays(lengths, None if scaler is None else scaler.transform), scaler)


def _scaler(scale: str, parts: Sequence[ColumnMoments]) -> MaxAbsScaler | StandardScaler:
    """A scaler as if it had been fitted to all parts at once."""
    n_rows = sum(part.n_rows for part in parts)
    if scale == "maxabs":
        largest = np.max([part.largest for part in parts], axis=0)
        return by_sizes(MaxAbsScaler(), largest, n_rows)
    if scale != "standard":
        raise ValueError(f"scale is {scale!r}; give one of {', '.join(SCALES)}.")
    mean = np.sum([part.n_rows * part.mean for part in parts], axis=0) / n_rows
    apart = [part.n_rows * (part.variance + (part.mean - mean) ** 2) for part in parts]
    variance = np.sum(apart, axis=0) / n_rows
    scaler = StandardScaler(with_mean=False).fit(np.zeros((1, len(mean))))
    scaler.mean_, scaler.var_, scaler.n_samples_seen_ = mean, variance, n_rows
    scaler.scale_ = np.where(variance > 0.0, np.sqrt(variance), 1.0)
    return scaler
