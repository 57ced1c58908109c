"""Fits a model to a file in many parts, which the workers of a Dask cluster read and prepare.

The workers first summarise their parts: labels and columns. This process merges the summaries; the
workers read their parts again, keep the prepared rows, and the model is fitted there. This process
never holds rows.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Collection, Sequence
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
from toppush.system.reading import DataError, format_of, part_paths
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


class PartSummary(NamedTuple):
    """The summary of a part by a worker."""

    path: str
    n_rows: int
    labels: Counter[Value]
    """How often each label occurs."""
    label: str | None
    layout: Layout
    columns: Columns | None
    types: dict[str, str]
    fingerprint: str
    ids: tuple[str, ...]
    """Columns that look like ids."""
    blanks: int
    """Labels with blanks around them."""


class Common(NamedTuple):
    """Label, layout and columns of all parts together."""

    rule: LabelRule
    layout: Layout
    columns: Columns | None


class ColumnMoments(NamedTuple):
    """Statistics of a part, for scaling."""

    n_rows: int
    largest: Array
    mean: Array
    variance: Array


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
    except that missing numbers are filled with the median of the parts' medians, and folds take the
    rows of each class in turn.

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
    reading_options = ReadingOptions(
        label, tuple(drop), tuple(categorical), missing, kind, tuple(keep)
    )
    paths = [str(path.absolute()) for path in part_paths(where)]
    summaries: list[PartSummary] = []
    for summary in on_workers(summarise_or_error, paths, reading_options):
        if isinstance(summary, DataError):
            raise summary
        summaries.append(summary)
    ids = sorted(set.intersection(*(set(part.ids) for part in summaries)))
    labels = sum((part.labels for part in summaries), Counter())
    common = _in_common(summaries, labels, positive, ids)
    cautions = caution(ids)
    clock.append(time.perf_counter())
    X, y, scaler = _prepared(summaries, common, scale, reading_options)
    clock.append(time.perf_counter())
    linear = Linear()
    options = linear.options(lam=lam, top=top, loss=loss, scale=scale, cv=cv)
    ranker = linear.ranker_for(options)
    n_positives = labels[common.rule.positive]
    if isinstance(ranker, TopPushCV):
        require_folds(common.rule, n_positives, labels.total(), cv, where)
    try:
        cautions += fitting.fit_and_warn(ranker.set_params(verbose=verbose), X, y)
    except LostRows as error:
        raise DataError(str(error), file=where) from error
    clock.append(time.perf_counter())
    quality = metrics.summary(y, ranker.decision_function(X))
    clock.append(time.perf_counter())
    steps = [("columns", common.columns), ("scale", scaler), ("ranker", ranker)]
    fingerprints = "".join(part.fingerprint for part in summaries)
    data = {
        "file": Path(where).name,
        "kind": format_of(Path(paths[0]), kind),
        "fingerprint": hashlib.blake2b(fingerprints.encode(), digest_size=16).hexdigest(),
        "rows": sum(part.n_rows for part in summaries),
        "positives": n_positives,
        "parts": len(summaries),
    }
    settings = linear.settings(ranker, options)
    types, width = summaries[0].types, int(X.shape[1])
    settings |= {"scale": scale, "missing": missing, "seed": None}
    about = fitting.fit_record(data, common.layout, common.rule, ranker) | {
        "columns": fitting.columns_record(common.columns, types, width, drop, ids),
        "fit": settings,
        "description": linear.describe(settings),
        "warnings": cautions,
        "training": quality,
        "seconds": fitting.seconds_of(clock, STAGES),
    }
    return Model(Pipeline([(name, step) for name, step in steps if step is not None]), about)


# ---- what a worker does with a part


def summarise_or_error(path: str, options: ReadingOptions) -> PartSummary | DataError:
    """The summary of a part, or its error: workers log pages about an error that is raised."""
    try:
        return summarise(path, options)
    except DataError as error:
        return error


def summarise(path: str, options: ReadingOptions) -> PartSummary:
    """Read a part and summarise it."""
    columns, types = None, {}
    ids: tuple[str, ...] = ()
    with reading(path, options.kind) as file:
        fingerprint = file.fingerprint()
        rows = file.load(options.label, options.drop, options.categorical)
    if rows.label is not None:
        columns = Columns(categorical=options.categorical, text=(), missing=options.missing)
        fitting.with_file(columns.learn, file, rows.X)
        types = {column.name: str(column.type) for column in rows.X.schema}
        ids = id_like(rows.X, {*options.categorical, *options.keep})
    labels = fitting.with_file(count, file, rows.labels, rows.label)
    blanks = count_blanks(rows.labels)
    n_rows = len(rows.labels)
    return PartSummary(
        path, n_rows, labels, rows.label, rows.layout, columns, types, fingerprint, ids, blanks
    )


def prepare(path: str, common: Common, options: ReadingOptions) -> tuple[Matrix, Mask]:
    """Read a part again, as numbers, and which of its rows are positive."""
    steps = [] if common.columns is None else [("columns", common.columns)]
    about = {"label": asdict(common.rule), "layout": common.layout}
    reader = Model(Pipeline([*steps, ("ranker", TopPush())]), about)  # reads, but cannot score
    rows = labelled_rows(reader, path, kind=options.kind)
    if common.columns is None:
        return rows.X, rows.positive
    return common.columns.transform(rows.X), rows.positive


def column_moments(X: Matrix) -> ColumnMoments:
    """Greatest magnitude, mean and variance of every column."""
    moments = StandardScaler(with_mean=False).fit(X)
    return ColumnMoments(X.shape[0], MaxAbsScaler().fit(X).max_abs_, moments.mean_, moments.var_)


# ---- merging the summaries


def _in_common(
    summaries: Sequence[PartSummary],
    labels: Counter[Value],
    positive: str | None,
    ids: Sequence[str],
) -> Common:
    """Label, layout and columns of all parts, which must agree."""
    first, *others = summaries
    for part in others:
        if _label_type(part) != _label_type(first):
            raise DataError(
                f"the labels are {_label_type(part)}, and {_label_type(first)} in {first.path}.",
                file=part.path,
                column=part.label,
            )
    caution_blanks(sum(part.blanks for part in summaries), first.label)
    rule = choose(labels, first.label, positive)
    columns = None if first.columns is None else merged_columns(summaries, ids)
    layout = first.layout
    if "first" in layout:  # LIBSVM parts may use more columns than others
        start = min(part.layout["first"] for part in summaries)
        end = max(part.layout["first"] + part.layout["width"] for part in summaries)
        return Common(rule, layout | {"first": start, "width": end - start}, columns)
    for part in others:
        if part.layout != layout:
            raise DataError(
                f"has {part.layout.get('width')} columns, and {first.path} "
                f"{layout.get('width')}; all parts must have the same.",
                file=part.path,
            )
    return Common(rule, layout, columns)


def _label_type(part: PartSummary) -> str:
    return "strings" if any(isinstance(label, str) for label in part.labels) else "numbers"


def merged_columns(summaries: Sequence[PartSummary], ids: Sequence[str] = ()) -> Columns:
    """The columns of all parts except ids; all parts must have the same columns."""
    first = summaries[0]
    names = list(first.types)
    for part in summaries:
        if list(part.types) != names:
            other = set(part.types) ^ set(names)
            what = f"column {min(other)!r} is not in both" if other else "their order differs"
            raise DataError(f"has other columns than {first.path}: {what}.", file=part.path)
    parts = [
        LearnedPart(part.columns, part.n_rows, part.path)
        for part in summaries
        if part.columns is not None
    ]
    try:
        return merge(parts, [name for name in names if name not in ids])
    except DataError as error:
        raise error if error.file is not None else error.at(first.path) from None


# ---- rows on the workers


def _prepared(
    summaries: Sequence[PartSummary], common: Common, scale: str, options: ReadingOptions
) -> tuple[Matrix, Labels, MaxAbsScaler | StandardScaler | None]:
    """Scaled rows and labels that the workers hold, and the fitted scaler."""
    from toppush.designs.dask import Parts

    parts = Parts(prepare, [part.path for part in summaries], common, options)
    scaler = None if scale == "none" else _scaler(scale, parts.ask(column_moments))
    lengths = [part.n_rows for part in summaries]
    return (*parts.arrays(lengths, None if scaler is None else scaler.transform), scaler)


def _scaler(scale: str, parts: Sequence[ColumnMoments]) -> MaxAbsScaler | StandardScaler:
    """A scaler as if it had been fitted to all parts at once."""
    n_rows = sum(part.n_rows for part in parts)
    if scale == "maxabs":
        largest = np.max([part.largest for part in parts], axis=0)
        return by_sizes(MaxAbsScaler(), largest, n_rows)
    if scale != "standard":
        raise ValueError(f"scale is {scale!r}; use one of {', '.join(SCALES)}.")
    mean = np.sum([part.n_rows * part.mean for part in parts], axis=0) / n_rows
    apart = [part.n_rows * (part.variance + (part.mean - mean) ** 2) for part in parts]
    variance = np.sum(apart, axis=0) / n_rows
    scaler = StandardScaler(with_mean=False).fit(np.zeros((1, len(mean))))
    scaler.mean_, scaler.var_, scaler.n_samples_seen_ = mean, variance, n_rows
    scaler.scale_ = np.where(variance > 0.0, np.sqrt(variance), 1.0)
    return scaler
