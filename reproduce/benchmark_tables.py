"""The benchmark's tables: every mean, who is better than whom and how surely, and mean ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reproduce.benchmark import COSTS, MEASURES
from reproduce.contestants import CONTESTANTS
from reproduce.figures import INK, new_axes
from reproduce.protocol import TEST_SHARE
from reproduce.results import Result
from reproduce.runner import Plan
from reproduce.store import Store
from reproduce.summaries import Difference, Ranks, Summary, overlapping_p, summarise
from reproduce.tables import Table
from toppush.monitor.drift import holm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = tuple["Figure", str]
OURS = "top-ranker"
"""The one that all others are tested against: what a user gets without asking for more."""
LEVEL = 0.05
SHOWN = ("pos_at_top", "before_10", "ap", "seconds_fitting")
"""Measures that have a table of their own."""
DRAWN = ("pos_at_top", "before_10", "ap")
FEWEST = 5
"""A mean of fewer splits says nothing and is not shown, unless no more were asked for."""
NEARLY_ALL = 0.9
"""Fraction of a set's splits from which a mean may be the best; few splits may be easy ones."""
MANY_COLUMNS = 1000
NEAR = 0.01
"""Average precision below the best that is nearly as good."""
LINEAR = ("linear",)
"""Our rankers that give every column a weight."""
Summaries = dict[tuple[str, str], Summary]
TITLES = {one.key: one.title for one in (*MEASURES, *COSTS)}


@dataclass(frozen=True)
class Tested:
    """Ours less another's on a set: the paired difference and its p-value among many."""

    data: str
    competitor: str
    measure: str
    n_splits: int
    difference: Difference
    corrected: float
    """Holm's, among all competitors and sets of the measure."""
    overlapping: float
    """Nadeau and Bengio's, which knows that splits share rows."""

    @property
    def verdict(self) -> int:
        """1 if ours is better by the corrected test, -1 if it is worse, else 0."""
        return int(np.sign(self.difference.mean)) if self.corrected < LEVEL else 0


def result(plan: Plan, store: Store, titles: dict[str, str]) -> Result:
    """All tables and pictures of the benchmark, from what is in the store."""
    summaries = {pair: enough(plan, one) for pair, one in summarise(plan, store).items()}
    tested = [one for measure in MEASURES for one in compare(plan, summaries, measure.key)]
    ranks = {measure.key: ranked(plan, summaries, measure.key) for measure in MEASURES}
    order = ranks["ap"].order
    shown = [overview(plan, summaries, tested, titles, order, key) for key in SHOWN]
    return Result(
        "benchmark",
        "Benchmark: ranking at the top",
        [*shown, mean_ranks(plan, ranks, tested), settings(plan)],
        pictures(ranks, titles),
        {"trials": plan.trials, "seed": plan.seed, "methods": list(plan.methods), "data": titles},
        files=[
            long_table(plan, summaries, titles),
            differences(tested, titles),
            best_table(plan, summaries, tested, titles),
            losses(tested, titles),
            by_rows(plan, ranks),
            nearly_best(plan, summaries),
        ],
    )


def pictures(ranks: dict[str, Ranks], titles: dict[str, str]) -> dict[str, Picture]:
    """Of rankers with a result on most of the sets; none if nobody has."""
    drawn = {key: ranks[key].of_most() for key in DRAWN}
    if not drawn["before_10"].names:
        return {}
    return {
        "benchmark": draw_winners(drawn["before_10"], TITLES["before_10"], titles),
        "benchmark-ranks": draw_ranks({TITLES[key]: one for key, one in drawn.items()}),
    }


def enough(plan: Plan, summary: Summary) -> Summary:
    """A summary, without means if they are of too few splits."""
    n_done, n_all = len(summary.trials), plan.n_trials(summary.data)
    if not 0 < n_done < min(FEWEST, n_all):
        return summary
    why = f" ({summary.trouble})" if summary.trouble else ""
    return replace(summary, values={}, trials=[], trouble=f"only {n_done} of {n_all} splits{why}")


def compare(plan: Plan, summaries: Summaries, measure: str) -> list[Tested]:
    """Ours against every other on every set, corrected for so many comparisons."""
    pairs, found = [], []
    for data in plan.data:
        ours = summaries.get((data, OURS))
        for competitor in plan.methods:
            theirs = summaries.get((data, competitor))
            if competitor == OURS or ours is None or theirs is None:
                continue
            difference = ours.against(theirs, measure)
            if difference is not None:
                pairs.append((data, competitor, ours.differences(theirs, measure)))
                found.append(difference)
    corrected = holm([one.p_value for one in found])
    test_to_train = TEST_SHARE / (1.0 - TEST_SHARE)
    return [
        Tested(data, competitor, measure, gaps.size, one, p, overlapping_p(gaps, test_to_train))
        for (data, competitor, gaps), one, p in zip(pairs, found, corrected, strict=True)
    ]


def ranked(plan: Plan, summaries: Summaries, measure: str) -> Ranks:
    """Ranks of all means; who has none on a set comes last there."""
    means = np.full((len(plan.data), len(plan.methods)), np.nan)
    for i, data in enumerate(plan.data):
        for j, method in enumerate(plan.methods):
            summary = summaries.get((data, method))
            if summary is not None and summary.trials:
                means[i, j] = summary.values[measure].mean()
    return Ranks(list(plan.data), [CONTESTANTS[key].title for key in plan.methods], means)


def overview(
    plan: Plan,
    summaries: Summaries,
    tested: Sequence[Tested],
    titles: dict[str, str],
    order: Sequence[int],
    measure: str,
) -> Table:
    """One measure of every ranker on every set."""
    verdicts = {(one.data, one.competitor): one.verdict for one in tested if one.measure == measure}
    rows = []
    for method in (plan.methods[i] for i in order):
        cells = [
            cell(plan, summaries.get((data, method)), data, measure)
            + {1: "●", -1: "○"}.get(verdicts.get((data, method), 0), "")
            for data in plan.data
        ]
        rows.append([CONTESTANTS[method].title, *cells])
    notes = [
        "Means over the splits (in brackets how many, if not all of them; fewer than "
        f"{FEWEST} are not shown). ● and ○: TopRanker is "
        f"better and worse, by paired t-tests at {LEVEL} with Holm's correction for all "
        "competitors and sets. Rankers in the order of their mean rank by average precision."
    ]
    if measure in (one.key for one in COSTS):
        notes = [
            "CPU seconds of one thread to fit, with every choice that it takes, on average. Trials "
            "ran on machines that differ in speed: a factor of two or three may be the machine's. "
            "GPU: it ran on one, of which CPU seconds tell nothing."
        ]
    name, columns = f"benchmark-{_file_name(measure)}", [titles[data] for data in plan.data]
    return Table(name, TITLES[measure], ["ranker", *columns], rows, notes)


def _file_name(measure: str) -> str:
    return measure.replace("_", "-").replace("seconds-fitting", "seconds")


def cell(plan: Plan, summary: Summary | None, data: str, measure: str) -> str:
    """A mean with the number of its splits, if some are missing, or why there is none."""
    if summary is None:
        return "not run"
    if not summary.trials:
        return summary.trouble.split(" (")[0]
    mean = float(summary.values[measure].mean())
    few = len(summary.trials) < plan.n_trials(data)
    return (shown(mean, measure) or "GPU") + (f" ({len(summary.trials)})" if few else "")


def shown(value: float, measure: str) -> str:
    """Three digits behind the point, and costs as they are read; nothing if nobody measured."""
    if np.isnan(value):
        return ""
    if measure == "seconds_fitting":
        return f"{value:.2g}" if value < 10 else f"{value:.0f}"
    return f"{value:.0f}" if measure == "megabytes" else f"{value:.3f}"


def mean_ranks(plan: Plan, ranks: dict[str, Ranks], tested: Sequence[Tested]) -> Table:
    """Mean rank by each measure, and how often TopRanker is better, tied and worse."""
    rows = []
    for measure in MEASURES:
        found, most = ranks[measure.key], ranks[measure.key].of_most()
        mean = dict(zip(most.names, most.mean, strict=True))
        for i in sorted(found.order, key=lambda i: mean.get(found.names[i], np.inf)):
            of_competitor = [
                one.verdict
                for one in tested
                if (one.measure, one.competitor) == (measure.key, plan.methods[i])
            ]
            counts = [str(of_competitor.count(verdict)) for verdict in (1, 0, -1)]
            rows.append(
                [
                    measure.title,
                    found.names[i],
                    f"{mean[found.names[i]]:.2f}" if found.names[i] in mean else "",
                    str(found.n_finished[i]),
                    *(counts if of_competitor else ["", "", ""]),
                ]
            )
    columns = ["measure", "ranker", "mean rank", "sets", "wins", "ties", "losses"]
    notes = [
        "Mean rank over the sets, of the rankers with a result on at least half of them; who did "
        "not finish a set comes last there. Wins, ties and losses are TopRanker's against this "
        "ranker, by the corrected tests. Two mean ranks differ at "
        f"{LEVEL} if they are {ranks['ap'].of_most().critical_difference:.1f} apart (Nemenyi).",
    ]
    return Table("benchmark-ranks", "Mean ranks", columns, rows, notes, group=True)


def settings(plan: Plan) -> Table:
    """How each ranker was set."""
    rows = [[CONTESTANTS[key].title, CONTESTANTS[key].settings] for key in plan.methods]
    return Table("benchmark-settings", "How each ranker is set", ["ranker", "settings"], rows)


def best_table(
    plan: Plan, summaries: Summaries, tested: Sequence[Tested], titles: dict[str, str]
) -> Table:
    """The best mean on every set by some measures, and that of TopRanker."""
    verdicts = {(one.data, one.competitor, one.measure): one.verdict for one in tested}
    rows = []
    for data in plan.data:
        ours = summaries.get((data, OURS))
        if ours is None or not ours.trials:
            continue
        least = NEARLY_ALL * len(ours.trials)
        row = [titles[data], str(len(ours.trials))]
        for measure in DRAWN:
            means = {
                method: shown(float(summary.values[measure].mean()), measure)
                for method in [OURS, *plan.methods]
                if (summary := summaries.get((data, method))) and len(summary.trials) >= least
            }
            best = max(means, key=lambda method: means[method])  # the first of equal ones: ours
            mark = " ○" if verdicts.get((data, best, measure), 0) < 0 else ""
            row += [f"{CONTESTANTS[best].title} {means[best]}{mark}", means[OURS]]
        rows.append(row)
    heads = [f"{TITLES[key]}, {who}" for key in DRAWN for who in ("best", "TopRanker")]
    return Table("benchmark-best", "The best of each set", ["data", "splits", *heads], rows)


def losses(tested: Sequence[Tested], titles: dict[str, str]) -> Table:
    """The significant differences in favour of a competitor, by some measures."""
    rows = [
        [TITLES[one.measure], titles[one.data], CONTESTANTS[one.competitor].title,
         f"{-one.difference.mean:.3f}"]
        for one in sorted(tested, key=lambda one: one.difference.mean)
        if one.verdict < 0 and one.measure in DRAWN
    ]  # fmt: skip
    columns = ["measure", "data", "better", "by"]
    return Table("benchmark-losses", "Where TopRanker is worse", columns, rows)


def by_rows(plan: Plan, ranks: dict[str, Ranks]) -> Table:
    """The first three mean ranks on some of the sets, and among linear rankers."""
    sets, names = np.arange(len(plan.data)), np.arange(len(plan.methods))
    many = np.array([plan.sizes[data][2] > MANY_COLUMNS for data in plan.data], bool)
    linear = [CONTESTANTS[key].kind == "linear" or key in LINEAR for key in plan.methods]
    choices = {
        "any": (sets, names),
        f"at most {MANY_COLUMNS} columns": (sets[~many], names),
        f"more than {MANY_COLUMNS} columns": (sets[many], names),
        "any, linear rankers": (sets, names[linear]),
    }
    rows = []
    for title, (some, kept) in choices.items():
        cells = []
        for measure in DRAWN:
            found = ranks[measure].part(some, kept)
            first = found.order[:3]
            cells.append(", ".join(f"{found.names[i]} {found.mean[i]:.2f}" for i in first))
        if len(some) and len(kept):
            rows.append([title, str(len(some)), *cells])
    return Table(
        "benchmark-by-rows",
        "The first three mean ranks by type of rows",
        ["rows", "sets", *(TITLES[key] for key in DRAWN)],
        rows,
    )


def nearly_best(plan: Plan, summaries: Summaries) -> Table:
    """Sets on which each ranker is nearly the best by AP, and its time relative to TopRanker."""
    near: dict[str, list[bool]] = {method: [] for method in plan.methods}
    times: dict[str, list[float]] = {method: [] for method in plan.methods}
    for data in plan.data:
        done = {key: one for (name, key), one in summaries.items() if name == data and one.trials}
        if OURS not in done:
            continue
        precision = {key: float(one.values["ap"].mean()) for key, one in done.items()}
        seconds = {key: float(one.values["seconds_fitting"].mean()) for key, one in done.items()}
        for key in done:
            if not np.isnan(seconds[key]):
                near[key].append(precision[key] >= max(precision.values()) - NEAR)
                times[key].append(seconds[key] / seconds[OURS])
    ratios = {key: float(np.median(times[key])) for key in plan.methods if any(near[key])}
    rows = [
        [CONTESTANTS[key].title, str(sum(near[key])), str(len(near[key])), f"{ratios[key]:.2g}"]
        for key in sorted(ratios, key=lambda key: ratios[key])
    ]
    columns = ["ranker", "nearly best", "of", "time"]
    return Table("benchmark-nearly-best", "Nearly the best, and the time", columns, rows)


def long_table(plan: Plan, summaries: Summaries, titles: dict[str, str]) -> Table:
    """Every mean of every ranker on every set, and why some are missing."""
    measured = [*MEASURES, *COSTS]
    rows = []
    for data in plan.data:
        for method in plan.methods:
            summary = summaries.get((data, method))
            means, n_splits, trouble = [""] * len(measured), 0, "not run"
            if summary is not None:
                n_splits, trouble = len(summary.trials), summary.trouble
            if summary is not None and n_splits:
                means = [shown(float(summary.values[one.key].mean()), one.key) for one in measured]
            splits = [str(n_splits), str(plan.n_trials(data))]
            rows.append([titles[data], CONTESTANTS[method].title, *splits, *means, trouble])
    columns = ["set", "ranker", "splits", "of", *(one.title for one in measured), "trouble"]
    return Table("benchmark", "Every mean", columns, rows)


def differences(tested: Sequence[Tested], titles: dict[str, str]) -> Table:
    """Every paired difference with its interval and p-values."""
    rows = [
        [
            titles[one.data],
            CONTESTANTS[one.competitor].title,
            TITLES[one.measure],
            str(one.n_splits),
            *(f"{x:+.4f}" for x in (one.difference.mean, one.difference.low, one.difference.high)),
            *(f"{p:.2g}" for p in (one.difference.p_value, one.corrected, one.overlapping)),
        ]
        for one in tested
    ]
    columns = ["set", "against", "measure", "splits", "difference", "low", "high"]
    columns += ["p", "p (Holm)", "p (splits overlap)"]
    return Table("benchmark-differences", "TopRanker less each competitor", columns, rows)


KIND = {one.title: one.kind for one in CONTESTANTS.values()}
OURS_INK = "#0b6e4f"
SMALLEST = 11.0, 3.4
"""Inches across and down in which the words have room, however few rankers there are."""


def draw_winners(ranks: Ranks, measure: str, titles: dict[str, str]) -> Picture:
    """A field for every ranker and set: the mean, the greener the better its rank."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("ranks", ["#0b6e4f", "#7cc4a4", "#f4f4f0"])
    n_sets, n_rankers = ranks.means.shape
    size = max(3.0 + 0.72 * n_sets, SMALLEST[0]), max(1.6 + 0.32 * n_rankers, SMALLEST[1])
    figure, (axis,) = new_axes(1, *size)
    order = ranks.order
    shown = (ranks.table[:, order].T - 1.0) / max(n_rankers - 1, 1)
    missing = np.isnan(ranks.means[:, order].T)
    axis.imshow(np.where(missing, np.nan, shown), cmap=colours, aspect="auto", vmin=0.0, vmax=1.0)
    for row, ranker in enumerate(order):
        for column in range(n_sets):
            value, is_dark = ranks.means[column, ranker], shown[row, column] < 0.3
            _write(axis, row, column, value, dark=is_dark and not missing[row, column])
    labels = [_short(titles[one]) for one in ranks.sets]
    axis.set_xticks(range(n_sets), labels, rotation=35, ha="left")
    axis.xaxis.tick_top()
    labels = [f"{ranks.names[i]}   {ranks.mean[i]:.1f}" for i in order]
    axis.set_yticks(range(n_rankers), labels)
    _colour_ours(axis, [ranks.names[i] for i in order])
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.tick_params(length=0)
    axis.set_xlabel(
        f"{measure.capitalize()} negatives: mean over random splits. Darker is better on that set; "
        "a dash: too few splits.\nBehind the names: mean rank over the sets. Green names are ours. "
        "A star: a part of the set.",
        loc="left",
    )
    words = f"{measure} of {n_rankers} rankers on {n_sets} data sets, in the order of mean ranks."
    return figure, words


def _short(title: str) -> str:
    """A set's name, with a star instead of the share of it that there is."""
    name, is_part, _ = title.partition(" (")
    return f"{name}*" if is_part else name


def _write(axis: "Axes", row: int, column: int, value: float, *, dark: bool) -> None:
    text = "-" if np.isnan(value) else f"{value:.{2 if value >= 0.1 else 3}f}".removeprefix("0")
    colour = "white" if dark else INK
    axis.text(column, row, text, ha="center", va="center", fontsize=8.5, color=colour)


def _colour_ours(axis: "Axes", names: list[str]) -> None:
    for label, name in zip(axis.get_yticklabels(), names, strict=True):
        if KIND[name] == "ours":
            label.set(color=OURS_INK, fontweight="bold")


def draw_ranks(by_measure: dict[str, Ranks]) -> Picture:
    """Mean ranks by some measures; a bar joins rankers that chance may have parted."""
    n_rankers = max(len(ranks.names) for ranks in by_measure.values())
    height = max(1.2 + 0.26 * n_rankers, SMALLEST[1])
    figure, axes = new_axes(len(by_measure), 4.6 * len(by_measure), height)
    for axis, (measure, ranks) in zip(axes, by_measure.items(), strict=True):
        _draw_ladder(axis, ranks)
        axis.set_title(measure, loc="left")
    axes[0].set_xlabel("mean rank (1 is best); bars join what is not significantly apart")
    words = "Critical differences: mean ranks by " + ", ".join(by_measure) + "."
    return figure, words


def _draw_ladder(axis: "Axes", ranks: Ranks) -> None:
    order = ranks.order
    names = [ranks.names[i] for i in order]
    colours = [OURS_INK if KIND[name] == "ours" else "#8a94a3" for name in names]
    axis.barh(range(len(order)), ranks.mean[order], color=colours, height=0.62, zorder=2)
    widest = float(ranks.mean.max())
    for number, (first, last) in enumerate(ranks.groups()):
        at = widest * (1.06 + 0.03 * number)
        axis.plot([at, at], [first - 0.3, last + 0.3], color=INK, linewidth=2.0, clip_on=False)
    axis.set_yticks(range(len(order)), names)
    _colour_ours(axis, names)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
