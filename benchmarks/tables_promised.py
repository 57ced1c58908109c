"""The tables about guarantees and intervals."""

from collections.abc import Callable

from benchmarks.guarantees import OBSERVED
from benchmarks.summary import Grid, Rows, group, read

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
    """Average precision on noise."""
    shown = "{average precision:.3f} ± {standard error:.3f}".format_map
    lines = [[row["ranker"], shown(row)] for row in read("noise-leaderboard")]
    return [["ranker", "average precision"], *lines]


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


PROMISED: dict[str, Callable[[], Grid]] = {
    "guarantees": guarantees,
    "guarantees-rows": promised_rows,
    "coverage": coverage,
    "noise-leaderboard": noise_leaderboard,
    "leaderboard-coverage": leaderboard_coverage,
}
