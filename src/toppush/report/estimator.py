"""A report straight from a fitted ranker."""

import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike
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
from toppush.metrics.labels import classes_of, positive_label
from toppush.metrics.scoring import positives_of, scores_of
from toppush.models.features import FeatureRanker
from toppush.problem.losses import LOSSES
from toppush.report.budget import Budget
from toppush.report.drivers import Features, numbered
from toppush.report.explained import SAMPLED, Explained, by_column, largest_curves, sampled
from toppush.report.page import N_ALARMS, N_SHOWN, POSITIVE_CLASS, Rival, build
from toppush.report.ranking import Indices, Ranking, Table, table_records
from toppush.report.reasons import reasons_of
from toppush.tables.frames import FROM_DTYPE, FrameColumns, are_plain
from toppush.types import Array, Mask, Matrix

RIVAL_ITERATIONS = 1000
NEARLY = 1e-3
"""Share by which an objective must beat weights of zero to count as better."""
WALKED = (
    "The row's score is shared out among the columns as they go over, one after the other, from a "
    "training row's values to this row's, in several orders and from several rows (Shapley values)."
)
LINEAR = 1e-3
"""Share of the scores' range up to which rounding explains a difference."""
TOLD = {
    "TopPushTrees": "Every tree's answer is shared out among the columns it asked on the way, by "
    "the mean over all orders of asking (Shapley values); of all trees that is what a column adds.",
    "TopPushAdditive": "The score is a sum of one curve for each column, so each adds a known "
    "amount: the height of its curve at the row's value, less its mean height.",
    "TopRanker": "Every member shares out its score among the columns, trees by Shapley values; "
    "what a column adds is the mean of these, by the members' weights.",
    "TopPushNet": WALKED,
}
SHARED_OUT = "The ranker itself shares out a row's score among the columns."
UNEXPLAINED = (
    "The score of {name} is no sum over the columns, and this page does not guess what each of "
    "them adds to it."
)

TURNED = (
    "{name} gives scores for another class, and this page, whose list is turned round, does not "
    "say what each column adds to them."
)


def from_estimator(
    ranker: BaseEstimator,
    X: Matrix,
    y: ArrayLike,
    X_train: Matrix = None,
    y_train: ArrayLike | None = None,
    *,
    rows: Table = None,
    feature_names: Sequence[str] | None = None,
    title: str = "Ranking report",
    k: int | None = None,
    facts: Mapping[str, object] | None = None,
    baseline_steps: Pipeline | None = None,
    probability: Callable[[Array], Array | None] | None = None,
    positive: object = None,
    scores: ArrayLike | None = None,
    budget: Budget | None = None,
    cautions: Sequence[str] = (),
) -> str:
    """A self-contained HTML page about how a fitted ranker ranks rows.

    Pass rows that the ranker has not seen: on its training rows every ranker looks better than
    it is.

    Parameters
    ----------
    ranker : fitted ranker, pipeline ending in one, or search over one
        Of this package, or any with `decision_function` or `predict_proba`, or a regressor; without
        `coef_` and without `contributions` the page says nothing of features, and without
        `solution_` nothing of a certificate.
    X : array, sparse matrix or data frame of shape (n_rows, n_columns)
    y : array of shape (n_rows,)
    X_train, y_train : optional
        The rows of the fit. If given, logistic regression learns from them, prepared as for the
        ranker, and is compared with it. Where the ranker takes a data frame or missing values
        itself, categories become columns and missing values the median.
    rows : data frame, Arrow table or sequence of dict, optional
        One entry per row of X, with the columns to show of the first rows; by default X itself
        if it is a data frame.
    feature_names : sequence of str, optional
        Names of the features after the pipeline's preparation; by default those it tells.
    title, k, facts
        As for `build`.
    baseline_steps : Pipeline, optional
        How logistic regression prepares the rows, if not as the ranker does; not fitted.
    probability : callable, optional
        Calibrated probabilities of scores, such as `Model.probability`; the page compares them
        with the labels. None where it cannot tell.
    positive : optional
        The class to rank first; by default the one that a ranker of this package ranks first,
        else the greater of two numbers or the rarer of two strings.
    scores : array of shape (n_rows,), optional
        The ranker's scores of X, if they are known already.
    budget, cautions
        As for `build`.

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
    ranker = getattr(ranker, "best_estimator_", ranker)
    prepare, final = (ranker[:-1], ranker[-1]) if isinstance(ranker, Pipeline) else (None, ranker)
    X, X_train = (one if one is None or _is_table(one) else sliceable(one) for one in (X, X_train))
    prepared = _prepared(prepare, X)
    positive = positive_label(y, [ranker], positive)
    scores = np.asarray(scores_of(ranker, X, positive) if scores is None else scores, np.float64)
    found = positives_of(ranker, y, positive)
    ranking = Ranking.of(found, scores)
    features: Features | Explained | None = None
    alarms = ranking.order[ranking.false_alarms(N_ALARMS)]
    tells = _is_of_second_class(ranker, positive)
    if not tells:
        pass  # what adds to the score of another class, nobody tells
    elif _is_linear(final, prepared, scores):
        features = _features(ranker, prepare, final, X, alarms, feature_names)
    elif hasattr(final, "contributions"):
        features = _explained(ranker, prepare, final, X, prepared, alarms, feature_names)
    rival = None
    if X_train is not None and y_train is not None:
        trained_on = positives_of(ranker, y_train, positive)
        rows_of_both = X_train, X
        if baseline_steps is None:
            steps, rows_of_both = _plain(final, _prepared(prepare, X_train), prepared)
        else:
            steps = list(baseline_steps)
        rival = _logistic(steps, *rows_of_both, trained_on)
    table = rows if rows is not None else X if _is_table(X) else None
    return build(
        found,
        scores,
        title=title,
        name=type(final).__name__,
        k=k,
        preview=None if table is None else _safe_indexing(table, ranking.order[:N_SHOWN]),
        features=features,
        unexplained=_unexplained(final, tells) if features is None else "",
        reasons=reasons_of(ranker, X, ranking, _called(prepare, final, feature_names))
        if tells
        else None,
        solution=getattr(final, "solution_", None),
        rival=rival,
        facts=_facts(ranker, final, features, X_train, positive) | dict(facts or {}),
        cautions=[_caution(final), *cautions],
        budget=budget,
        shares=None if probability is None else probability(scores),
    )


def _called(
    prepare: Pipeline | None, final: BaseEstimator, names: Sequence[str] | None
) -> Sequence[str]:
    """What columns are called that have no names of their own."""
    if prepare is None and names is not None:
        return names
    return numbered(getattr(prepare or final, "n_features_in_", 0))


def _unexplained(final: BaseEstimator, tells: bool) -> str:
    return (UNEXPLAINED if tells else TURNED).format(name=type(final).__name__)


def _is_of_second_class(ranker: BaseEstimator, positive: object) -> bool:
    classes = classes_of(ranker)
    return classes is None or (len(classes) == 2 and positive in (None, classes[1]))


def _is_linear(final: BaseEstimator, prepared: Matrix, scores: Array) -> bool:
    """Whether the weights of the last step make the scores: those of a link function do not."""
    if np.size(getattr(final, "coef_", ())) != prepared.shape[1] or isinstance(
        final, FeatureRanker
    ):
        return False
    apart = scores - prepared @ np.ravel(final.coef_)
    return bool(np.ptp(apart) <= LINEAR * np.ptp(scores))


def _prepared(prepare: Pipeline | None, X: Matrix) -> Matrix:
    return X if prepare is None or not len(prepare) else prepare.transform(X)


def _features(
    ranker: BaseEstimator,
    prepare: Pipeline | None,
    final: BaseEstimator,
    X: Matrix,
    rows: Indices,
    names: Sequence[str] | None,
) -> Features:
    """Weights of the features before scaling, and the columns of X that they are made of."""
    before, weights = before_scaling(prepare, np.ravel(final.coef_).astype(np.float64))
    names = names if names is not None else _names(ranker, before, final)
    columns, given = (None, None) if before is None else _columns(before, X, rows)
    return Features.of(
        _prepared(before, X), weights, names, rows=rows, columns=columns, given=given
    )


def _explained(
    ranker: BaseEstimator,
    prepare: Pipeline | None,
    final: BaseEstimator,
    X: Matrix,
    prepared: Matrix,
    rows: Indices,
    names: Sequence[str] | None,
) -> Explained:
    """What the columns of X add to some scores, as the ranker itself tells."""
    before = prepare if prepare is not None and len(prepare) else None
    owners, given = (None, None) if before is None else _columns(before, X, rows)
    if owners is None or given is None:
        owners = list(names or _names(ranker, before, final) or numbered(prepared.shape[1]))
        given = {
            row: dict(zip(owners, record.values(), strict=True))
            for row, record in _held(_safe_indexing(prepared, rows), rows, owners).items()
        }
    where = sampled(prepared.shape[0], rows, getattr(final, "_n_explained", SAMPLED))
    # Trees add the rest after the columns.
    added = final.contributions(_safe_indexing(prepared, where))[:, : len(owners)]
    called, amounts = by_column(added, owners)
    away = amounts - amounts[len(rows) :].mean(axis=0)
    sizes = np.abs(away[len(rows) :]).mean(axis=0)
    told = TOLD.get(type(final).__name__, SHARED_OUT)
    if left_out := getattr(final, "unexplained_", None):
        told += f" Left out: {', '.join(left_out)}, of which no contributions of columns are known."
    found = dict(zip(map(int, rows), away, strict=False))
    first = {name: list(owners).index(name) for name in called}
    curves = largest_curves(final, first, sizes, _texts(before, len(owners)))
    return Explained(called, found, sizes, given, len(where) - len(rows), curves, told)


def _texts(before: Pipeline | None, width: int) -> list[list[str] | None]:
    """The texts that the numbers of each feature stand for, if someone knows."""
    if before is not None and hasattr(before[0], "feature_categories"):
        return list(before[0].feature_categories())
    return [None] * width


def _columns(
    before: Pipeline, X: Matrix, rows: Indices
) -> tuple[list[str] | None, dict[int, dict[str, object]] | None]:
    """Name of the column that each feature is made of, and what some rows hold there."""
    if (made_of := sources(before, before.n_features_in_)) is None:
        return None, None
    numbered = [f"column {place + 1}" for place in range(before.n_features_in_)]
    called = [str(name) for name in getattr(before, "feature_names_in_", numbered)]
    return [called[one] for one in made_of], _held(_safe_indexing(X, rows), rows, called)


def _held(taken: Matrix, rows: Indices, names: Sequence[str]) -> dict[int, dict[str, object]]:
    """What some rows hold, by number and name of the column; a table has names of its own."""
    if _is_table(taken):
        records = table_records(taken)
    else:
        records = [dict(zip(names, row, strict=True)) for row in dense(taken)]
    return dict(zip(map(int, rows), records, strict=True))


def _is_table(X: Matrix) -> bool:
    return hasattr(X, "column_names") or hasattr(X, "columns")


def _names(
    ranker: BaseEstimator, prepare: Pipeline | None, final: BaseEstimator
) -> list[str] | None:
    """Names of the features as the final step sees them, if anyone knows."""
    if prepare is not None and len(prepare):
        try:
            return [str(name) for name in prepare.get_feature_names_out()]
        except (AttributeError, ValueError):  # a step that has none to tell
            return None
    names = getattr(final, "feature_names_in_", getattr(ranker, "feature_names_in_", None))
    return None if names is None else [str(name) for name in names]


def _plain(
    final: BaseEstimator, X_train: Matrix, X: Matrix
) -> tuple[list[BaseEstimator], tuple[Matrix, Matrix]]:
    """Steps by which logistic regression takes what the ranker takes itself, and rows for them.

    Categories of a table become one column each, missing values are filled, columns scaled.
    """
    if not get_tags(final).input_tags.allow_nan:
        return [], (X_train, X)
    fill = SimpleImputer(strategy="median")
    if are_plain(X_train, FROM_DTYPE):
        return [fill, MaxAbsScaler()], (X_train, X)
    columns = FrameColumns.of(X_train, FROM_DTYPE)
    texts = OneHotEncoder(handle_unknown="ignore")
    both = ColumnTransformer([("texts", texts, columns.categorical)], remainder=fill)
    return [both, MaxAbsScaler()], (columns.numbers(X_train), columns.numbers(X))


def _logistic(steps: Sequence[BaseEstimator], X_train: Matrix, X: Matrix, positive: Mask) -> Rival:
    """Logistic regression with scikit-learn's defaults and time to converge, after some steps."""
    rival = make_pipeline(*steps, LogisticRegression(max_iter=RIVAL_ITERATIONS))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        rival.fit(X_train, positive)
    note = f"Logistic regression with scikit-learn's defaults, trained on {X_train.shape[0]:,} rows"
    if any(issubclass(warning.category, ConvergenceWarning) for warning in said):
        note += f", which did not converge in {RIVAL_ITERATIONS} iterations"
    return Rival(rival.decision_function(X), note=f"{note}.")


def _facts(
    ranker: BaseEstimator,
    final: BaseEstimator,
    features: Features | Explained | None,
    X_train: Matrix,
    positive: object,
) -> dict[str, object]:
    classes = classes_of(ranker)
    facts: dict[str, object] = {}
    if positive is not None or (classes is not None and len(classes) == 2):
        facts[POSITIVE_CLASS] = positive if positive is not None or classes is None else classes[1]
    if isinstance(ranker, Pipeline):
        facts["Steps"] = " → ".join(type(step).__name__ for _, step in ranker.steps)
    parameters = final.get_params(deep=False)
    facts["Parameters"] = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
    fitted = {"lam_": "lam chosen", "top_": "top as fitted", "n_iter_": "Iterations"}
    for name, told in fitted.items():
        if hasattr(final, name):
            facts[told] = getattr(final, name)
    if features is not None:
        facts["Features"] = f"{len(features.names):,}"
    if X_train is not None:
        facts["Training rows"] = f"{X_train.shape[0]:,}"
    return facts


def _caution(final: BaseEstimator) -> str:
    """Say so if weights of zero are as good as those found."""
    solution, loss = getattr(final, "solution_", None), LOSSES.get(getattr(final, "loss", ""))
    if solution is None or loss is None:
        return ""
    at_zero = float(loss.value(np.zeros(1))[0])
    if solution.upper < (1 - NEARLY) * at_zero:
        return ""
    return (
        f"By the fit's own objective weights of zero are as good as these ({at_zero:.4g} "
        f"against {solution.upper:.4g}): no direction puts enough positives above the highest "
        "negatives. What ranks the rows is the direction in which a solution would lie. Trust "
        "what the list shows on rows that the fit has not seen, and see whether another top or "
        "lam, or logistic regression, does better."
    )
