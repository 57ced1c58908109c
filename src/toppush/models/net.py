"""An ensemble of small networks with the pairwise loss at the top."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import prod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, RealNotInt, StrOptions

from toppush.designs.local import default_threads
from toppush.explain.contributions import shapley, some_background
from toppush.folds.splits import with_mean_one
from toppush.matrices import dense
from toppush.models.base import (
    DTYPES,
    LABEL,
    Ranker,
    TrainingRows,
    read_training,
    refuse_elsewhere,
    unchanged_on_failure,
)
from toppush.models.cross_fitted import CrossFitted
from toppush.models.progress import Line
from toppush.problem.objective import count_top
from toppush.system.extras import needs
from toppush.tables.scaling import PART_ROWS, AsinhScaler
from toppush.tables.validation import column_names, require_sizes, validated
from toppush.thresholds.probabilities import calibrate
from toppush.types import Array, Labels, Matrix

MOST_WEIGHTS = 1 << 28
"""Of all members together, which with the optimiser take 4 GB."""


class TopPushNet(CrossFitted):
    """Ensemble of small networks that rank positives above the highest negatives.

    Every member minimises mean_i sum_j p_j log(1 + exp(f_j - f_i)) over positives i and negatives
    j, where p_j is the share of a negative in the smoothed top, on batches of both classes. Member
    k leaves fold k out; all stop at the step with the greatest mean average precision on these
    folds. Columns are standardised. Needs torch to fit, ``pip install 'toppush[gpu]'``,
    and NumPy alone to score.

    Parameters
    ----------
    top : int or float, default=0.1
        How many negatives make the top: a count if an int, a share if a float.
    loss : {"pairwise", "cross_entropy"}, default="pairwise"
    n_members : int, default=8
        Networks, and folds; their scores are averaged.
    hidden : tuple of int, default=(256, 128)
        Widths of the hidden layers.
    max_steps : int, default=1500
        Maximum number of steps; early stopping usually ends training before.
    learning_rate : float, default=1e-3
        Of AdamW.
    device : str, optional
        The torch device to train on, such as "cuda"; by default the CPU.
    n_jobs : int, optional
        Threads of torch on the CPU; by default all cores, or OMP_NUM_THREADS if set.
    random_state : int, RandomState or None, default=0
        An int makes the same fit bit for bit on one machine with as many threads.
    verbose : int, default=0
        If 1, show progress on stderr.
    positive : optional
        The class to rank first; by default the greater of two numbers, the rarer of two strings.

    Attributes
    ----------
    weights_, biases_ : lists of float32 arrays
        Of each layer, of shapes (n_members, inputs, outputs) and (n_members, outputs).
    mean_, scale_ : arrays of shape (n_features,)
        A network sees ``arcsinh((x - mean_) / scale_)``.
    background_ : array of shape (n, n_features)
        Training rows with which `contributions` compares others: 16, fewer for wide rows.
    offsets_ : array of shape (n_members,)
        Subtracted from each member's scores, which the loss determines up to a shift.
    out_of_fold_ : array of shape (n_samples,) or None
        Scores of the training rows by members that did not see them; NaN for rows of weight 0,
        None if a class has only one row.
    second_scores_, expected_scores_ : arrays of shape (n_samples,) or None
        Scores of an eighth of the rows by a second member that did not see them; and out-of-fold
        scores narrowed to the distribution that the mean of all members has on new rows.
    threshold_ : float
        Score above which the expected F1 score of new rows is greatest; scores are less this.
    calibration_ : Calibration
        Probabilities of scores, see `toppush.thresholds.probabilities`.
    n_iter_ : int
        Number of steps.
    classes_, n_features_in_, feature_names_in_

    Notes
    -----
    Training is in float32, scoring in float64. A batch holds up to 512 negatives, so a `top` of
    fewer than one in 512 is that of the highest of a batch. Sparse rows are made dense some at a
    time. The first layer has n_members * n_features * hidden[0] weights: for tens of thousands of
    columns take `TopPush`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from toppush import TopPushNet
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> net = TopPushNet(n_members=2, hidden=(16,), max_steps=100, learning_rate=0.01).fit(X, y)
    >>> bool(net.score(X, y) > 0.98)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "top": [
            Interval(Integral, 1, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="right"),
        ],
        "loss": [StrOptions({"pairwise", "cross_entropy"})],
        "n_members": [Interval(Integral, 2, None, closed="left")],
        "hidden": ["array-like"],
        "max_steps": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "device": [str, None],
        "n_jobs": [None, Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "positive": LABEL,
    }

    weights_: list[NDArray[np.float32]]
    biases_: list[NDArray[np.float32]]

    def __init__(
        self,
        top: float = 0.1,
        *,
        loss: str = "pairwise",
        n_members: int = 8,
        hidden: tuple[int, ...] = (256, 128),
        max_steps: int = 1500,
        learning_rate: float = 1e-3,
        device: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        positive: object = None,
    ) -> None:
        self.top, self.loss, self.n_members, self.hidden = top, loss, n_members, hidden
        self.max_steps, self.learning_rate, self.device = max_steps, learning_rate, device
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose
        self.positive = positive

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Matrix, y: Labels, sample_weight: ArrayLike | None = None) -> Self:
        """Train the members.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Without missing values: fill them first, as by SimpleImputer.
        y : array of shape (n_samples,)
            Two classes, of which `positive` names the one to rank first.
        sample_weight : array of shape (n_samples,), optional
            How much a row counts in the loss, relative to the mean weight; a row of weight 0 is
            left out.

        Returns
        -------
        self
        """
        with unchanged_on_failure(self):
            refuse_elsewhere(self, X=X)
            training_rows = read_training(self, X, y, sample_weight)
            require_sizes(training_rows.rows.original, column_names(self), training=True)
            self._train(training_rows)
            self.classes_ = training_rows.classes
        return self

    def _train(self, training_rows: TrainingRows) -> None:
        training = import_training()
        X, positive, weight, used = used_rows(training_rows)
        seed = int(check_random_state(self.random_state).randint(2**31))
        columns = AsinhScaler.of(X)
        folds = training.random_folds(positive, self.n_members, np.random.default_rng(seed))
        progress = NetProgress(self.verbose)
        plan = self._plan(training, int(np.sum(~positive)), seed, progress)
        with torch_threads(self.n_jobs):
            rows = training.NetRows(X, columns, positive, weight, folds, self.device or "cpu")
            result = training.train(rows, plan)
        progress.close()
        self.weights_, self.biases_, self.offsets_ = result.weights, result.biases, result.offsets
        self.mean_, self.scale_, self.n_iter_ = columns.mean, columns.scale, result.n_steps
        self.background_ = some_background(X, seed)
        self.out_of_fold_ = self.second_scores_ = self.expected_scores_ = None
        expected = self._score(X) if result.scores is None else result.scores.expected
        self.threshold_, self.calibration_ = calibrate(positive, expected, weight)
        if result.scores is not None:
            per_row = np.full((3, len(used)), np.nan)
            per_row[:, used] = result.scores
            self.out_of_fold_, self.second_scores_, self.expected_scores_ = (
                per_row - self.threshold_
            )

    def _plan(self, training: Any, n_neg: int, seed: int, progress: "NetProgress") -> Any:
        hidden = tuple(int(width) for width in self.hidden)
        if min(hidden, default=1) < 1:
            raise ValueError(f"hidden holds widths of 1 or more, found {self.hidden!r}.")
        sizes = [self.n_features_in_, *hidden, 1]
        n_weights = self.n_members * sum(map(prod, pairwise(sizes)))
        if n_weights > MOST_WEIGHTS:
            raise ValueError(
                f"{self.n_members} members with {self.n_features_in_} columns have {n_weights:.2g} "
                f"weights, above {MOST_WEIGHTS:.2g}; lower hidden[0] or n_members, drop columns, "
                "or use TopPush, which is made for many columns."
            )
        return training.TrainingPlan(
            self.loss,
            count_top(self.top, n_neg) / n_neg if isinstance(self.top, Integral) else self.top,
            hidden,
            self.n_members,
            self.max_steps,
            self.learning_rate,
            seed,
            progress,
        )

    @property
    def _n_explained(self) -> int:
        return 64  # each is scored some 32 times for each column

    def _read(self, X: Matrix) -> Matrix:
        return validated(self, X, accept_sparse="csr", dtype=DTYPES, reset=False)

    def _contributions(self, X: Matrix) -> Array:
        """By Shapley values against `background_`: about 32 scores for each column."""
        background = getattr(self, "background_", self.mean_[None, :])  # missing in older files
        return shapley(self._score, X, background)

    def _score(self, X: Matrix) -> Array:
        columns = AsinhScaler(self.mean_, self.scale_)
        parts = [X[at : at + PART_ROWS] for at in range(0, X.shape[0], PART_ROWS)]
        return np.concatenate([self._mean_score(columns.transform(dense(part))) for part in parts])

    def _mean_score(self, rows: Array) -> Array:
        """Mean score of the members for scaled rows."""
        total = np.zeros(len(rows))
        for member, offset in enumerate(self.offsets_):
            hidden = rows
            for at, (weights, biases) in enumerate(zip(self.weights_, self.biases_, strict=True)):
                hidden = np.maximum(hidden, 0.0) if at else hidden
                hidden = hidden @ weights[member].astype(np.float64) + biases[member]
            total += hidden[:, 0] - offset
        return total / len(self.offsets_)

    def __sklearn_tags__(self) -> Tags:
        return Ranker.__sklearn_tags__(self)


def import_training() -> Any:
    """The module that needs torch."""
    try:
        from toppush.models import net_training
    except ImportError as error:
        raise ImportError(needs("a fit of TopPushNet", "torch")) from error
    return net_training


def used_rows(
    training_rows: TrainingRows,
) -> tuple[Matrix, NDArray[np.bool_], Array, NDArray[np.bool_]]:
    """Rows with a weight above 0, their classes and weights, and which they are."""
    X, positive = training_rows.rows.original, training_rows.positive
    if training_rows.sample_weight is None:
        return X, positive, np.ones(len(positive)), np.ones(len(positive), bool)
    used = training_rows.sample_weight > 0
    for label, rows in zip(training_rows.classes, (~positive, positive), strict=True):
        if not used[rows].any():
            raise ValueError(
                f"every row of class {label} has sample_weight 0, so y has one class left; "
                "give some of them a weight."
            )
    return X[used], positive[used], with_mean_one(training_rows.sample_weight[used]), used


@contextmanager
def torch_threads(n_jobs: int | None) -> Iterator[None]:
    """Set the number of torch's threads, and restore it afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(default_threads() if n_jobs is None else n_jobs)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class NetProgress(Line):
    """Shows the progress of a fit on stderr, if it is verbose."""

    def __init__(self, verbose: int) -> None:
        super().__init__(stream=sys.stderr)
        self._wanted, self._began, self._last = bool(verbose), time.perf_counter(), ""

    def __call__(self, done: int, quality: float) -> None:
        """Show an evaluation, if a new line is due."""
        seconds = time.perf_counter() - self._began
        self._last = f"step {done:4d}  held-out AP {quality:.4f}  {seconds:.1f} s"
        if self._wanted and self.is_due(seconds):
            self.write(self._last)

    def close(self) -> None:
        """Show the last evaluation, to stay."""
        if self._wanted and self._last:
            self.write(self._last, last=True)
