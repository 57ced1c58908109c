"""Table 2 of the paper from our own runs, beside the published values; and who wins where."""

import math

from reproduce.methods import METHODS, REFERENCE
from reproduce.published import PUBLISHED
from reproduce.results import Result
from reproduce.runner import FEW_TRIALS, MANY_ROWS, Plan
from reproduce.store import Store
from reproduce.summaries import LEVEL, Difference, Summary, summarise
from reproduce.tables import Table
from toppush.metrics import FOUR

TITLES = {one.key: one.title for one in FOUR}
Summaries = dict[tuple[str, str], Summary]


def result(plan: Plan, store: Store, titles: dict[str, str]) -> Result:
    """Table 2 and the comparisons that go beyond it, from what is in the store."""
    summaries = summarise(plan, store)
    tables, measures = [table2(plan, summaries, titles)], ("pos_at_top", "ap")
    tables += [overview(plan, summaries, titles, name) for name in measures]
    for rival in (REFERENCE, "lr-top"):
        if rival in plan.methods:
            tables += [comparison(plan, summaries, titles, rival, name) for name in measures]
    config = {"trials": plan.trials, "seed": plan.seed, "methods": list(plan.methods)}
    return Result("table2", tables[0].title, tables, config=config | {"data": titles})


def table2(plan: Plan, summaries: Summaries, titles: dict[str, str]) -> Table:
    """The paper's table: each cell ours, then the published mean in brackets."""
    columns = ["data", "method", "time (s)", *TITLES.values(), "protocol (s)"]
    found = [summaries.get((data, method)) for data in plan.data for method in plan.methods]
    rows = [_row(one, summaries, titles[one.data], plan.n_trials(one.data)) for one in found if one]
    notes = [
        f"Mean ± standard deviation over {plan.trials} random splits (2/3 training, 1/3 test), "
        f"{FEW_TRIALS} of sets with more than {MANY_ROWS:,} rows, or as many as the "
        "method's name says; in brackets the mean that the paper prints, with ≠ "
        "where ours is more than one published standard deviation away from it.",
        f"● (TopPush (paper) is better) and ○ (it is worse): significant by a paired t-test at "
        f"{LEVEL}. Time: CPU seconds of one thread on the full data; ▲ and ★ mark at least 10 and "
        "100 times that of TopPush (paper); that of the TopPushCV rows includes the choice of lam "
        "and top. Protocol: CPU seconds a trial, cross-validation included.",
        *(_size(titles[data], *plan.sizes[data]) for data in plan.data),
    ]
    return Table("table2", "Table 2: the top of the list", columns, rows, notes, group=True)


def _size(title: str, n_pos: int, n_neg: int, n_columns: int) -> str:
    return f"{title}: {n_pos:,} positives, {n_neg:,} negatives, {n_columns:,} features."


def _row(summary: Summary, summaries: Summaries, title: str, trials: int) -> list[str]:
    name = METHODS[summary.method].title
    if 0 < len(summary.trials) < trials:
        name += f" ({len(summary.trials)} of {trials} splits)"
    if not summary.trials:
        return [title, name, summary.trouble, *("" for _ in TITLES), ""]
    reference = summaries.get((summary.data, REFERENCE))
    cells = [_measured(summary, reference, measure) for measure in TITLES]
    trouble = f" then {summary.trouble}" if summary.trouble else ""
    protocol = f"{summary.seconds_protocol:.2g}"
    return [title, name, _time(summary, reference), *cells, protocol + trouble]


def _time(summary: Summary, reference: Summary | None) -> str:
    seconds = summary.seconds_training
    if math.isnan(seconds):
        return ""
    ratio = seconds / reference.seconds_training if reference is not None else 1.0
    mark = "★" if ratio >= 100 else "▲" if ratio >= 10 else ""
    return f"{seconds:.2g}{mark}"


def _measured(summary: Summary, reference: Summary | None, measure: str) -> str:
    values = summary.values[measure]
    spread = values.std(ddof=1) if values.size > 1 else 0.0
    difference = summary.against(reference, measure) if reference is not None else None
    mark = difference.mark if difference is not None else ""
    return f"{values.mean():.3f} ±{spread:.3f}{mark}{_published(summary, measure)}"


def _published(summary: Summary, measure: str) -> str:
    """What the paper prints, and whether ours is further away than its deviation."""
    printed = PUBLISHED.get((summary.data, summary.method))
    if printed is None:
        return ""
    far = abs(summary.values[measure].mean() - printed[measure]) > printed[f"{measure}_std"]
    return f" ({'≠' if far else ''}{printed[measure]:.3f})"


def overview(plan: Plan, summaries: Summaries, titles: dict[str, str], measure: str) -> Table:
    """One measure of every method on every data set."""
    rows = []
    for method in plan.methods:
        found = [summaries.get((data, method)) for data in plan.data]
        cells = [_cell(one, summaries, measure) for one in found]
        if any(cells):
            rows.append([METHODS[method].title, *cells])
    note = (
        "Mean ± standard deviation over the splits; ● and ○ where TopPush (paper) is significantly "
        "better and worse."
    )
    name = _file_name(measure)
    columns = ["method", *(titles[data] for data in plan.data)]
    return Table(name, f"{TITLES[measure]} on held-out rows", columns, rows, [note])


def _cell(summary: Summary | None, summaries: Summaries, measure: str) -> str:
    if summary is None:
        return ""
    if not summary.trials:
        return summary.trouble.split(" (")[0]
    return _measured(summary, summaries.get((summary.data, REFERENCE)), measure).split(" (")[0]


def _file_name(measure: str) -> str:
    return TITLES[measure].replace("@", "-").lower()


def comparison(
    plan: Plan, summaries: Summaries, titles: dict[str, str], rival: str, measure: str
) -> Table:
    """Every method less a rival on every data set, with confidence intervals."""
    columns = ["method", *(titles[data] for data in plan.data)]
    rows = []
    for method in plan.methods:
        cells = []
        for data in plan.data:
            ours, theirs = summaries.get((data, method)), summaries.get((data, rival))
            cells.append(_interval(ours.against(theirs, measure) if ours and theirs else None))
        if method != rival and any(cells):
            rows.append([METHODS[method].title, *cells])
    title = f"{TITLES[measure]} less that of {METHODS[rival].title}"
    note = (
        f"Mean difference over the splits and its {LEVEL:.0%} confidence interval (paired t); + or "
        "- where the interval excludes zero."
    )
    name = f"{_file_name(measure)}-against-{rival}"
    return Table(name, title, columns, rows, [note])


def _interval(difference: Difference | None) -> str:
    if difference is None:
        return ""
    sign = {"●": " -", "○": " +", "": ""}[difference.mark]
    return f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]{sign}"
