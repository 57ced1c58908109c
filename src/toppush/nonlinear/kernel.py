"""A ranker on features of a Gaussian kernel."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.preprocessing import StandardScaler
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from toppush.designs.columns import can_be_shifted
from toppush.estimators.base import unchanged_on_failure
from toppush.estimators.choice import Scorer
from toppush.estimators.contributions import background_places, shapley
from toppush.estimators.cross_validation import TopPushCV
from toppush.estimators.toppush import TopPush
from toppush.nonlinear.features import FeatureRanker
from toppush.nonlinear.held_out import with_mean_one
from toppush.types import Array, Labels, Matrix

WIDTHS = (0.1, 0.3, 1.0)
"""Of the kernel, in units of 1 / the median of the squared distances between rows."""
MEDIAN_ROWS = 1_000
"""Rows whose distances tell the median."""
MOST_ENTRIES = 1 << 29
"""Features that a fit holds at once, rows x count: 4 GiB."""
SEARCH_ENTRIES = 1_000_000
"""Features that the folds share: their work grows with rows x count^2."""


class Tried(NamedTuple):
    """What one width of the kernel came to."""

    kernel: Nystroem
    ranker: TopPush | TopPushCV
    score: float


class TopPushKernel(FeatureRanker):
    """Ranker by similarity to rows of the training set, at the top of the list.

    The columns are standardised, then each row is seen by its Gaussian similarity
    ``exp(-gamma |x - z|^2)`` to `n_components` training rows z (Nystroem's features), on which
    `TopPush` is fitted: convex, and solved with a certificate. gamma is chosen together with lam
    and top, on the same folds. The features use no labels, so they are made once for each width.

    Parameters
    ----------
    lams : sequence of float, optional
        Strengths of the penalty; by default 0.1, 0.01, 0.001 and 0.0001.
    tops : sequence of int, float or "auto", optional
        As for `TopPushCV`; by default 0.1 and 0.3. One lam, top and width are fitted without folds.
    widths : sequence of float, default=(0.1, 0.3, 1.0)
        gamma in units of 1 / the median of the squared distances between training rows.
    n_components : int, default=200
        Features, at most as many as rows. A fit holds rows x features numbers of 8 bytes, and
        refuses more than 2^29, which are 4 GiB.
    scoring : str or callable, default="average_precision"
        By what the folds choose, as for `TopPushCV`, whose own rule is None.
    combine : {"best", "average"}, default="best"
        As for `TopPushCV`. An average of the folds' fits has no certificate, and is fitted on folds
        of all rows.
    cv : int, splitter or iterable, default=3
        Folds. If an int, they share at most so many rows, evenly taken of both classes, that these
        have about a million features; the chosen setting is then fitted on all rows.
    random_state : int, default=0
        Picks the training rows z.
    n_threads : int, optional
        Folds at a time, and threads of the final fit.
    verbose : int, default=0
        1 shows a line that counts the folds' fits for each width, and one for each final fit.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    gamma_ : float
        Of the kernel, on standardised columns.
    lam_, top_, best_score_, cv_results_
        As `TopPushCV`, of the chosen width.
    widths_ : dict of float
        The best score of the folds for each width.
    scaler_ : StandardScaler
    kernel_ : Nystroem
    coef_ : array of shape (1, n_components)
        Weights of the features.
    solution_ : Solution
        Bounds of the objective on all rows; an average has none.
    threshold_, classes_, n_iter_, n_features_in_, feature_names_in_
        As `TopPush`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPushKernel
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = TopPushKernel([0.01], tops=[0.1], widths=[0.3], n_components=50).fit(X, y)
    >>> round(ranker.score(X, y), 2)
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeatureRanker._shared_constraints,
        "widths": ["array-like"],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }
    _lams = (0.1, 0.01, 0.001, 0.0001)
    _tops = (0.1, 0.3)

    def __init__(
        self,
        lams: Sequence[float] | None = None,
        *,
        tops: Sequence[float | str] | None = None,
        widths: Sequence[float] = WIDTHS,
        n_components: int = 200,
        scoring: str | Scorer | None = "average_precision",
        combine: str = "best",
        cv: Any = 3,
        random_state: int = 0,
        n_threads: int | None = None,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.lams, self.tops, self.widths, self.n_components = lams, tops, widths, n_components
        self.scoring, self.combine, self.cv = scoring, combine, cv
        self.random_state, self.n_threads, self.verbose = random_state, n_threads, verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the kernel and learn the weights.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array of shape (n_samples,), optional
            As for `TopPush`; rows of weight 0 are not looked at.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            given, pairs = self._read(X, y, sample_weight), self._pairs()
            rows, widths = given.rows.given, read_widths(self.widths)
            self._check_memory(rows.shape[0])
            # A shift of all rows changes no distance, and would fill sparse rows.
            scaler = StandardScaler(with_mean=can_be_shifted(rows))
            weight = given.sample_weight
            # It takes columns for constant if the weights' sum is above 1e15.
            shares = None if weight is None else with_mean_one(weight)
            scaled = scaler.fit_transform(rows, sample_weight=shares)
            seen = scaled if weight is None else scaled[weight > 0.0]
            unit, choose = median_distance(seen), len(widths) > 1 or not pairs.is_one
            where, tried = pairs.searched(given, self._searched_rows, choose=choose), []
            for width in widths:
                kernel = self._kernel(width / unit, seen)
                ranker = pairs.search(kernel.transform(scaled[where]), given, where, choose=choose)
                tried.append(Tried(kernel, ranker, getattr(ranker, "best_score_", 0.0)))
            best = max(tried, key=lambda one: one.score)
            self.widths_ = dict(zip(widths, [one.score for one in tried], strict=True))
            final = pairs.finish(best.ranker, best.kernel.transform(scaled), given)
            self._take(final, given)
            self.gamma_, self.scaler_, self.kernel_ = best.kernel.gamma, scaler, best.kernel
        return self

    @property
    def _n_explained(self) -> int:
        return 64  # each is scored some 32 times for each column

    def contributions(self, X: Matrix) -> Array:
        """What each column adds to a row's score, by Shapley values; the last column is the rest.

        The row is compared with some of the rows of the kernel, see
        `toppush.estimators.contributions`: about 32 scores for each column.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features + 1)
            Rows sum to `decision_function`.
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        known = self.kernel_.components_
        some = known[background_places(*known.shape)]
        return shapley(self._decision, rows, self.scaler_.inverse_transform(some))

    def _features(self, X: Matrix) -> Matrix:
        return self.kernel_.transform(self.scaler_.transform(X))

    @property
    def _searched_rows(self) -> int:
        return max(SEARCH_ENTRIES // int(self.n_components), 1)

    def _kernel(self, gamma: float, rows: Matrix) -> Nystroem:
        """The features of a width; no labels are asked, so folds may share them."""
        count = min(int(self.n_components), rows.shape[0])
        return Nystroem(gamma=gamma, n_components=count, random_state=self.random_state).fit(rows)

    def _check_memory(self, n_rows: int) -> None:
        count = min(int(self.n_components), n_rows)
        if n_rows * count > MOST_ENTRIES:
            raise ValueError(
                f"{n_rows:,} rows of {count:,} features are more than {MOST_ENTRIES:,} numbers, "
                f"which a fit may hold; give at most n_components={MOST_ENTRIES // n_rows}."
            )


def read_widths(widths: Sequence[float]) -> list[float]:
    """The widths, each once."""
    found = [float(width) for width in dict.fromkeys(widths) if isinstance(width, Real)]
    if not found or len(found) < len(set(widths)) or not all(0.0 < one < np.inf for one in found):
        raise ValueError(f"widths must be numbers above 0, found {list(widths)!r}.")
    return found


def median_distance(rows: Matrix) -> float:
    """Median of the squared distances between rows, some of them evenly taken; 1 if it is 0."""
    where = np.linspace(0, rows.shape[0] - 1, min(rows.shape[0], MEDIAN_ROWS)).astype(np.intp)
    distances = euclidean_distances(rows[where], squared=True)
    apart = distances[np.triu_indices(len(where), 1)]
    return float(np.median(apart)) or 1.0 if apart.size else 1.0
