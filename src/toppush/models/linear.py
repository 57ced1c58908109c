"""The estimator of the paper's problem and its family."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from toppush.designs import Design
from toppush.models.base import (
    LABEL,
    LinearRanker,
    read_training,
    require_both,
    unchanged_on_failure,
    warn_about,
)
from toppush.models.progress import FitObserver
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopProblem, TopPushProblem, count_top
from toppush.problem.pairwise import PAIR_SUMS, PairwiseProblem
from toppush.problem.solution import Solution
from toppush.solvers import DEFAULT, SOLVERS, automatic_top, solve
from toppush.types import Labels, Matrix

AUTO_TOL = 1e-3
"""How much the optimum must beat weights of zero for top="auto" to count it as a solution."""
FAMILIES: dict[bool, type[TopProblem]] = {False: TopPushProblem, True: PairwiseProblem}
"""The problems, by whether they are pairwise."""


class TopPush(LinearRanker):
    """Linear ranker that puts positives above the highest negatives.

    Minimises ``lam/2 |w|^2 + mean_i l(T(w) - w.x_i)`` over the positives x_i, where T(w) is the
    mean of the `top` greatest scores of negatives; `top=1`, the greatest, is the paper's problem.
    With `pairwise=True` every positive is held against each of these negatives instead of their
    mean: ``lam/2 |w|^2 + the mean over the top highest negatives z_j of mean_i l(w.z_j - w.x_i)``.
    The default solver reads the data some tens of times and certifies its optimality gap.

    Parameters
    ----------
    lam : float, default=1.0
        Strength of the penalty on the weights.
    top : int, float or "auto", default=1
        How many negatives count as the top: a count if an int, a share of the negatives if a
        float (`top=1` is one negative, `top=1.0` all of them). "auto" uses the fewest for which
        the problem has a solution better than zero, up to a factor of 1.2; the search costs a few
        fits, and warns if not even all of them have one. The same for both families.
    pairwise : bool, default=False
        Hold every positive against each negative of the top, not against their mean: `top=1` is
        the same problem either way (the Infinite Push), `top=1.0` the mean over all pairs, that
        is RankSVM or RankNet. It gathers the scores of all rows, not the rows, and takes
        O(rows log rows) in addition to the products with the rows.
    loss : {"truncated_quadratic", "logistic", "exponential"}
    solver : {"newton", "paper"}, default="newton"
        "newton" is an interior-point method with a certified optimality gap; "paper" is
        the accelerated dual method of Li, Jin and Zhou (2014).
    tol : float, default=1e-4
        "newton" ends when upper and lower bound of the objective agree to this share; "paper"
        when the dual objective changes by less than this share.
    max_iter : int, default=10000
    n_jobs : int, optional
        Threads over blocks of rows; by default all cores, or OMP_NUM_THREADS if set.
    device : str, optional
        The torch device to compute on, such as "cuda"; needs `toppush[gpu]`. By default the rows
        stay where they are: arrays with NumPy, a tensor on its device.
    warm_start : bool, default=False
        Start at the last solution if the number of rows is the same.
    verbose : int, default=0
        If 1, show progress.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
    intercept_ : array of shape (1,)
        Minus `threshold_`.
    threshold_ : float
        T(w) on the training rows.
    classes_ : array of shape (2,)
        The second class is the positive one.
    top_ : int
        The number of negatives that counted as the top.
    n_iter_ : int
    solution_ : Solution
        The weights with upper and lower bound of the objective, and how the solve ended.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        If X has column names that are strings.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> from toppush import TopPush
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> ranker = make_pipeline(MaxAbsScaler(), TopPush(lam=0.01)).fit(X, y)
    >>> round(ranker.score(X, y), 2)
    1.0

    References
    ----------
    N. Li, R. Jin, Z.-H. Zhou. Top Rank Optimization in Linear Time. NIPS 2014.
    """

    pairwise: bool = False  # models of versions before have none

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "lam": [Interval(Real, 0, None, closed="neither")],
        "top": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
            StrOptions({"auto"}),
        ],
        "pairwise": ["boolean"],
        "loss": [StrOptions(LOSSES.keys())],  # views: names that join later count too
        "solver": [StrOptions(SOLVERS.keys())],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Interval(Integral, 1, None, closed="left")],
        "device": [None, str],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    def __init__(
        self,
        lam: float = 1.0,
        *,
        top: float | str = 1,
        pairwise: bool = False,
        loss: str = "truncated_quadratic",
        solver: str = DEFAULT,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        n_jobs: int | None = None,
        device: str | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.lam, self.top, self.pairwise = lam, top, pairwise
        self.loss, self.solver = loss, solver
        self.tol, self.max_iter, self.n_jobs, self.device = tol, max_iter, n_jobs, device
        self.warm_start, self.verbose = warm_start, verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array, sparse matrix, data frame or tensor of shape (n_samples, n_features)
            float64 and float32 are used as they are, dense or CSR, in memory, memory-mapped, in
            files (`toppush.on_disk.open`), as a torch tensor on any device, or as a Dask array or
            data frame whose partitions the workers of the running client hold.
        y : array, tensor or Dask array of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array of shape (n_samples,), optional
            Each 0 or from 1e-100 to 1e100. A positive's weight scales its loss. Negatives count
            equally, or not at all with weight 0.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            training = read_training(self, X, y, sample_weight, self.device)
            tasks = training.tasks(self, self.max_iter)
            with training.design(self.n_jobs) as design:
                require_both(design, training.classes)
                problem = self._problem(design)
                observer = FitObserver(self.verbose, self.tol, tasks)
                solution = solve(
                    problem,
                    solver=self.solver,
                    tol=self.tol,
                    max_iter=self.max_iter,
                    start=self._start(training.rows.shape[0]),
                    callback=observer.watch,
                )
                observer.end(solution)
            self.top_ = problem.k
            self._keep(solution, training.classes)
        warn_about(solution, problem, self.tol, searched=self.top == "auto")
        if tasks is not None:
            tasks.end()
        return self

    def _problem(self, design: Design) -> TopProblem:
        """The problem to minimise."""
        loss, lam = LOSSES[self.loss], float(self.lam)
        if self.pairwise:
            require_pairwise(self.loss, self.solver)
        if self.top == "auto":
            k = automatic_top(TopPushProblem(design, loss, lam), tol=max(self.tol, AUTO_TOL))
        else:
            k = count_top(self.top, design.n_neg)
        return FAMILIES[self.pairwise](design, loss, lam, k)

    def _start(self, n_rows: int) -> Solution | None:
        """The last solution for a warm start, if it fits."""
        last: Solution | None = getattr(self, "solution_", None)
        solver = SOLVERS[self.solver]
        if not (self.warm_start and solver.warm_startable) or last is None:
            return None
        # A fit on a cluster has no dual, and not every solver needs one.
        by_weights = not solver.needs_dual and not last.dual.size
        fits = by_weights or last.dual.size == n_rows
        return last if fits and last.weights.size == self.n_features_in_ else None


def require_pairwise(loss: str, solver: str = DEFAULT) -> None:
    """Refuse a loss or a solver that does not support the pairwise family."""
    able = [name for name, one in SOLVERS.items() if one.pairwise is not None]
    if solver not in able:
        raise ValueError(
            f"pairwise=True needs solver={' or '.join(map(repr, able))}, found {solver!r}; the "
            "others support only the threshold family."
        )
    if loss not in PAIR_SUMS:
        raise ValueError(
            f"pairwise=True needs a loss whose sums over pairs are known, one of "
            f"{sorted(PAIR_SUMS)}, found {loss!r}; add it to "
            "toppush.problem.pairwise.PAIR_SUMS or take another."
        )
