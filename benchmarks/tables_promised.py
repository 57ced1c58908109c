"""The tables about promises and intervals, and of the paper's protocol on diabetes."""

from collections.abc import Callable

import numpy as np

from benchmarks.guarantees import OBSERVED
from benchmarks.summary import Grid, Rows, group, read
from reproduce.published import PUBLISHED

PROMISES = {
    "precision of at least 0.5 or 0.8": ["precision at least 0.5", "precision at least 0.8"],
    "recall of at least 0.8": ["recall at least 0.8"],
    "false positives of at most 0.02": ["false positives at most 0.02"],
    "rows of a day within the budget": ["rows a day within the budget"],
    "hits of a day above the budget's score, above that of the greatest profit": [
        "hits a day above the budget's score", "hits a day above that length's score",
    ],
    "hits in the first 10 and in the first 50 of 400 rows": [
        "hits in the first 10", "hits in the first 50",
    ],
    "profit at the best length": ["profit at the best length"],
    "means over groups": ["mean"],
    "*precision of at least 0.5 because the list has it*": [f"precision at least 0.5{OBSERVED}"],
}  # fmt: skip


def guarantees() -> Grid:
    """Per cent of the lists for which each promise held, from the worst kind to the best."""
    rows = [
        row | {"what": "mean"} if row["what"][:5] == "mean " else row for row in read("guarantees")
    ]
    by = group(rows, "what")
    lines = []
    for title, names in PROMISES.items():
        held = [100 * row["held"] for name in names for row in by[name,]]
        lines.append([title, f"{min(held):.1f} to {max(held):.1f}"])
    return [["what", "held, of 100 lists, from the worst kind to the best"], *lines]


def promised_rows() -> Grid:
    """How long lists are whose precision is observed, and promised."""
    by = group(read("guarantees"), "scores", "rows", "positives", "what")
    name = "precision at least 0.5"
    lines = []
    for scores, rows, positives, what in by:
        if (scores, positives, what) == ("normal", "100", name):
            promised = by[scores, rows, positives, what][0]
            observed = by[scores, rows, positives, name + OBSERVED][0]
            sizes = [f"{row['size']:.0f}" for row in (observed, promised)]
            lines.append([f"{promised['rows']:,.0f}", *sizes, f"{promised['made']:.0%}"])
    return [["rows", "observed", "promised", "lists with a promise"], *lines]


MEASURES = {
    "Pos@Top, `top_loss`": ("positives_at_top", "top_loss"),
    "`top_recall`": ("top_recall",),
    "recall at 1 % and 10 % false positives": ("recall_at_fpr",),
    "partial AUC to 1 % and 10 %": ("partial_auc",),
    "precision in the first 10, 50 and n_pos": ("precision_at_k",),
    "recall in the first 50, lift at 10 %": ("recall_at_k", "lift_at"),
    "average precision": ("average_precision",),
    "NDCG": ("ndcg",),
    "AUC, `ranking_loss`": ("auc", "ranking_loss"),
}


def coverage() -> Grid:
    """Least and greatest coverage of each measure, ours and of resampled rows."""
    alone = [row for row in read("coverage") if row["scores"][:10] != "difference"]
    lines = []
    for title, names in MEASURES.items():
        rows = [row for row in alone if row["measure"].partition("(")[0] in names]
        lines.append([title, _ends(rows, "coverage"), _ends(rows, "coverage, resampled")])
    pairs = [row for row in read("coverage") if row["scores"][:10] == "difference"]
    lines.append(["differences of two rankers", _ends(pairs, "coverage"), "not simulated"])
    kinds = len(group(alone, "scores", "apart", "positives", "negatives"))
    return [["measure", f"coverage, {kinds} kinds of lists", "of resampled rows"], *lines]


def _ends(rows: Rows, name: str) -> str:
    least, most = (choose(row[name] for row in rows) for choose in (min, max))
    return f"{least:.3s} to {most:.3s}"


def noise_leaderboard() -> Grid:
    """Average precision on noise, now and with choices judged by the rows that made them."""
    before = {row["ranker"]: row for row in read("noise-leaderboard-before")}
    shown = "{average precision:.3f} ± {standard error:.3f}".format_map
    lines = [
        [row["ranker"], shown(row), shown(before[row["ranker"]])]
        for row in read("noise-leaderboard")
    ]
    return [["ranker", "average precision", "before"], *lines]


def leaderboard_coverage() -> Grid:
    """Least and greatest coverage over the base models, and that of the combination."""
    lines = []
    for about, rows in group(read("leaderboard-coverage"), "rows", "positives", "signal").items():
        whole = next(row for row in rows if row["member"] == "combination")
        alone = [row for row in rows if row is not whole]
        values = [
            f"{whole[name]:.3f}" for name in ("leaderboard AP", "fold models AP", "fitted AP")
        ]
        held = [f"{whole['coverage']:.3f}", _ends(alone, "coverage")]
        lines.append([*map(str, about), *values, *held])
    head = ["combination: leaderboard AP", "of the fold models", "of the fitted ranker"]
    held = ["coverage", "coverage, base models"]
    return [["rows", "positives", "signal", *head, *held], *lines]


METHODS = {
    "TopPush": ('TopPush, `solver="paper"`', "toppush"),
    "InfinitePush": ('InfinitePush, `solver="published"`', "infinite-push"),
    "AATP": ("AATP, published rule", "aatp"),
    "AATP, least objective": ("AATP, least objective", ""),
    "TopPush, gap 1e-4": ("TopPush to a gap of `1e-4`", ""),
    "InfinitePush, gap 1e-3": ("InfinitePush to a gap of `1e-3`", ""),
    "difference of means": ("difference of the classes' means", ""),
}


def diabetes_top() -> Grid:
    """Mean and deviation of each method, its difference from TopPush, and what the paper prints."""
    by, lines = group(read("diabetes_top"), "method"), []
    ours = np.array([row["Pos@Top"] for row in by["TopPush",]])
    for method, (title, published) in METHODS.items():
        top = np.array([row["Pos@Top"] for row in by[method,]])
        less, precision = top - ours, np.mean([row["AP"] for row in by[method,]])
        error = less.std(ddof=1) / np.sqrt(less.size)
        beside = "" if method == "TopPush" else f"{less.mean():+.3f} ± {error:.3f}"
        known = PUBLISHED.get(("diabetes", published))
        paper = f"{known['pos_at_top']:.3f} ± {known['pos_at_top_std']:.3f}" if known else ""
        mean = f"{top.mean():.3f} ± {top.std(ddof=1):.3f}"
        lines.append([title, mean, beside, f"{precision:.3f}", paper])
    head = ["method", "Pos@Top, mean ± std", "less TopPush, ± std. err.", "AP", "the paper"]
    return [head, *lines]


def diabetes_fixed() -> Grid:
    """Pos@Top after so many iterations, by both published solvers."""
    by = group(read("diabetes_fixed"), "method")
    names = [name for (name,) in by if name.endswith("iterations")]
    lines = [
        [f"{row['setting']}", *(f"{by[name,][number]['Pos@Top']:.3f}" for name in names)]
        for number, row in enumerate(by[names[0],])
    ]
    return [["iterations", *(name.removesuffix(", iterations") for name in names)], *lines]


PROMISED: dict[str, Callable[[], Grid]] = {
    "guarantees": guarantees,
    "guarantees-rows": promised_rows,
    "coverage": coverage,
    "noise-leaderboard": noise_leaderboard,
    "leaderboard-coverage": leaderboard_coverage,
    "diabetes_top": diabetes_top,
    "diabetes_fixed": diabetes_fixed,
}
