"""The page docs/results.md: who wins where, from result files alone.

Sentences are templates; every figure, and every name of a winner, is read from a file.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill

from reproduce.benchmark_results import (
    KIND,
    LEVEL,
    MANY_COLUMNS,
    NEARLY_ALL,
    OURS,
    SECONDS,
    BenchmarkResults,
    Compared,
    Row,
    rows_of,
    splits_in_words,
)
from reproduce.benchmark_tables import FEWEST
from reproduce.table2 import PUBLISHED
from reproduce.tables import markdown_table
from toppush.metrics import FOUR

MEASURES = ("Pos@Top", "recall before 10", "AP")
"""The measures that the page speaks of; the files have more."""
WIDTH = 108
NEAR = 0.01
"""Average precision that is as good as the best for whoever is in a hurry."""
LINEAR = ("TopPushCV",)
"""Ours that give every column a weight; of the others those of the kind linear."""


def page(folder: Path, files: str = "../results") -> str:
    """The text of the page, from the results in a folder; `files` is its path from the page."""
    benchmark = BenchmarkResults.read(folder)
    sections = [
        _head(benchmark, files),
        _ranks(benchmark),
        _winners(benchmark),
        _losses(benchmark),
        _what_to_use(benchmark),
        _missing(benchmark, files),
        against_paper(folder, files),
    ]
    paragraphs = "\n\n".join(sections).split("\n\n")
    return "\n\n".join(map(_wrapped, paragraphs)) + "\n"


def _wrapped(paragraph: str) -> str:
    """Prose in lines of one length; what begins with a mark stays as it is."""
    if paragraph.startswith(("#", "|", "-", "<", "!")):
        return paragraph
    return fill(paragraph, WIDTH, break_long_words=False, break_on_hyphens=False)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "none"


def _head(benchmark: BenchmarkResults, files: str) -> str:
    counts = sorted(set(benchmark.splits.values()), reverse=True)
    sets = [
        f"{count} on {listed([name for name, n in benchmark.splits.items() if n == count])}"
        for count in counts
    ]
    return f"""<!-- Written by `python -m reproduce page`: no place to write. -->

# Who wins where

{len(benchmark.rankers)} rankers on {len(benchmark.sets)} data sets, each ranker with the settings
that its users would choose ([which]({files}/benchmark-settings.md)), on the same random splits, two
thirds to train and one to test. Splits: {"; ".join(sets)}. Every mean is in
[benchmark.csv]({files}/benchmark.csv), every paired difference in
[benchmark-differences.csv]({files}/benchmark-differences.csv). This page is written from these
files by `python -m reproduce page`, and they by `python -m reproduce benchmark`.

![who wins where]({files}/benchmark.svg)

Pos@Top is the share of the positives above every negative, "recall before 10" that above the tenth
highest negative, AP average precision. "Better" and "worse" mean by a paired t-test at `{LEVEL}`
with Holm's correction for all competitors and sets of a measure; everything else is a tie."""


def _ranks(benchmark: BenchmarkResults) -> str:
    by = {(row["measure"], row["ranker"]): row for row in benchmark.ranks}
    names = [
        row["ranker"] for row in benchmark.ranks if row["measure"] == "AP" and int(row["sets"])
    ]
    rows = []
    for name in names:
        last = by["AP", name]
        duels = [last[one] for one in ("wins", "ties", "losses")]
        ranks = [by[measure, name]["mean rank"] for measure in MEASURES]
        rows.append([_bold(name), *ranks, last["sets"], " / ".join(duels) if any(duels) else ""])
    head = [
        "ranker",
        *(f"rank: {one}" for one in MEASURES),
        "sets",
        f"AP: {OURS} better / tie / worse",
    ]
    first = [f"{_first(benchmark, one)} by {one}" for one in MEASURES]
    duels = [f"{_duels(benchmark.compared(one))} by {one}" for one in MEASURES]
    return f"""## All sets together

The best mean rank has {listed(first)}. Against rankers that are not ours, a set at a time, {OURS}
is better / tied / worse: {listed(duels)}. Rankers with a result on fewer than half of the sets have
no rank.

{markdown_table(head, rows)}"""


def _bold(name: str) -> str:
    return f"**{name}**" if KIND.get(name) == "ours" else name


def _by_rank(benchmark: BenchmarkResults, measure: str) -> list[Row]:
    """Rows of the file of ranks, the best first; few sets give no rank."""
    rows = [row for row in benchmark.ranks if row["measure"] == measure and row["mean rank"]]
    return sorted(rows, key=lambda row: float(row["mean rank"]))


def _first(benchmark: BenchmarkResults, measure: str) -> str:
    best = _by_rank(benchmark, measure)[0]
    return f"{best['ranker']} ({best['mean rank']})"


def _duels(found: Sequence[Compared]) -> str:
    verdicts = [one.verdict for one in found if KIND.get(one.competitor) != "ours"]
    return " / ".join(str(verdicts.count(verdict)) for verdict in (1, 0, -1))


def _winners(benchmark: BenchmarkResults) -> str:
    verdicts = {
        (one.data, one.competitor, measure): one.verdict
        for measure in MEASURES
        for one in benchmark.compared(measure)
    }
    rows = []
    for data in benchmark.sets:
        cells = []
        for measure in MEASURES:
            found, best = benchmark.by_ranker(data, measure), benchmark.best(data, measure)
            mark = {-1: " ○"}.get(verdicts.get((data, best, measure), 0), "")
            cells.append(f"{_bold(best)} {found[best]:.3f}{mark}")
            cells.append(f"{found[OURS]:.3f}")
        rows.append([data, str(benchmark.splits[data]), *cells])
    head = ["data", "splits"]
    for measure in MEASURES:
        head += [f"{measure}: best", OURS]
    firsts = [
        f"{sum(benchmark.best(data, one) == OURS for data in benchmark.sets)} by {one}"
        for one in MEASURES
    ]
    return f"""## Set by set

The greatest mean of those with at least {NEARLY_ALL:.0%} of the splits, and that of {OURS};
○ where the best is significantly better. Of {len(benchmark.sets)} sets {OURS} is first on
{listed(firsts)}.

{markdown_table(head, rows)}"""


def _losses(benchmark: BenchmarkResults) -> str:
    bullets, n_tested = [], 0
    for measure in MEASURES:
        tested = benchmark.compared(measure)
        n_tested += len(tested)
        for data in benchmark.sets:
            behind = [one for one in tested if one.data == data and one.verdict < 0]
            if behind:
                said = [
                    f"{one.competitor} by {-one.difference:.3f}" for one in _worst_first(behind)
                ]
                bullets.append(f"- {measure} on {data}: {listed(said)}.")
    text = "\n".join(bullets) or "- nobody."
    return f"""## Where {OURS} loses

Who is better than it by more than chance, and by how much, among {n_tested} comparisons by these
measures; with few splits only large differences show:

{text}"""


def _worst_first(found: Iterable[Compared]) -> list[Compared]:
    return sorted(found, key=lambda one: one.difference)


def _what_to_use(benchmark: BenchmarkResults) -> str:
    """Rules, and what they come to on these files."""
    linear = [one for one in benchmark.rankers if one in LINEAR or KIND.get(one) == "linear"]
    known = [_first_known(benchmark, one) for one in MEASURES]
    rules = {
        f"Tables of at most {MANY_COLUMNS} columns": (
            benchmark.of_many_columns(many=False),
            benchmark.rankers,
        ),
        f"More than {MANY_COLUMNS} columns": (
            benchmark.of_many_columns(many=True),
            benchmark.rankers,
        ),
        "It must be linear": (benchmark.sets, linear),
    }
    rows = [["Any", str(len(benchmark.sets)), *known]]
    rows += [
        [title, str(len(sets)), *(_first_three(benchmark, one, sets, rankers) for one in MEASURES)]
        for title, (sets, rankers) in rules.items()
        if sets and rankers
    ]
    return f"""## What to use when

Take the ranker with the best mean rank on sets like yours, by the measure that you will be judged
by. Here are the first three with their mean ranks; who did not finish a set comes last there. The
last line ranks linear rankers among themselves.

{markdown_table(["your rows", "sets", *MEASURES], rows)}

In a hurry, take the first of these that is near often enough. "Near" is an average precision at
most `{NEAR}` below the best on the set; times are medians over the sets of CPU seconds in units of
{OURS}'s. The trials were run on machines that differ in speed, so a factor of two or three may be
the machine's and not the ranker's.

{markdown_table(["ranker", "near the best", "time"], _hurry(benchmark))}"""


def _first_known(benchmark: BenchmarkResults, measure: str) -> str:
    """The first three of the file of ranks."""
    first = _by_rank(benchmark, measure)[:3]
    return ", ".join(f"{_bold(row['ranker'])} {row['mean rank']}" for row in first)


def _first_three(
    benchmark: BenchmarkResults, measure: str, sets: Sequence[str], rankers: Sequence[str]
) -> str:
    ranks = list(benchmark.mean_ranks(measure, sets, rankers).items())[:3]
    return ", ".join(f"{_bold(name)} {rank:.2f}" for name, rank in ranks)


def _hurry(benchmark: BenchmarkResults) -> list[list[str]]:
    """Every ranker that is near on some set, the quickest first; a GPU has no CPU seconds."""
    found = []
    for name in benchmark.rankers:
        near, times = 0, []
        for data in benchmark.sets:
            precision, seconds = benchmark.by_ranker(data, "AP"), benchmark.by_ranker(data, SECONDS)
            if name in seconds:
                near += precision[name] >= max(precision.values()) - NEAR
                times.append(seconds[name] / seconds[OURS])
        if near:
            found.append((median(times), name, near, len(times)))
    return [
        [_bold(name), f"{near} of {n}", f"{times:.2g}"] for times, name, near, n in sorted(found)
    ]


def _missing(benchmark: BenchmarkResults, files: str) -> str:
    """The splits of every ranker on every set, and those that could not be had."""
    by = {(row["ranker"], row["set"]): row for row in benchmark.means}
    names = list(dict.fromkeys(ranker for ranker, _ in by))
    rows = [
        [_bold(name), *(splits_in_words(by[name, data]) for data in benchmark.sets)]
        for name in names
    ]
    planned = {data: by[OURS, data]["of"] for data in benchmark.sets}
    head = ["ranker", *(f"{data.partition(' (')[0]}: {n}" for data, n in planned.items())]
    failed: dict[str, dict[str, list[str]]] = {}
    for row in benchmark.means:
        if row["set"] in benchmark.sets and row["trouble"].startswith("failed"):
            why = row["trouble"].removeprefix("failed (").removesuffix(")")
            failed.setdefault(why, {}).setdefault(row["ranker"], []).append(row["set"])
    bullets = [
        f"- {listed([f'{name} on {listed(sets)}' for name, sets in all_of.items()])}: {why}"
        for why, all_of in failed.items()
    ]
    longest_first = sorted(benchmark.limits, key=float, reverse=True)
    limits = [f"{limit} ({benchmark.limits[limit]})" for limit in longest_first]
    refused = "\n\nWhat failed said why:\n\n" + "\n".join(bullets) if bullets else ""
    return f"""## Splits, and what is missing

Splits of each mean, and with each set the number that was planned. Where splits are missing the
time limit was reached; in brackets is the estimated time of all splits, from those that finished or
from fits on growing parts of the rows (last column of [benchmark.csv]({files}/benchmark.csv)).
Limits in CPU seconds for all splits of a ranker on a set, and in brackets the number of cells that
reached them: {listed(limits)}. Fewer than {FEWEST} splits give no mean.

{markdown_table(head, rows)}{refused}"""


REFERENCE = "TopPush (paper)"
FIXED = {"lam = 1": f"{REFERENCE}, lam = 1", "lam = 0.001": f"{REFERENCE}, lam = 0.001"}
LINEAR_CV = ("TopPushCV",)
PROTOCOL = "protocol (s)"
Rows = dict[tuple[str, str], Row]
"""Of table2.csv, by data set and method."""


def against_paper(folder: Path, files: str) -> str:
    """Published means compared with ours, our rows with the paper's solver, and their cost."""
    rows = {
        (_bare(row["data"]), _bare(row["method"])): row for row in rows_of(folder / "table2.csv")
    }
    less = rows_of(folder / "pos-top-against-toppush.csv")
    head = ["data", "measure", "published", "chosen on folds", *FIXED]
    return f"""## The paper's own table

`python -m reproduce table2` runs the paper's protocol again ([reproduce.md](reproduce.md)); the
whole table is [table2.md]({files}/table2.md). {_agreement(rows)} Most of the rest is explained by
lambda, and on w8a by ties: cross-validation on Pos@Top, which is mostly noise, picks other lambdas
from split to split, and every other measure moves with lambda, while the published deviations are
those of one lambda in every split. Half of w8a's rows repeat, and the paper's average precision is
that of positives listed before the negatives that they tie with (`python -m benchmarks.ties`). Of
news20 we have a part, and its label is a guess. TopPush by the paper's solver:

{markdown_table(head, _published(rows))}

Pos@Top against that row, a paired t-test at `0.9` on each set:

{markdown_table(["method", "better", "tie", "worse"], [_verdicts(row) for row in less])}

CPU seconds of a trial with its cross-validation:

{markdown_table(["data", REFERENCE, *LINEAR_CV], _costs(rows))}"""


def _bare(title: str) -> str:
    """A name without what is said of it in brackets."""
    return re.sub(r" \(\d+ of \d+ splits\)| \([\d.]+% of it\)", "", title)


def _mean(row: Row | None, measure: str) -> str:
    """Mean and deviation of a cell, without its marks."""
    found = re.match(r"[\d.]+ ±[\d.]+", row[measure]) if row else None
    return found[0].replace("±", "± ") if found else ""


def _agreement(rows: Rows) -> str:
    """How many published means are within a published deviation of ours."""
    cells = [row[one.title] for row in rows.values() for one in FOUR]
    printed = [one for one in cells if "(" in one]
    near = sum("≠" not in one for one in printed)
    ours = [rows[key][one.title] for key in rows if key[1] == REFERENCE for one in FOUR]
    known = [one for one in ours if "(" in one]
    close = sum("≠" not in one for one in known)
    return (
        f"Of {len(printed)} published means {near} are within one published deviation of ours, of "
        f"TopPush's {close} of {len(known)}."
    )


def _published(rows: Rows) -> list[list[str]]:
    found = []
    for data in dict.fromkeys(data for data, _ in rows):
        printed = PUBLISHED.get((data, "toppush"))
        for one in FOUR if printed else ():
            known = f"{printed[one.key]:.3f} ± {printed[f'{one.key}_std']:.3f}" if printed else ""
            means = [
                _mean(rows.get((data, name)), one.title) for name in (REFERENCE, *FIXED.values())
            ]
            found.append([data, one.title, known, *means])
    return found


def _verdicts(row: Row) -> list[str]:
    """The sets on which a method is better, level and worse."""
    cells = {_bare(name): cell for name, cell in row.items() if name != "method" and cell}
    better = [name for name, cell in cells.items() if cell.endswith(" +")]
    worse = [name for name, cell in cells.items() if cell.endswith(" -")]
    level = [name for name in cells if name not in (*better, *worse)]
    return [row["method"], *(", ".join(names) for names in (better, level, worse))]


def _costs(rows: Rows) -> list[list[str]]:
    found = []
    for data, method in rows:
        if method == REFERENCE:
            names = [rows.get((data, name)) for name in (REFERENCE, *LINEAR_CV)]
            found.append([data, *(_seconds(row) for row in names)])
    return found


def _seconds(row: Row | None) -> str:
    """Of a trial; what is said behind them, as of splits that ran out of time, is left out."""
    found = row[PROTOCOL].split() if row else []
    return f"{float(found[0]):.3g}" if found else ""
