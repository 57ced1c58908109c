"""The rows of Table 2: the paper's methods, and ours, each with the grid it is chosen from.

The paper's grids are 10^-3, ..., 10^3 for lam, C and the cost of a positive, and 2^-5, ..., 1
times m/(m+n) for AATP's tau. `RULE` is the paper's rule of choice. `TOP_RULE` is the measure
`top_recall`, by which LR and `top="auto"` have rows. `TopPushCV` chooses by itself, by the rule
`by_the_top` of `toppush.models.search`.

A method that is put into `METHODS`, from any file, is a row like the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec

import numpy as np

from reproduce.baselines import BASELINES, AccuracyAtTop
from toppush import TopPush, TopPushCV
from toppush.files.compare import Competitor
from toppush.models.linear import AUTO_TOL
from toppush.types import Array, Mask, Matrix

RULE, TOP_RULE = "positives_at_top", "top_recall"
EPSILON = 1e-4
"""The paper's precision for all methods."""
Setting = dict[str, float]
Scorer = Callable[[Matrix], Array]


@dataclass(frozen=True)
class Grid:
    """Values of one parameter, extended by `step` while the best is at an end of them."""

    values: tuple[float, ...]
    step: float = 10.0
    least: float = 0.0
    greatest: float = float("inf")
    """Values beyond these make no sense, or cannot be afforded."""

    def beyond(self, tried: list[float], best: float) -> float | None:
        """The next value beyond the end at which the best is, if there may be one."""
        if self.step <= 1.0 or best not in (tried[0], tried[-1]):
            return None
        new = best / self.step if best == tried[0] else best * self.step
        return new if self.least <= new <= self.greatest else None


POWERS = Grid(tuple(10.0**power for power in range(-3, 4)), least=1e-6, greatest=1e6)
TAUS = Grid(tuple(2.0**power for power in range(-5, 1)), step=2.0, least=2.0**-8, greatest=1.0)


def as_it_is(score: Scorer, X: Matrix, y: Mask, **setting: float) -> Scorer:
    """The fit that was shared."""
    return score


@dataclass(frozen=True)
class Method:
    """How a row of the table is fitted.

    Attributes
    ----------
    key, title : str
        Its name on the command line and in tables.
    fit : callable
        From rows, labels and a setting to a function that scores rows.
    grids : mapping
        What cross-validation chooses from; empty if the method chooses by itself.
    rule : str
        The measure of `toppush.metrics` to choose by.
    needs : str
        Package that must be installed.
    revision : int
        Goes up when `fit` changes, so that older records do not count.
    shares : str
        Key of a method with the same grids whose trials make this one's too, from its fits.
    derive : callable
        What this method makes of such a fit, given as a scorer, the rows, labels and setting.
    is_slow : bool
        Whether it is asked how long a trial would take before the first begins.
    together : str
        A parameter for all of whose values fits to the same rows share work.
    fit_together : callable
        From rows, labels, its values and the other parameters to a scorer for each value.
    sharing : tuple of Method
        Those of a plan that share its fits; the plan sets it.
    """

    key: str
    title: str
    fit: Callable[..., Scorer]
    grids: Mapping[str, Grid] = field(default_factory=dict)
    rule: str = RULE
    needs: str = ""
    revision: int = 1
    shares: str = ""
    derive: Callable[..., Scorer] = as_it_is
    is_slow: bool = False
    together: str = ""
    fit_together: Callable[..., list[Scorer]] | None = None
    sharing: tuple["Method", ...] = ()

    @property
    def is_available(self) -> bool:
        """Whether the package that it needs is installed."""
        return not self.needs or find_spec(self.needs) is not None


def by_estimator(make: Callable[..., Competitor]) -> Callable[..., Scorer]:
    """A fit that builds an estimator from the setting."""

    def fit(X: Matrix, y: Mask, **setting: float) -> Scorer:
        return make(**setting).fit(X, y).decision_function

    return fit


def _baseline(name: str, **options: object) -> Callable[..., Scorer]:
    return by_estimator(lambda **setting: BASELINES[name](**setting, **options))


def _toppush(**options: object) -> Callable[..., Scorer]:
    return by_estimator(lambda **setting: TopPush(**{"n_jobs": 1, **options, **setting}))


def _auto_from_exact(score: Scorer, X: Matrix, y: Mask, lam: float) -> Scorer:
    """With `top="auto"` a top of one negative stays if it beats weights of zero, which lose 1."""
    ranker = getattr(score, "__self__")  # noqa: B009
    return score if ranker.solution_.upper < 1.0 - AUTO_TOL else _toppush(top="auto")(X, y, lam=lam)


def _fit_partial_auc(X: Matrix, y: Mask, C: float) -> Scorer:
    """The paper's range of false-positive rates is [0, 1/n]."""
    fpr_high = 1.0 / np.count_nonzero(~y)
    return _baseline("PartialAUCSVM", fpr_high=fpr_high, **STRUCTURAL)(X, y, C=C)


def _fit_accuracy_at_top(X: Matrix, y: Mask, C: float, tau: float) -> Scorer:
    """Tau is a share of the rows: a multiple of the positives' share."""
    return _baseline("AccuracyAtTop", tau=tau * float(np.mean(y)))(X, y, C=C)


def _fit_taus(X: Matrix, y: Mask, values: Sequence[float], C: float) -> list[Scorer]:
    taus = [tau * float(np.mean(y)) for tau in values]
    return [one.decision_function for one in AccuracyAtTop(C).fit_taus(X, y, taus)]


PAPER: dict[str, object] = {"solver": "paper", "tol": EPSILON}
STRUCTURAL: dict[str, object] = {"tol": 1e-3, "n_jobs": 1}
"""The tolerance of a structural SVM is a proven relative gap."""
# At costs of 1000 a thousand Newton steps do not suffice, nor help the top.
COSTS: dict[str, object] = {"tol": EPSILON, "max_iter": 100, "random_state": 0}
LAM, C = {"lam": POWERS}, {"C": POWERS}
IN_PAPER = (
    Method("toppush", "TopPush (paper)", _toppush(**PAPER), LAM),
    Method("lr", "LR", _baseline("LogisticRanker", tol=EPSILON), C, revision=2),
    Method(
        "cs-svm",
        "cs-SVM",
        _baseline("CostSensitiveSVM", **COSTS),
        C | {"positive_cost": POWERS},
        revision=3,
    ),
    Method("svm-rank", "SVM-Rank", _baseline("RankSVM", **STRUCTURAL), C, revision=2),
    Method("svm-map", "SVM-MAP", _baseline("MAPSVM", **STRUCTURAL), C, revision=2, is_slow=True),
    Method("svm-pauc", "SVM-pAUC", _fit_partial_auc, C, revision=2, is_slow=True),
    Method("infinite-push", "InfinitePush", _baseline("InfinitePush"), LAM, is_slow=True),
    Method(
        "aatp",
        "AATP",
        _fit_accuracy_at_top,
        C | {"tau": TAUS},
        is_slow=True,
        together="tau",
        fit_together=_fit_taus,
    ),
)
BEYOND = (
    Method("toppush-lam1", "TopPush (paper), lam = 1", _toppush(lam=1.0, **PAPER)),
    Method("toppush-lam0.001", "TopPush (paper), lam = 0.001", _toppush(lam=0.001, **PAPER)),
    Method("toppush-exact", "TopPush, exact", _toppush(), LAM),
    Method(
        "toppush-auto",
        'TopPush, top="auto"',
        _toppush(top="auto"),
        LAM,
        TOP_RULE,
        revision=2,
        shares="toppush-exact",
        derive=_auto_from_exact,
    ),
    Method("toppush-cv", "TopPushCV", by_estimator(partial(TopPushCV, n_jobs=1)), revision=4),
    Method(
        "lr-top",
        "LR, top recall",
        _baseline("LogisticRanker", tol=EPSILON),
        C,
        TOP_RULE,
        revision=2,
        shares="lr",
    ),
)
METHODS = {method.key: method for method in (*IN_PAPER, *BEYOND)}
REFERENCE = "toppush"
"""The row that all others are tested against."""
