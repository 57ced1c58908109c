"""Table 2 of the paper from our own runs, compared with the published values."""

import math

from reproduce.methods import METHODS, REFERENCE
from reproduce.results import Result
from reproduce.runner import FEW_TRIALS, MANY_ROWS, Plan
from reproduce.store import Store
from reproduce.summaries import LEVEL, Difference, Summary, summarise
from reproduce.tables import Table
from toppush.metrics import FOUR

TABLE = """
diabetes       toppush        0.00511  0.123+-0.056 0.872+-0.023 0.976+-0.005 0.780+-0.037
diabetes       lr               0.023  0.064+-0.075* 0.881+-0.022 0.973+-0.008 0.810+-0.030o
diabetes       cs-svm           0.077  0.077+-0.088* 0.758+-0.166* 0.920+-0.078* 0.624+-0.246*
diabetes       svm-rank        0.0611  0.087+-0.082* 0.879+-0.022 0.975+-0.006 0.801+-0.033o
diabetes       svm-map           4.71  0.077+-0.072* 0.879+-0.012 0.969+-0.009 0.616+-0.191*
diabetes       svm-pauc         0.209  0.053+-0.096* 0.668+-0.123* 0.884+-0.065* 0.506+-0.167*
diabetes       infinite-push     26.3  0.119+-0.051 0.877+-0.035 0.978+-0.007 0.793+-0.041
diabetes       aatp          2.72e+03  0.127+-0.061 0.881+-0.035 0.979+-0.010 0.783+-0.038
news20-forsale toppush           2.16  0.191+-0.088 0.843+-0.018 0.970+-0.005 0.969+-0.005
news20-forsale lr                4.14  0.086+-0.067* 0.803+-0.020* 0.962+-0.005 0.973+-0.004
news20-forsale cs-svm            1.89  0.114+-0.069* 0.766+-0.021* 0.955+-0.006* 0.964+-0.005
news20-forsale svm-rank           296  0.149+-0.056* 0.850+-0.016 0.972+-0.003 0.974+-0.004
news20-forsale svm-map            842  0.184+-0.092 0.832+-0.022 0.969+-0.007 0.961+-0.008
news20-forsale svm-pauc           325  0.196+-0.087 0.812+-0.019* 0.963+-0.005* 0.957+-0.007*
nslkdd         toppush           76.4  0.633+-0.088 0.978+-0.001 0.997+-0.001 0.969+-0.003
nslkdd         lr                36.3  0.220+-0.053* 0.981+-0.002 0.998+-0.001 0.972+-0.002
nslkdd         cs-svm            1.86  0.556+-0.037* 0.980+-0.001 0.998+-0.001 0.972+-0.001
nslkdd         svm-pauc           172  0.634+-0.059 0.956+-0.002* 0.996+-0.001 0.948+-0.002*
real-sim       toppush           13.4  0.186+-0.049 0.986+-0.001 0.998+-0.001 0.992+-0.002
real-sim       lr                7.67  0.100+-0.043* 0.989+-0.001 0.999+-0.001 0.995+-0.002
real-sim       cs-svm            4.84  0.146+-0.031* 0.979+-0.001 0.998+-0.001 0.989+-0.001
real-sim       svm-rank      1.83e+03  0.090+-0.045* 0.986+-0.000 0.999+-0.001 0.994+-0.002
spambase       toppush          0.151  0.129+-0.077 0.922+-0.006 0.988+-0.001 0.942+-0.005
spambase       lr              0.0311  0.071+-0.053* 0.920+-0.010 0.987+-0.003 0.952+-0.005o
spambase       cs-svm          0.0831  0.069+-0.059* 0.907+-0.010* 0.980+-0.004* 0.941+-0.005
spambase       svm-rank          23.1  0.069+-0.076* 0.931+-0.010 0.990+-0.003 0.970+-0.005o
spambase       svm-map            192  0.097+-0.069* 0.935+-0.014 0.984+-0.005 0.920+-0.007
spambase       svm-pauc          1.73  0.073+-0.058* 0.854+-0.024* 0.975+-0.007* 0.889+-0.019*
spambase       infinite-push 1.78e+03  0.132+-0.087 0.920+-0.005 0.987+-0.002 0.947+-0.007
url            toppush       5.11e+03  0.474+-0.046 0.986+-0.001 0.999+-0.001 0.988+-0.002
url            lr            8.98e+03  0.362+-0.113* 0.993+-0.001o 0.999+-0.001 0.992+-0.002
url            cs-svm        3.78e+03  0.432+-0.069* 0.991+-0.002 0.998+-0.001 0.998+-0.001
w8a            toppush           7.35  0.226+-0.053 0.710+-0.019 0.938+-0.005 0.922+-0.008
w8a            lr                2.46  0.107+-0.093* 0.450+-0.374* 0.775+-0.221* 0.591+-0.460*
w8a            cs-svm            3.87  0.118+-0.105* 0.447+-0.372* 0.774+-0.220* 0.591+-0.461*
w8a            svm-pauc      2.59e+03  0.207+-0.046 0.673+-0.021* 0.929+-0.006* 0.911+-0.010*
"""


def read_table() -> dict[tuple[str, str], dict[str, float]]:
    """Data set and method -> seconds_training, and pos_at_top, ap, ndcg, auc with their _std."""
    rows = {}
    for line in TABLE.strip().splitlines():
        data, method, seconds, *cells = line.split()
        row = {"seconds_training": float(seconds)}
        for name, cell in zip((one.key for one in FOUR), cells, strict=True):
            mean, deviation = cell.rstrip("*o").split("+-")
            row |= {name: float(mean), f"{name}_std": float(deviation)}
        rows[data, method] = row
    return rows


PUBLISHED = read_table()


TITLES = {one.key: one.title for one in FOUR}
Summaries = dict[tuple[str, str], Summary]


def result(plan: Plan, store: Store, titles: dict[str, str]) -> Result:
    """Table 2 and the comparisons that go beyond it, from what is in the store."""
    summaries = summarise(plan, store)
    tables, measures = [table2(plan, summaries, titles)], ("pos_at_top", "ap")
    tables += [overview(plan, summaries, titles, name) for name in measures]
    for competitor in (REFERENCE, "lr-top"):
        if competitor in plan.methods:
            tables += [comparison(plan, summaries, titles, competitor, name) for name in measures]
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
    plan: Plan, summaries: Summaries, titles: dict[str, str], competitor: str, measure: str
) -> Table:
    """Every method less a competitor on every data set, with confidence intervals."""
    columns = ["method", *(titles[data] for data in plan.data)]
    rows = []
    for method in plan.methods:
        cells = []
        for data in plan.data:
            ours, theirs = summaries.get((data, method)), summaries.get((data, competitor))
            cells.append(_interval(ours.against(theirs, measure) if ours and theirs else None))
        if method != competitor and any(cells):
            rows.append([METHODS[method].title, *cells])
    title = f"{TITLES[measure]} less that of {METHODS[competitor].title}"
    note = (
        f"Mean difference over the splits and its {LEVEL:.0%} confidence interval (paired t); + or "
        "- where the interval excludes zero."
    )
    name = f"{_file_name(measure)}-against-{competitor}"
    return Table(name, title, columns, rows, [note])


def _interval(difference: Difference | None) -> str:
    if difference is None:
        return ""
    sign = {"●": " -", "○": " +", "": ""}[difference.mark]
    return f"{difference.mean:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]{sign}"
