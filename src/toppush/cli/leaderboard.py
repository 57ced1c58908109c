"""What a combination of rankers says of its members: a table, and who won by how much."""

from typing import TYPE_CHECKING, Any

from toppush.cli import common

if TYPE_CHECKING:
    from rich.table import Table

COMBINATION = "combination"
SPOKEN = {"logistic": "logistic regression"}
"""Members by the name that others know them by."""


def leaderboard(about: dict[str, Any]) -> "Table | None":
    """The base models by their score on held-out rows, the best first."""
    board = about.get("leaderboard")
    if not board:
        return None
    titles, *rows = cells(board)
    return common.table(*titles, rows=rows)


def cells(board: list[dict[str, Any]]) -> list[list[str]]:
    """Titles and rows of the table."""
    rows = [
        [
            row["name"],
            "" if row["name"] == COMBINATION else f"{row['weight']:.0%}",
            f"{row['score']:.3f}",
            f"{row['positives_at_top']:.1%}",
            f"{row['average_precision']:.3f}",
            _interval(row["average_precision_low"], row["average_precision_high"]),
            f"{row['seconds']:.1f}",
        ]
        for row in board
    ]
    return [["member", "weight", "score", "Pos@Top", "AP", "95 % interval", "s"], *rows]


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def verdict(about: dict[str, Any]) -> list[str]:
    """Who won, by how much, and whether that is more than noise; and who took no part."""
    board = about.get("leaderboard")
    if not board:
        return []
    said = []
    if len(board) > 2:  # the combination of a single member is that member
        said.append(_won(board, about["fit"], about["against"]))
    if (quick := about.get("quick")) and quick["low"] <= 0.0:
        said.append(_quick(quick))
    left = [f"{name} ({why})" for name, why in about.get("left_out", {}).items()]
    return said + [f"Left out: {', '.join(left)}."] * bool(left)


def _won(board: list[dict[str, Any]], fit: dict[str, Any], against: list[dict[str, Any]]) -> str:
    """Which ranking is best by score and by average precision, and by how much."""
    weights = fit["weights"]
    model = "the combination"
    if len(weights) == 1:
        model = _spoken(next(iter(weights)))
        against = [one for one in against if one["name"] not in weights]
        board = [row for row in board if row["name"] != COMBINATION]
    first, most_precise = board[0]["name"], max(board, key=lambda row: row["average_precision"])
    score = fit.get("scoring") or "mean of average precision, NDCG and recall at 10 false positives"
    said = [f"On held-out rows, {_spoken(first)} ranks best by score ({score})."]
    if most_precise["average_precision"] > board[0]["average_precision"]:
        said.append(f"By average precision, {_spoken(most_precise['name'])} ranks best.")
    parts = [f"{_apart(one)} against {_spoken(one['name'])}{_certainty(one)}" for one in against]
    if parts:
        said.append(f"Average precision of {model}: {', '.join(parts)}.")
    return " ".join([*said, *map(_caution, filter(_is_behind, against))])


def _quick(quick: dict[str, Any]) -> str:
    """That the base models of a quick fit alone rank the rows as well."""
    return (
        f"Without {' and '.join(quick['extra'])}, as with --effort quick, the combination ranks "
        f"these rows as well: average precision differs by {quick['difference']:+.3f} "
        f"({quick['low']:+.3f} to {quick['high']:+.3f}). The other base models took "
        f"{quick['seconds']:.1f} s of {quick['all_seconds']:.1f} s."
    )


def _apart(one: dict[str, Any]) -> str:
    return f"{one['difference']:+.3f}"


def _caution(one: dict[str, Any]) -> str:
    return (
        f"Caution: {_spoken(one['name'])} alone is better by more than noise; "
        f"--members {one['name']} takes it."
    )


def _spoken(name: str) -> str:
    return "the combination" if name == COMBINATION else SPOKEN.get(name, name)


def _is_behind(one: dict[str, Any]) -> bool:
    """Whether the combination is worse by more than noise."""
    return one["high"] is not None and one["high"] < 0.0


def _certainty(one: dict[str, Any]) -> str:
    if one["low"] is None:
        return ""
    noise = one["low"] <= 0.0 <= one["high"]
    return " (may be noise)" if noise else " (more than noise)"
