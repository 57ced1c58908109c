"""What a combination of rankers says of its members: a table, and who won by how much."""

from typing import TYPE_CHECKING, Any

from toppush.cli import common

if TYPE_CHECKING:
    from rich.table import Table

COMBINATION = "combination"
SPOKEN = {"logistic": "logistic regression", "boosted": "LightGBM's log loss"}
"""Members by the name that others know them by."""


def leaderboard(about: dict[str, Any]) -> "Table | None":
    """The members, best first, by rows that they did not see."""
    board = about.get("leaderboard")
    if not board:
        return None
    rows = [
        [
            row["name"],
            "" if row["name"] == COMBINATION else f"{row['weight']:.0%}",
            f"{row['positives_at_top']:.1%}",
            f"{row['average_precision']:.3f}",
            f"{row['average_precision_low']:.3f} to {row['average_precision_high']:.3f}",
            f"{row['seconds']:.1f}",
        ]
        for row in board
    ]
    return common.table("member", "weight", "Pos@Top", "AP", "95 % interval", "s", rows=rows)


def verdict(about: dict[str, Any]) -> list[str]:
    """Who won, by how much, and whether that is more than noise; and who took no part."""
    board = about.get("leaderboard")
    if not board:
        return []
    said = [_won(about["fit"]["weights"], about["against"])]
    left = [f"{name} ({why})" for name, why in about.get("left_out", {}).items()]
    return said + [f"Left out: {', '.join(left)}."] * bool(left)


def _won(weights: dict[str, float], against: list[dict[str, Any]]) -> str:
    """The sentence about the winner."""
    if len(weights) == 1:
        alone = next(iter(weights))
        others = [one for one in against if one["name"] != alone]
        return f"{_spoken(alone)} alone ranks best. {_apart(others)}".strip()
    return f"The combination ranks best. {_apart(against)}"


def _apart(against: list[dict[str, Any]]) -> str:
    ahead = [one for one in against if not _is_behind(one)]
    behind = [one for one in against if _is_behind(one)]
    parts = [
        f"{one['difference']:+.3f} against {_spoken(one['name'])}{_certainty(one)}" for one in ahead
    ]
    said = f"Average precision: {', '.join(parts)}." if parts else ""
    worse = [
        f"Caution: {_spoken(one['name'])} alone has a higher average precision by "
        f"{-one['difference']:.3f}, which is more than noise; --members {one['name']} takes it."
        for one in behind
    ]
    return " ".join([said, *worse]).strip()


def _spoken(name: str) -> str:
    return SPOKEN.get(name, name)


def _is_behind(one: dict[str, Any]) -> bool:
    """Whether the combination is worse by more than noise."""
    return one["high"] is not None and one["high"] < 0.0


def _certainty(one: dict[str, Any]) -> str:
    if one["low"] is None:
        return ""
    return " (more than noise)" if one["low"] > 0.0 else " (may be noise)"
