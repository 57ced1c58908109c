"""The page docs/results.md: who wins where, from result files alone.

Sentences are templates; every figure, and every name of a winner, is read from a file.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from textwrap import fill

from reproduce.arena_reading import (
    KIND,
    LEVEL,
    MANY_COLUMNS,
    NEARLY_ALL,
    OURS,
    SECONDS,
    Arena,
    Compared,
    Row,
    splits_in_words,
)
from reproduce.arena_tables import FEWEST
from reproduce.paper_section import against_paper
from reproduce.tables import markdown_table

MEASURES = ("Pos@Top", "recall before 10", "AP")
"""The measures that the page speaks of; the files have more."""
WIDTH = 108
NEAR = 0.01
"""Average precision that is as good as the best for whoever is in a hurry."""
LINEAR = ("TopPushCV",)
"""Ours that give every column a weight; of the others those of the kind linear."""


def page(folder: Path, files: str = "../results") -> str:
    """The text of the page, from the results in a folder; `files` is its path from the page."""
    arena = Arena.read(folder)
    sections = [
        _head(arena, files),
        _ranks(arena),
        _winners(arena),
        _losses(arena),
        _what_to_use(arena),
        _missing(arena, files),
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


def _head(arena: Arena, files: str) -> str:
    counts = sorted(set(arena.splits.values()), reverse=True)
    sets = [
        f"{count} on {listed([name for name, n in arena.splits.items() if n == count])}"
        for count in counts
    ]
    return f"""<!-- Written by `python -m reproduce page`: no place to write. -->

# Who wins where

{len(arena.rankers)} rankers on {len(arena.sets)} data sets, each ranker with settings that those
who know it would choose ([which]({files}/arena-practices.md)), on the same random splits, two
thirds to train and one to test. Splits:
{"; ".join(sets)}. Every mean is in [arena.csv]({files}/arena.csv), every paired difference in
[arena-differences.csv]({files}/arena-differences.csv). This page is written from those files by
`python -m reproduce page`, and they by `python -m reproduce arena`; no figure is typed.

![who wins where]({files}/arena.svg)

Pos@Top is the share of the positives above every negative, "recall before 10" that above the tenth
highest negative, AP average precision. "Better" and "worse" mean by a paired t-test at `{LEVEL}`
with Holm's correction for all rivals and sets of a measure; all else is level."""


def _ranks(arena: Arena) -> str:
    by = {(row["measure"], row["ranker"]): row for row in arena.ranks}
    names = [row["ranker"] for row in arena.ranks if row["measure"] == "AP" and int(row["sets"])]
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
        f"AP: {OURS} better / level / worse",
    ]
    first = [f"{_first(arena, one)} by {one}" for one in MEASURES]
    duels = [f"{_duels(arena.compared(one))} by {one}" for one in MEASURES]
    return f"""## All sets together

The best mean rank has {listed(first)}. Against rankers that are not ours, a set at a time, {OURS}
is better / level / worse: {listed(duels)}. Those with a result on fewer than half of the sets have
no rank.

{markdown_table(head, rows)}"""


def _bold(name: str) -> str:
    return f"**{name}**" if KIND.get(name) == "ours" else name


def _by_rank(arena: Arena, measure: str) -> list[Row]:
    """Rows of the file of ranks, the best first; few sets give no rank."""
    rows = [row for row in arena.ranks if row["measure"] == measure and row["mean rank"]]
    return sorted(rows, key=lambda row: float(row["mean rank"]))


def _first(arena: Arena, measure: str) -> str:
    best = _by_rank(arena, measure)[0]
    return f"{best['ranker']} ({best['mean rank']})"


def _duels(found: Sequence[Compared]) -> str:
    verdicts = [one.verdict for one in found if KIND.get(one.rival) != "ours"]
    return " / ".join(str(verdicts.count(verdict)) for verdict in (1, 0, -1))


def _winners(arena: Arena) -> str:
    verdicts = {
        (one.data, one.rival, measure): one.verdict
        for measure in MEASURES
        for one in arena.compared(measure)
    }
    rows = []
    for data in arena.sets:
        cells = []
        for measure in MEASURES:
            found, best = arena.by_ranker(data, measure), arena.best(data, measure)
            mark = {-1: " ○"}.get(verdicts.get((data, best, measure), 0), "")
            cells.append(f"{_bold(best)} {found[best]:.3f}{mark}")
            cells.append(f"{found[OURS]:.3f}")
        rows.append([data, str(arena.splits[data]), *cells])
    head = ["data", "splits"]
    for measure in MEASURES:
        head += [f"{measure}: best", OURS]
    firsts = [
        f"{sum(arena.best(data, one) == OURS for data in arena.sets)} by {one}" for one in MEASURES
    ]
    return f"""## Set by set

The greatest mean of those with at least {NEARLY_ALL:.0%} of the splits, and that of {OURS} beside
it; ○ where the best is better by more than chance. Of {len(arena.sets)} sets {OURS} is first on
{listed(firsts)}.

{markdown_table(head, rows)}"""


def _losses(arena: Arena) -> str:
    bullets, n_tested = [], 0
    for measure in MEASURES:
        tested = arena.compared(measure)
        n_tested += len(tested)
        for data in arena.sets:
            behind = [one for one in tested if one.data == data and one.verdict < 0]
            if behind:
                said = [f"{one.rival} by {-one.difference:.3f}" for one in _worst_first(behind)]
                bullets.append(f"- {measure} on {data}: {listed(said)}.")
    text = "\n".join(bullets) or "- nobody."
    return f"""## Where {OURS} loses

Who is better than it by more than chance, and by how much, among {n_tested} comparisons by these
measures; with few splits only large differences show:

{text}"""


def _worst_first(found: Iterable[Compared]) -> list[Compared]:
    return sorted(found, key=lambda one: one.difference)


def _what_to_use(arena: Arena) -> str:
    """Rules, and what they come to on these files."""
    linear = [one for one in arena.rankers if one in LINEAR or KIND.get(one) == "linear"]
    known = [_first_known(arena, one) for one in MEASURES]
    rules = {
        f"Tables of at most {MANY_COLUMNS} columns": (
            arena.of_many_columns(many=False),
            arena.rankers,
        ),
        f"More than {MANY_COLUMNS} columns": (arena.of_many_columns(many=True), arena.rankers),
        "It must be linear": (arena.sets, linear),
    }
    rows = [["Any", str(len(arena.sets)), *known]]
    rows += [
        [title, str(len(sets)), *(_first_three(arena, one, sets, rankers) for one in MEASURES)]
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

{markdown_table(["ranker", "near the best", "time"], _hurry(arena))}"""


def _first_known(arena: Arena, measure: str) -> str:
    """The first three of the file of ranks."""
    first = _by_rank(arena, measure)[:3]
    return ", ".join(f"{_bold(row['ranker'])} {row['mean rank']}" for row in first)


def _first_three(arena: Arena, measure: str, sets: Sequence[str], rankers: Sequence[str]) -> str:
    ranks = list(arena.mean_ranks(measure, sets, rankers).items())[:3]
    return ", ".join(f"{_bold(name)} {rank:.2f}" for name, rank in ranks)


def _hurry(arena: Arena) -> list[list[str]]:
    """Every ranker that is near on some set, the quickest first; a GPU has no CPU seconds."""
    found = []
    for name in arena.rankers:
        near, times = 0, []
        for data in arena.sets:
            precision, seconds = arena.by_ranker(data, "AP"), arena.by_ranker(data, SECONDS)
            if name in seconds:
                near += precision[name] >= max(precision.values()) - NEAR
                times.append(seconds[name] / seconds[OURS])
        if near:
            found.append((median(times), name, near, len(times)))
    return [
        [_bold(name), f"{near} of {n}", f"{times:.2g}"] for times, name, near, n in sorted(found)
    ]


def _missing(arena: Arena, files: str) -> str:
    """The splits of every ranker on every set, and those that could not be had."""
    by = {(row["ranker"], row["set"]): row for row in arena.means}
    names = list(dict.fromkeys(ranker for ranker, _ in by))
    rows = [
        [_bold(name), *(splits_in_words(by[name, data]) for data in arena.sets)] for name in names
    ]
    planned = {data: by[OURS, data]["of"] for data in arena.sets}
    head = ["ranker", *(f"{data.partition(' (')[0]}: {n}" for data, n in planned.items())]
    failed: dict[str, dict[str, list[str]]] = {}
    for row in arena.means:
        if row["set"] in arena.sets and row["trouble"].startswith("failed"):
            why = row["trouble"].removeprefix("failed (").removesuffix(")")
            failed.setdefault(why, {}).setdefault(row["ranker"], []).append(row["set"])
    bullets = [
        f"- {listed([f'{name} on {listed(sets)}' for name, sets in all_of.items()])}: {why}"
        for why, all_of in failed.items()
    ]
    longest_first = sorted(arena.limits, key=float, reverse=True)
    limits = [f"{limit} ({arena.limits[limit]})" for limit in longest_first]
    refused = "\n\nWhat failed said why:\n\n" + "\n".join(bullets) if bullets else ""
    return f"""## Splits, and what is missing

How many splits each mean is of, and beside the set how many it has. Where some are missing their
time was up, and about how long all would take stands in brackets, by those that ended or by fits on
growing parts of the rows, which is a guess; the last column of [arena.csv]({files}/arena.csv) says
which. CPU seconds that all splits of a ranker on a set might take where they did not suffice, and
in brackets in how many cells: {listed(limits)}. Fewer than {FEWEST} splits give no mean.

{markdown_table(head, rows)}{refused}"""
