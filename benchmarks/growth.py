"""How the time of each method of the paper's Table 1 grows with the rows, as measured.

    python -m benchmarks.growth [--seconds 4] [--only TopPush RankSVM] [--redraw]

Two Gaussian classes in 20 dimensions, as many positives as negatives, one thread, CPU time (so
that a busy machine does not show as growth), each method to its own tolerance of 1e-3, the two
over pairs in the paper's table to 1e-2. Sizes double from the method's smallest until a fit takes
more than a quarter of --seconds, at least four of them; a point is the median over three data
sets. The slope is that of log time against log rows over the larger half of the sizes, where
set-up no longer shows; "per iteration" divides by the iterations first, as the claims hold for a
fixed accuracy and say nothing of how many the data ask for.
Writes results/growth.csv and results/growth.png.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import time
import warnings
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from benchmarks.common import RESULTS, save, saved

N_FEATURES = 20
DISTANCE = 3.0
"""Between the classes' means, in standard deviations."""
SEEDS = (0, 1, 2)
TOL = 1e-3
MIN_SIZES = 4


@dataclass(frozen=True)
class Method:
    """A line of the table: where the estimator lives, how it is set, what the paper claims."""

    name: str
    home: str
    claim: str
    """The paper's Table 1, in m + n for m = n, or a dash for methods that it does not list."""
    options: dict = field(default_factory=dict)
    over_pairs: bool = False
    smallest: int = 256


ROWS_LOG = "(m+n) d + (m+n) log(m+n)"
PAIRS = "mn d + mn log(mn)"
COARSE = {"tol": 1e-2}
METHODS = [
    Method("TopPush", "toppush", "(m+n) d", {"solver": "paper"}, smallest=1 << 14),
    Method("RankSVM", "toppush.baselines", ROWS_LOG, smallest=1 << 15),
    Method("MAPSVM", "toppush.baselines", ROWS_LOG, smallest=1 << 13),
    Method("OWPC", "toppush.baselines", ROWS_LOG, smallest=1 << 13),
    Method("PartialAUCSVM", "toppush.baselines", "n log n + m log m + (m+n) d", smallest=1 << 15),
    Method("InfinitePush", "toppush.baselines", PAIRS, {"lam": 10.0, **COARSE}, True, 256),
    Method("SparseInfinitePush", "toppush.baselines", PAIRS, COARSE, True, 256),
    Method("PNormPush", "toppush.baselines", "-", smallest=1 << 16),
    Method("PNormPush (logistic)", "toppush.baselines", "-", {"loss": "logistic"}, True, 512),
    Method("AccuracyAtTop", "toppush.baselines", "-", {"candidates": "all"}, True, 128),
    Method("LogisticRanker", "toppush.baselines", "-", smallest=1 << 14),
    Method("CostSensitiveSVM", "toppush.baselines", "-", smallest=1 << 14),
]


@dataclass(frozen=True)
class Measured:
    """Sizes with the median time and iterations of a fit."""

    method: Method
    sizes: list[int]
    seconds: list[float]
    iterations: list[float]

    def slope(self, *, per_iteration: bool = False) -> float:
        """Of log time against log size, over the larger half of the sizes, at least three."""
        values = np.array(self.seconds)
        if per_iteration:
            values = values / np.maximum(self.iterations, 1)
        large = slice(-max(3, (len(self.sizes) + 1) // 2), None)
        return float(np.polyfit(np.log(self.sizes[large]), np.log(values[large]), 1)[0])


def two_clouds(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[: n_rows // 2] += DISTANCE / np.sqrt(N_FEATURES)
    return X, np.arange(n_rows) < n_rows // 2


def measure(method, seconds):
    """Double the rows until a fit takes a quarter of the time allowed."""
    kind = getattr(import_module(method.home), method.name.split(" ")[0])
    estimator = kind(**{"tol": TOL, **method.options})
    estimator.fit(*two_clouds(method.smallest, 0))  # imports and caches
    measured, n_rows = Measured(method, [], [], []), method.smallest
    while True:
        times, iterations = [], []
        for seed in SEEDS:
            X, y = two_clouds(n_rows, seed)
            began = time.process_time()
            estimator.fit(X, y)
            times.append(time.process_time() - began)
            iterations.append(float(np.max(estimator.n_iter_)))
        measured.sizes.append(n_rows)
        measured.seconds.append(float(np.median(times)))
        measured.iterations.append(float(np.median(iterations)))
        if measured.seconds[-1] > seconds / 4 and len(measured.sizes) >= MIN_SIZES:
            return measured
        n_rows *= 2


COLUMNS = ["method", "claim", "rows", "seconds", "iterations", "slope", "slope_per_iteration"]


def table(results):
    """A row per method and size."""
    return [
        [found.method.name, found.method.claim, *point, *slopes]
        for found in results
        for slopes in [(round(found.slope(), 3), round(found.slope(per_iteration=True), 3))]
        for point in zip(found.sizes, found.seconds, found.iterations, strict=True)
    ]


ROW_COLOURS = ["#1f6fb4", "#5ba3d9", "#17a2a2", "#7b6fd0", "#4c566a", "#8fa3b8", "#2a4d8f"]
PAIR_COLOURS = ["#c0392b", "#e67e22", "#b03a8c", "#8d5524"]


def draw(results, path):
    """All methods in one plane: blue over rows, red over pairs, TopPush green."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(10.5, 5.6), layout="constrained")
    groups = [
        ("TopPush", ["#0b6e4f"], lambda found: found.method.name == "TopPush"),
        ("over rows", ROW_COLOURS, lambda found: not found.method.over_pairs),
        ("over pairs, or a problem per row", PAIR_COLOURS, lambda found: found.method.over_pairs),
    ]
    left, handles, labels = list(results), [], []
    for title, colours, belongs in groups:
        shown = [found for found in left if belongs(found)]
        left = [found for found in left if found not in shown]
        if title != "TopPush":
            handles.append(plt.Line2D([], [], linestyle="none"))
            labels.append(f"$\\bf{{{title.replace(' ', '~')}}}$")
        for colour, found in zip(colours, shown, strict=False):
            wide = title == "TopPush"
            style = {"linewidth": 3.2 if wide else 1.7, "markersize": 6 if wide else 4}
            handles += axis.loglog(found.sizes, found.seconds, "o-", color=colour, **style)
            labels.append(f"{found.slope():.2f}  {found.method.name}")
    _guides(axis, results)
    axis.set(xlabel="rows m + n   (m = n, d = 20)", ylabel="CPU seconds to fit, one thread")
    axis.set_title("Time against rows; the number is the slope at large sizes", loc="left")
    axis.grid(alpha=0.25)
    figure.legend(handles, labels, loc="outside right center", frameon=False, fontsize=9.5)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _guides(axis, results):
    """Short dashed lines of slope 1 and 2 in the free corner."""
    right, bottom = max(found.sizes[-1] for found in results), axis.get_ylim()[0] * 1.6
    for slope, name in ((1, "slope 1"), (2, "slope 2")):
        sizes = np.array([0.06, 0.6]) * right / (1 if slope == 1 else 150)
        sizes = sizes if slope == 1 else np.array([sizes[0], sizes[0] * 10**0.5])
        axis.plot(sizes, bottom * (sizes / sizes[0]) ** slope, "--", color="#888888", linewidth=1.2)
        axis.annotate(
            name,
            (sizes[-1], bottom * (sizes[-1] / sizes[0]) ** slope),
            color="#666666",
            fontsize=9,
            textcoords="offset points",
            xytext=(4, -3),
        )


def known():
    """The measurements of an earlier run, by name."""
    methods, results = {method.name: method for method in METHODS}, {}
    for row in saved("growth"):
        name = row["method"]
        found = results.setdefault(name, Measured(methods[name], [], [], []))
        found.sizes.append(int(row["rows"]))
        found.seconds.append(float(row["seconds"]))
        found.iterations.append(float(row["iterations"]))
    return results


def print_line(found):
    print(
        f"{found.method.name:22}{found.slope():7.2f}{found.slope(per_iteration=True):11.2f}"
        f"{found.sizes[-1]:10}{found.seconds[-1]:9.2f}{found.iterations[-1]:12.0f}"
        f"   {found.method.claim}",
        flush=True,
    )


def main():
    names = [method.name for method in METHODS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="about, for each method")
    parser.add_argument("--only", nargs="*", choices=names, help="the others stay as they are")
    parser.add_argument("--redraw", action="store_true", help="measure nothing, read the CSV")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = f"{'slope':>7}{'per iter.':>11}{'largest':>10}{'seconds':>9}{'iterations':>12}"
    print(f"{'method':22}{heads}   claimed")
    results = known() if arguments.redraw or arguments.only else {}
    wanted = [] if arguments.redraw else arguments.only or names
    for method in METHODS:
        if method.name in wanted:
            results[method.name] = measure(method, arguments.seconds)
        if method.name in results:
            print_line(results[method.name])
    ordered = [results[name] for name in names if name in results]
    if wanted:
        print(save("growth", COLUMNS, table(ordered)))
    draw(ordered, RESULTS / "growth.png")


if __name__ == "__main__":
    main()
