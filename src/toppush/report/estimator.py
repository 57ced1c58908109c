"""A report directly from a fitted ranker."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, OneHotEncoder
from sklearn.utils import _safe_indexing, get_tags

from toppush.explain.columns import before_scaling, sources
from toppush.matrices import dense, sliceable
from toppush.metrics.positive_class import classes_of, positive_label
from toppush.metrics.scoring import positives_of, scores_of
from toppush.models.additive import TopPushAdditive
from toppush.problem.losses import LOSSES
from toppush.report.budget import Budget
from toppush.report.contributions import (
    SAMPLED,
    Explained,
    Features,
    by_column,
    largest_curves,
    numbered,
    reasons_of,
    sampled,
)
from toppush.report.page import (
    N_ALARMS,
    N_SHOWN,
    POSITIVE_CLASS,
    Baseline,
    ModelDetails,
    build,
)
from toppush.report.ranking import Indices, Ranking, Table, table_records
from toppush.tables.frames import FROM_DTYPE, FrameColumns, are_plain
from toppush.types import Array, Mask, Matrix

BASELINE_ITERATIONS = 1000
MIN_IMPROVEMENT = 1e-3
"""Relative amount by which an objective must beat zero weights to count as better."""
ROUNDING = 1e-3
"""Part of the scores' range up to which a difference is explained by rounding."""
NOTES = {
    "TopPushTrees": "Contributions are Shapley values: the score of each tree is distributed over "
    "the columns on its path, averaged over all orders; contributions of all trees are added up.",
    "TopPushAdditive": "The score is a sum of one curve for each column: the contribution of a "
    "column is the height of its curve at the row's value, minus its mean height.",
    "TopRanker": "Contributions are weighted means over the base models; those of trees are "
    "Shapley values.",
    "TopPushNet": "Contributions are Shapley values: the columns change one after the other from a "
    "training row's values to this row's, averaged over several orders and training rows.",
}
OWN_NOTE = "Contributions are those that the ranker itself computes."
UNEXPLAINED = (
    "The score of {name} is not a sum over the columns, so this page shows no contributions."
)
OTHER_CLASS = (
    "{name} gives scores for the other class, so this page shows no contributions of columns."
)


class PageOptions(TypedDict, total=False):
    """Options of `build` that `from_estimator` passes on."""

    title: str
    k: int | None
    facts: Mapping[str, object] | None
    budget: Budget | None
    cautions: Sequence[str]


def from_estimator(
    ranker: BaseEstimator,
    X: Matrix,
    y: ArrayLike,
    X_train: Matrix = None,
    y_train: ArrayLike | None = None,
    *,
    rows: Table = None,
    feature_names: Sequence[str] | None = None,
    positive: object = None,
    scores: ArrayLike | None = None,
    probability: Callable[[Array], Array | None] | None = None,
    baseline_steps: Pipeline | None = None,
    **page: Unpack[PageOptions],
) -> str:
    """A self-contained HTML page about how a fitted ranker ranks rows.

    Pass rows that the ranker was not fitted to; figures of training rows are optimistic.

    Parameters
    ----------
    ranker : fitted ranker, pipeline ending in one, or search over one
        Of this package, or any estimator with `decision_function` or `predict_proba`, or a
        regressor. Contributions of features need `coef_` or `contributions`, and a certificate
        needs `solution_`.
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
    y : array of shape (n_rows,)
    X_train, y_train : optional
        The training rows. If given, logistic regression is fitted to them, prepared as for the
        ranker, and compared with it. Where the ranker takes a data frame or missing values
        itself, categories are one-hot encoded and missing values replaced by the median.
    rows : data frame, Arrow table or sequence of dict, optional
        One entry per row of X, with the columns to show for the first rows; by default X itself
        if it is a data frame.
    feature_names : sequence of str, optional
        Names of the features after the pipeline's preparation; by default those it reports.
    positive : optional
        The class to rank first; by default the one that a ranker of this package ranks first,
        else the greater of two numbers or the rarer of two strings.
    scores : array of shape (n_rows,), optional
        The ranker's scores of X, if they are known already.
    probability : callable, optional
        Calibrated probabilities of scores, such as `Model.probability`; the page compares them
        with the labels. It may return None if they are unknown.
    baseline_steps : Pipeline, optional
        Preparation of rows for logistic regression, if not as for the ranker; not fitted.
    **page
        `title`, `k`, `facts`, `budget` and `cautions` as for `build`.

    Returns
    -------
    str

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from toppush import report
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> X = (X - X.mean()) / X.std()
    >>> ranker = LogisticRegression().fit(X[::2], y[::2])
    >>> page = report.from_estimator(ranker, X[1::2], y[1::2], title="The other half")
    >>> report.write("report.html", page)
    """
    fitted = FittedRanker.of(getattr(ranker, "best_estimator_", ranker), feature_names)
    ranker, final = fitted.ranker, fitted.final
    X, X_train = (
        rows if rows is None or _is_table(rows) else sliceable(rows) for rows in (X, X_train)
    )
    prepared = fitted.prepared(X)
    positive = positive_label(y, [ranker], positive)
    scores = np.asarray(scores_of(ranker, X, positive) if scores is None else scores, np.float64)
    is_positive = positives_of(ranker, y, positive)
    ranking = Ranking.of(is_positive, scores)
    alarms = ranking.order[ranking.false_alarms(N_ALARMS)]
    classes, name = classes_of(ranker), type(final).__name__
    # Contributions are to the score of the second class.
    explains = classes is None or (len(classes) == 2 and positive in (None, classes[1]))
    features: Features | Explained | None = None
    if explains and fitted.is_linear(prepared, scores):
        features = fitted.features(X, alarms)
    elif explains and hasattr(final, "contributions"):
        features = fitted.explained(X, prepared, alarms)
    unexplained = "" if features else (UNEXPLAINED if explains else OTHER_CLASS).format(name=name)
    baseline = None
    if X_train is not None and y_train is not None:
        both = X_train, X
        if baseline_steps is not None:
            steps = list(baseline_steps)
        else:
            steps, both = _plain(final, fitted.prepared(X_train), prepared)
        baseline = _logistic(steps, *both, positives_of(ranker, y_train, positive))
    table = rows if rows is not None else X if _is_table(X) else None
    facts = fitted.facts(positive)
    if features is not None:
        facts["Features"] = f"{len(features.names):,}"
    if X_train is not None:
        facts["Training rows"] = f"{X_train.shape[0]:,}"
    page["facts"] = facts | dict(page.get("facts") or {})
    page["cautions"] = [_zero_caution(final), *page.get("cautions", ())]
    return build(
        is_positive,
        scores,
        name=name,
        preview=None if table is None else _safe_indexing(table, ranking.order[:N_SHOWN]),
        model=ModelDetails(
            features,
            unexplained,
            reasons_of(ranker, X, ranking, fitted.column_names()) if explains else None,
            getattr(final, "solution_", None),
            None if probability is None else probability(scores),
        ),
        baseline=baseline,
        **page,
    )


@dataclass(frozen=True, eq=False)
class FittedRanker:
    """A fitted ranker and its steps."""

    ranker: BaseEstimator
    prepare: Pipeline | None
    """All steps but the last; None if there are none."""
    final: BaseEstimator
    names: Sequence[str] | None
    """Names of the features that the last step sees, if the caller gave them."""

    @classmethod
    def of(cls, ranker: BaseEstimator, names: Sequence[str] | None) -> "FittedRanker":
        """Split off the last step of a pipeline."""
        if not isinstance(ranker, Pipeline):
            return cls(ranker, None, ranker, names)
        return cls(ranker, ranker[:-1] if len(ranker) > 1 else None, ranker[-1], names)

    def prepared(self, X: Matrix) -> Matrix:
        """The rows as the last step sees them."""
        return X if self.prepare is None else self.prepare.transform(X)

    def column_names(self) -> Sequence[str]:
        """Names of the columns of X if it has none itself."""
        if self.prepare is None and self.names is not None:
            return self.names
        return numbered(getattr(self.prepare or self.final, "n_features_in_", 0))

    def feature_names(self, prepare: Pipeline | None) -> list[str] | None:
        """Names of the features after some steps, if they are known."""
        if self.names is not None:
            return [str(name) for name in self.names]
        if prepare is not None and len(prepare):
            try:
                return [str(name) for name in prepare.get_feature_names_out()]
            except (AttributeError, ValueError):  # a step that does not name its output
                return None
        default = getattr(self.ranker, "feature_names_in_", None)
        names = getattr(self.final, "feature_names_in_", default)
        return None if names is None else [str(name) for name in names]

    def is_linear(self, prepared: Matrix, scores: Array) -> bool:
        """Whether scores are those of the weights; with a link function they are not."""
        final = self.final
        if isinstance(final, TopPushAdditive):
            return False
        if np.size(getattr(final, "coef_", ())) != prepared.shape[1]:
            return False
        difference = scores - prepared @ np.ravel(final.coef_)
        return bool(np.ptp(difference) <= ROUNDING * np.ptp(scores))

    def features(self, X: Matrix, rows: Indices) -> Features:
        """Weights of the features before scaling, and the columns of X that they are made from."""
        weights = np.ravel(self.final.coef_).astype(np.float64)
        before, weights = before_scaling(self.prepare, weights)
        columns, values = (None, None) if before is None else _columns(before, X, rows)
        return Features.of(
            X if before is None or not len(before) else before.transform(X),
            weights,
            self.feature_names(before),
            rows=rows,
            columns=columns,
            values=values,
        )

    def explained(self, X: Matrix, prepared: Matrix, rows: Indices) -> Explained:
        """Contributions of the columns of X to some scores, as computed by the ranker."""
        prepare, final = self.prepare, self.final
        owners, values = (None, None) if prepare is None else _columns(prepare, X, rows)
        if owners is None or values is None:
            owners = self.feature_names(prepare) or numbered(prepared.shape[1])
            records = _records(_safe_indexing(prepared, rows), rows, owners)
            values = {
                row: dict(zip(owners, record.values(), strict=True))
                for row, record in records.items()
            }
        where = sampled(prepared.shape[0], rows, getattr(final, "_n_explained", SAMPLED))
        # Contributions of trees have a further column for the remainder.
        amounts = final.contributions(_safe_indexing(prepared, where))[:, : len(owners)]
        names, amounts = by_column(amounts, owners)
        relative = amounts - amounts[len(rows) :].mean(axis=0)
        sizes = np.abs(relative[len(rows) :]).mean(axis=0)
        note = NOTES.get(type(final).__name__, OWN_NOTE)
        if left_out := getattr(final, "unexplained_", None):
            note += f" Left out: {', '.join(left_out)}, which have no contributions of columns."
        categories: list[list[str] | None] = [None] * len(owners)
        if prepare is not None and hasattr(prepare[0], "feature_categories"):
            categories = list(prepare[0].feature_categories())
        first = {name: list(owners).index(name) for name in names}
        curves = largest_curves(final, first, sizes, categories)
        explained = dict(zip(map(int, rows), relative, strict=False))
        return Explained(names, explained, sizes, values, len(where) - len(rows), curves, note)

    def facts(self, positive: object) -> dict[str, object]:
        """Positive class, steps, parameters and fitted attributes."""
        classes = classes_of(self.ranker)
        facts: dict[str, object] = {}
        if positive is not None:
            facts[POSITIVE_CLASS] = positive
        elif classes is not None and len(classes) == 2:
            facts[POSITIVE_CLASS] = classes[1]
        if isinstance(self.ranker, Pipeline):
            facts["Steps"] = " → ".join(type(step).__name__ for _, step in self.ranker.steps)
        parameters = self.final.get_params(deep=False)
        facts["Parameters"] = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        fitted = {"lam_": "Chosen lam", "top_": "Fitted top", "n_iter_": "Iterations"}
        for name, title in fitted.items():
            if hasattr(self.final, name):
                facts[title] = getattr(self.final, name)
        return facts


def _columns(
    before: Pipeline, X: Matrix, rows: Indices
) -> tuple[list[str] | None, dict[int, dict[str, object]] | None]:
    """Name of the column that each feature is made from, and the values of some rows."""
    if (made_of := sources(before, before.n_features_in_)) is None:
        return None, None
    default = [f"column {place + 1}" for place in range(before.n_features_in_)]
    names = [str(name) for name in getattr(before, "feature_names_in_", default)]
    return [names[column] for column in made_of], _records(_safe_indexing(X, rows), rows, names)


def _records(taken: Matrix, rows: Indices, names: Sequence[str]) -> dict[int, dict[str, object]]:
    """Values of some rows, by row number and column name; a table has names of its own."""
    if _is_table(taken):
        records = table_records(taken)
    else:
        records = [dict(zip(names, row, strict=True)) for row in dense(taken)]
    return dict(zip(map(int, rows), records, strict=True))


def _is_table(X: Matrix) -> bool:
    return hasattr(X, "column_names") or hasattr(X, "columns")


def _plain(
    final: BaseEstimator, X_train: Matrix, X: Matrix
) -> tuple[list[BaseEstimator], tuple[Matrix, Matrix]]:
    """Steps for logistic regression on rows that the ranker takes unprepared, and these rows.

    Categories are one-hot encoded, missing values imputed, columns scaled.
    """
    if not get_tags(final).input_tags.allow_nan:
        return [], (X_train, X)
    impute = SimpleImputer(strategy="median")
    if are_plain(X_train, FROM_DTYPE):
        return [impute, MaxAbsScaler()], (X_train, X)
    columns = FrameColumns.of(X_train, FROM_DTYPE, text_features=FROM_DTYPE)
    one_hot = OneHotEncoder(handle_unknown="ignore")
    both = ColumnTransformer([("one-hot", one_hot, columns.categorical)], remainder=impute)
    if columns.texts:
        parts = both.fit_transform(columns.numbers(X_train)), both.transform(columns.numbers(X))
        terms = columns.terms(X_train), columns.terms(X)
        train, test = (sparse.hstack(pair, "csr") for pair in zip(parts, terms, strict=True))
        return [MaxAbsScaler()], (train, test)
    return [both, MaxAbsScaler()], (columns.numbers(X_train), columns.numbers(X))


def _logistic(
    steps: Sequence[BaseEstimator], X_train: Matrix, X: Matrix, positive: Mask
) -> Baseline:
    """Logistic regression with scikit-learn's defaults but more iterations, after some steps."""
    pipeline = make_pipeline(*steps, LogisticRegression(max_iter=BASELINE_ITERATIONS))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        pipeline.fit(X_train, positive)
    note = f"Logistic regression with scikit-learn's defaults, trained on {X_train.shape[0]:,} rows"
    if any(issubclass(warning.category, ConvergenceWarning) for warning in caught):
        note += f", which did not converge in {BASELINE_ITERATIONS} iterations"
    return Baseline(pipeline.decision_function(X), note=f"{note}.")


def _zero_caution(final: BaseEstimator) -> str:
    """A caution if the fitted weights are no better than zero weights."""
    solution, loss = getattr(final, "solution_", None), LOSSES.get(getattr(final, "loss", ""))
    if solution is None or loss is None:
        return ""
    at_zero = float(loss.value(np.zeros(1))[0])
    if solution.upper < (1 - MIN_IMPROVEMENT) * at_zero:
        return ""
    return (
        "By the training objective, weights of zero are as good as the fitted ones "
        f"({at_zero:.4g} against {solution.upper:.4g}): no direction puts enough positives above "
        "the highest negatives. The rows are ranked by the direction in which a solution would "
        "lie. Rely on the results on rows that the model was not fitted to, and check whether "
        "another top or lam, or logistic regression, does better."
    )
