"""The rows of Table 2: the paper's methods, and ours, each with the grid it is chosen from.

The paper's grids are 10^-3, ..., 10^3 for lam, C and the cost of a positive, and 2^-5, ..., 1
times m/(m+n) for AATP's tau. `RULE` is the paper's rule of choice. `TOP_RULE` is the mean recall
before the first five negatives, by which LR, the trees and `top="auto"` have rows. `TopPushCV`
chooses by itself, by the rule of `toppush.estimators.choice`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from toppush import TopPush, TopPushCV, baselines
from toppush.types import Array

RULE, TOP_RULE = "positives_at_top", "top_recall"
EPSILON = 1e-4
"""The paper's precision for all methods."""
Setting = dict[str, float]
Scorer = Callable[[Any], Array]


@dataclass(frozen=True)
class Grid:
    """Values of one parameter, extended by `step` while the best is at an end of them."""

    values: tuple[float, ...]
    step: float = 10.0
    least: float = 0.0
    greatest: float = float("inf")
    """Values beyond these make no sense, or cannot be afforded."""

    def below(self, value: float) -> float | None:
        """The next value below, if there may be one."""
        lower = value / self.step
        return lower if self.step > 1.0 and lower >= self.least else None

    def above(self, value: float) -> float | None:
        """The next value above, if there may be one."""
        higher = value * self.step
        return higher if self.step > 1.0 and higher <= self.greatest else None


POWERS = Grid(tuple(10.0**power for power in range(-3, 4)), least=1e-6, greatest=1e6)
TAUS = Grid(tuple(2.0**power for power in range(-5, 1)), step=2.0, least=2.0**-8, greatest=1.0)


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
    in_paper : bool
    needs : str
        Package that must be installed.
    revision : int
        Goes up when `fit` changes, so that older records do not count.
    """

    key: str
    title: str
    fit: Callable[..., Scorer]
    grids: Mapping[str, Grid] = field(default_factory=dict)
    rule: str = RULE
    in_paper: bool = False
    needs: str = ""
    revision: int = 1

    @property
    def is_available(self) -> bool:
        """Whether the package that it needs is installed."""
        return not self.needs or find_spec(self.needs) is not None


def _estimator(make: Callable[..., Any]) -> Callable[..., Scorer]:
    """A fit that builds an estimator from the setting."""

    def fit(X: Any, y: Any, **setting: float) -> Scorer:
        score: Scorer = make(**setting).fit(X, y).decision_function
        return score

    return fit


def _paper_toppush(lam: float) -> TopPush:
    return TopPush(lam, solver="paper", tol=EPSILON, n_threads=1)


def _cost_sensitive(C: float, positive_cost: float) -> Any:
    """At most 100 Newton steps: at costs of 1000 a thousand do not suffice, nor help the top."""
    return baselines.CostSensitiveSVM(
        C, positive_cost=positive_cost, tol=EPSILON, max_iter=100, random_state=0
    )


def _structural(name: str) -> Callable[..., Any]:
    """A structural SVM; its tolerance is a proven relative gap."""
    return lambda C: getattr(baselines, name)(C, tol=1e-3, n_threads=1)


def _fit_partial_auc(X: Any, y: Any, C: float) -> Scorer:
    """The paper's range of false-positive rates is [0, 1/n]."""
    fpr_high = 1.0 / np.count_nonzero(~y)
    ranker = baselines.PartialAUCSVM(C, fpr_high=fpr_high, tol=1e-3, n_threads=1)
    score: Scorer = ranker.fit(X, y).decision_function
    return score


def _fit_accuracy_at_top(X: Any, y: Any, C: float, tau: float) -> Scorer:
    """Tau is a share of the rows: a multiple of the positives' share."""
    ranker = baselines.AccuracyAtTop(C, tau=tau * float(np.mean(y)))
    score: Scorer = ranker.fit(X, y).decision_function
    return score


def _fit_nystroem(X: Any, y: Any) -> Scorer:
    """RBF features by Nystroem; the width with the best cross-validated score of TopPushCV."""
    from sklearn.kernel_approximation import Nystroem

    n_components = min(300, X.shape[0])
    spread = float(X.power(2).mean() - X.mean() ** 2) or 1.0
    found = []
    for width in (0.1, 1.0, 10.0):
        gamma = width / (X.shape[1] * spread)
        features = Nystroem(gamma=gamma, n_components=n_components, random_state=0).fit(X)
        ranker = TopPushCV(n_threads=1).fit(features.transform(X), y)
        found.append((ranker.best_score_, features, ranker))
    _, features, ranker = max(found, key=lambda one: one[0])
    return lambda rows: ranker.decision_function(features.transform(rows))


def _fit_xgboost(X: Any, y: Any, depth: float, trees: float) -> Scorer:
    from xgboost import XGBClassifier

    model = XGBClassifier(
        n_estimators=int(trees), max_depth=int(depth), learning_rate=0.1, n_jobs=1, verbosity=0
    ).fit(X, y)
    return lambda rows: np.asarray(model.predict(rows, output_margin=True), np.float64)


def _fit_lightgbm(X: Any, y: Any, leaves: float, trees: float) -> Scorer:
    """LightGBM knows sparse matrices, not sparse arrays."""
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=int(trees),
        num_leaves=int(leaves),
        learning_rate=0.1,
        n_jobs=1,
        verbosity=-1,
        random_state=0,
    ).fit(sparse.csr_matrix(X), y)

    def score(rows: Any) -> Array:
        raw = model.predict_proba(sparse.csr_matrix(rows), raw_score=True)
        return np.asarray(raw, np.float64)

    return score


TREES = Grid((100.0, 300.0), step=1.0)
METHODS = (
    Method(
        "toppush", "TopPush (paper)", _estimator(_paper_toppush), {"lam": POWERS}, in_paper=True
    ),
    Method(
        "lr",
        "LR",
        _estimator(lambda C: baselines.LogisticRanker(C, tol=EPSILON)),
        {"C": POWERS},
        in_paper=True,
    ),
    Method(
        "cs-svm",
        "cs-SVM",
        _estimator(_cost_sensitive),
        {"C": POWERS, "positive_cost": POWERS},
        in_paper=True,
        revision=2,
    ),
    Method(
        "svm-rank",
        "SVM-Rank",
        _estimator(_structural("RankSVM")),
        {"C": POWERS},
        in_paper=True,
    ),
    Method(
        "svm-map",
        "SVM-MAP",
        _estimator(_structural("MAPSVM")),
        {"C": POWERS},
        in_paper=True,
    ),
    Method("svm-pauc", "SVM-pAUC", _fit_partial_auc, {"C": POWERS}, in_paper=True),
    Method(
        "infinite-push",
        "InfinitePush",
        _estimator(lambda lam: baselines.InfinitePush(lam)),
        {"lam": POWERS},
        in_paper=True,
    ),
    Method("aatp", "AATP", _fit_accuracy_at_top, {"C": POWERS, "tau": TAUS}, in_paper=True),
    Method(
        "toppush-lam1",
        "TopPush (paper), lam = 1",
        _estimator(lambda: _paper_toppush(1.0)),
    ),
    Method(
        "toppush-lam0.001",
        "TopPush (paper), lam = 0.001",
        _estimator(lambda: _paper_toppush(0.001)),
    ),
    Method(
        "toppush-exact",
        "TopPush, exact",
        _estimator(lambda lam: TopPush(lam, n_threads=1)),
        {"lam": POWERS},
    ),
    Method(
        "toppush-auto",
        'TopPush, top="auto"',
        _estimator(lambda lam: TopPush(lam, top="auto", n_threads=1)),
        {"lam": POWERS},
        TOP_RULE,
        revision=2,
    ),
    Method("toppush-cv", "TopPushCV", _estimator(lambda: TopPushCV(n_threads=1)), revision=4),
    Method(
        "toppush-average",
        "TopPushCV, average",
        _estimator(lambda: TopPushCV(combine="average", n_threads=1)),
        revision=2,
    ),
    Method(
        "lr-top",
        "LR, top recall",
        _estimator(lambda C: baselines.LogisticRanker(C, tol=EPSILON)),
        {"C": POWERS},
        TOP_RULE,
    ),
    Method("nystroem", "TopPushCV, RBF features", _fit_nystroem, revision=2),
    Method(
        "xgboost",
        "XGBoost",
        _fit_xgboost,
        {"depth": Grid((3.0, 6.0), step=1.0), "trees": TREES},
        TOP_RULE,
        needs="xgboost",
    ),
    Method(
        "lightgbm",
        "LightGBM",
        _fit_lightgbm,
        {"leaves": Grid((15.0, 63.0), step=1.0), "trees": TREES},
        TOP_RULE,
        needs="lightgbm",
    ),
)
BY_KEY = {method.key: method for method in METHODS}
REFERENCE = "toppush"
"""The row that all others are tested against."""
