"""Table 1: how the time of each method grows with the rows, compared with what the paper claims.

Two Gaussian classes in 20 dimensions, as many positives as negatives, one thread, CPU time, each
method to its own tolerance of 1e-3, those over pairs to 1e-2. Sizes double from the method's
smallest until a fit takes more than a quarter of the time allowed, at least four of them; a point
is the median over three data sets. The slope is that of log time against log rows over the larger
half of the sizes, where set-up no longer shows.
"""

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from reproduce.baselines import BASELINES
from reproduce.figures import INK, new_axes
from reproduce.results import Result
from reproduce.tables import Table
from toppush import TopPush
from toppush.models.base import LinearRanker
from toppush.types import Array, Mask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_FEATURES = 20
DISTANCE = 3.0
"""Between the classes' means, in standard deviations."""
SEEDS = (0, 1, 2)
TOL = 1e-3
MIN_SIZES = 4


@dataclass(frozen=True)
class Timed:
    """A line of the table: which estimator, how it is set, what the paper claims."""

    name: str
    claim: str
    """The paper's Table 1, or a dash for methods that it does not list."""
    options: Mapping[str, object] = field(default_factory=dict)
    over_pairs: bool = False
    smallest: int = 256

    @property
    def kind(self) -> str:
        """Name of the estimator."""
        return self.name.split()[0]

    def estimator(self) -> LinearRanker:
        """A new one, set as the table says."""
        made = TopPush if self.kind == "TopPush" else BASELINES[self.kind]
        return made(**{"tol": TOL, **self.options})


ROWS_LOG = "((m+n) d + (m+n) log(m+n))/ε"
PAIRS = "mnd + mn log(mn)"
COARSE = {"tol": 1e-2}
TIMED = (
    Timed("TopPush", "(m+n) d/√ε", {"solver": "paper"}, smallest=1 << 14),
    Timed("TopPush (newton)", "-", smallest=1 << 14),
    Timed("RankSVM", ROWS_LOG, smallest=1 << 15),
    Timed("MAPSVM", ROWS_LOG, smallest=1 << 13),
    Timed("OWPC", ROWS_LOG, smallest=1 << 13),
    Timed("PartialAUCSVM", "(n log n + m log m + (m+n) d)/ε", smallest=1 << 15),
    Timed("InfinitePush", f"({PAIRS})/ε²", {"lam": 10.0, **COARSE}, over_pairs=True),
    Timed("SparseInfinitePush", f"({PAIRS})/ε", COARSE, over_pairs=True),
    Timed("PNormPush", "-", smallest=1 << 16),
    Timed("PNormPush (logistic)", "-", {"loss": "logistic"}, over_pairs=True, smallest=512),
    Timed("AccuracyAtTop", "-", {"candidates": "all"}, over_pairs=True, smallest=128),
    Timed("LogisticRanker", "-", smallest=1 << 14),
    Timed("CostSensitiveSVM", "-", smallest=1 << 14),
)


@dataclass(frozen=True)
class Growth:
    """Sizes with the median time and iterations of a fit."""

    method: Timed
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    iterations: list[float] = field(default_factory=list)

    def slope(self, *, per_iteration: bool = False) -> float:
        """Of log time against log size, over the larger half of the sizes, at least three."""
        values = np.array(self.seconds)
        if per_iteration:
            values = values / np.maximum(self.iterations, 1)
        large = slice(-max(3, (len(self.sizes) + 1) // 2), None)
        return float(np.polyfit(np.log(self.sizes[large]), np.log(values[large]), 1)[0])


def two_clouds(n_rows: int, seed: int) -> tuple[Array, Mask]:
    """Two Gaussian classes of equal size."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[: n_rows // 2] += DISTANCE / np.sqrt(N_FEATURES)
    return X, np.arange(n_rows) < n_rows // 2


def measure(method: Timed, seconds: float) -> Growth:
    """Double the rows until a fit takes a quarter of the time allowed."""
    estimator = method.estimator()
    estimator.fit(*two_clouds(method.smallest, 0))  # imports and caches
    growth, n_rows = Growth(method), method.smallest
    while len(growth.sizes) < MIN_SIZES or growth.seconds[-1] <= seconds / 4:
        times, iterations = [], []
        for seed in SEEDS:
            X, y = two_clouds(n_rows, seed)
            began = time.process_time()
            estimator.fit(X, y)
            times.append(time.process_time() - began)
            iterations.append(float(np.max(estimator.n_iter_)))
        growth.sizes.append(n_rows)
        growth.seconds.append(float(np.median(times)))
        growth.iterations.append(float(np.median(iterations)))
        n_rows *= 2
    return growth


def table1(
    names: Iterable[str] = (), seconds: float = 4.0, tell: Callable[[str], None] = lambda text: None
) -> Result:
    """Measure the methods of these names, or all, for about this many seconds each.

    A baseline that the paper's table does not list is measured as it comes.
    """
    listed = {method.kind for method in TIMED}
    lines = [*TIMED, *(Timed(name, "-") for name in BASELINES if name not in listed)]
    wanted = [method for method in lines if not names or method.kind in set(names)]
    found = []
    for method in wanted:
        tell(method.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(measure(method, seconds))
    words = "CPU seconds of a fit against the number of rows, one line a method, logarithmic axes."
    config = {"seconds": seconds, "features": N_FEATURES, "seeds": list(SEEDS), "tol": TOL}
    title = "Table 1: growth of the training time with the rows"
    figures = {"table1": (draw(found), words)}
    return Result("table1", title, [as_table(title, found)], figures, config)


def as_table(title: str, found: Sequence[Growth]) -> Table:
    """A line a method: claim, slopes, the largest size."""
    measured = ["slope", "per iteration", "largest m + n", "seconds", "iterations"]
    rows = [
        [
            one.method.name,
            one.method.claim,
            f"{one.slope():.2f}",
            f"{one.slope(per_iteration=True):.2f}",
            f"{one.sizes[-1]:,}",
            f"{one.seconds[-1]:.2f}",
            f"{one.iterations[-1]:.0f}",
        ]
        for one in found
    ]
    notes = [
        "Slope of log CPU time against log(m + n), m = n, d = 20, one thread, over the larger half "
        "of the sizes. A claim linear in m + n is a slope of 1, one linear in mn a slope of 2. "
        "Claims hold for a fixed accuracy, hence the slope of the time per iteration next to it.",
        "AccuracyAtTop solves a problem per row, as published; the paper gives no complexity for "
        "it, nor for PNormPush and the classifiers.",
    ]
    return Table("table1", title, ["method", "claimed", *measured], rows, notes)


OVER_ROWS = ["#5ba3d9", "#1f6fb4", "#17a2a2", "#7b6fd0", "#4c566a", "#8fa3b8", "#2a4d8f", "#6c8f3c"]
OVER_PAIRS = ["#c0392b", "#e67e22", "#b03a8c", "#8d5524"]


def draw(found: Sequence[Growth]) -> "Figure":
    """All methods in one plane: blue over rows, red over pairs, TopPush green and wide."""
    figure, (axis,) = new_axes(1, 10.5, 5.6)
    rows, pairs = iter(OVER_ROWS), iter(OVER_PAIRS)
    for one in sorted(found, key=lambda one: (one.method.name != "TopPush", one.method.over_pairs)):
        ours = one.method.name == "TopPush"
        colour = "#0b6e4f" if ours else next(pairs if one.method.over_pairs else rows, INK)
        axis.loglog(
            one.sizes,
            one.seconds,
            "s--" if one.method.over_pairs else "o-",
            color=colour,
            linewidth=3.2 if ours else 1.7,
            markersize=6 if ours else 4,
            label=f"{one.slope():.2f}  {one.method.name}",
        )
    axis.set(xlabel="rows m + n   (m = n, d = 20)", ylabel="CPU seconds to fit, one thread")
    axis.set_title("Time against rows; the number is the slope at large sizes", loc="left")
    figure.legend(loc="outside right center", frameon=False, title="dashed: over pairs or rows²")
    return figure
