"""`--model auto`: TopRanker, which chooses among rankers of several kinds and combines them."""

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.modeltypes.base import About, FitRows, Kind, OptionError, Options
from toppush.modeltypes.searched import require_folds
from toppush.system.errors import ModelError, like
from toppush.system.reading import DataError
from toppush.types import Matrix

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph
    from toppush.modelfile.fitted import Model

COMBINATION = "combination"
RIVALS = ("logistic", "boosted")
"""Members that others would take by themselves: logistic regression, and LightGBM's log loss."""


class Auto(Kind):
    """A mean of members' scores, by weights that held-out rows choose."""

    name = "auto"
    home = "toppush.auto.ranker.TopRanker"
    takes = ("effort", "seconds", "members", "scoring", "cv", "groups", "time", "threads")
    form = "codes"
    scale = None

    def check_options(self, options: Options) -> None:
        super().check_options(options)
        if "scoring" in options:
            _require_measure(options["scoring"])
        if "members" in options:
            _require_members(options["members"])

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        given = {name: value for name, value in options.items() if name not in ("groups", "time")}
        given["n_jobs"] = given.pop("threads", None)
        if "members" in given:
            given["members"] = list(given["members"])
        _require_two_of_each(rows)
        _require_savable(given.get("members", ()), rows)
        if "cv" in given:
            require_folds(rows.rule, rows.n_positives, rows.n_rows, given["cv"], rows.path)
        if rows.make_folds:
            given["cv"] = rows.folds(given.get("cv", self._n_folds(given, rows)), seed)
        return self.class_(categorical_features=rows.coded, random_state=seed, **given)

    def _n_folds(self, given: Options, rows: FitRows) -> int:
        from toppush.auto.members import EFFORTS

        n_folds = EFFORTS[given.get("effort", self.class_().effort)].n_folds
        groups = rows.held.groups
        return n_folds if groups is None else max(2, min(n_folds, len(np.unique(groups))))

    def after(self, ranker: Any, X: Matrix, rows: FitRows) -> About:
        return {
            "leaderboard": ranker.leaderboard_,
            "left_out": ranker.left_out_,
            "against": against(ranker, weighted=rows.held.weight is not None),
            "quick": without_extra(ranker),
        }

    def packages(self, ranker: Any) -> list[str]:
        kinds = [_kind_of_member(*one) for one in ranker.members_.items()]
        return sorted({kind.engine for kind in kinds if kind.engine is not None})

    def cautions(self, ranker: Any, X: Matrix, rows: FitRows, seed: int) -> list[str]:
        return []  # its fit has warned

    def is_told(self, warning: Warning) -> bool:
        return "alone ranks the held-out rows better" in str(warning)

    def settings(self, ranker: Any, options: Options) -> About:
        return {
            "effort": ranker.effort,
            "seconds": ranker.seconds,
            "scoring": ranker.scoring,
            "weights": ranker.weights_,
        }

    def sentence(self, settings: About) -> str:
        weights = sorted(settings["weights"].items(), key=lambda one: -one[1])
        parts = ", ".join(f"{name} {weight:.0%}" for name, weight in weights)
        what = f"A combination of {parts}" if len(weights) > 1 else f"{weights[0][0]} alone"
        measure = f", by {settings['scoring']}" if settings["scoring"] else ""
        return f"{what}; effort {settings['effort']}{measure}, seed {settings['seed']}."

    def lighten(self, ranker: Any) -> None:
        ranker._rows_of_board, ranker._board = ranker.leaderboard_, None
        super().lighten(ranker)
        ranker.members = list(ranker.members_)
        ranker.members_ = {name: _light(name, one) for name, one in ranker.members_.items()}

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        tables = ranker.members_, ranker.weights_, ranker.centers_, ranker.scales_
        alike = len({tuple(sorted(table)) for table in tables}) == 1
        if not alike or not set(ranker.raw_) <= set(ranker.members_):
            raise ModelError("its members and their weights do not belong together.")
        numbers = [value for table in tables[1:] for value in table.values()]
        if any(map(np.ndim, numbers)) or not np.isfinite(numbers).all():
            raise ModelError("its members have no finite weights.")
        if not all(ranker.scales_.values()):
            raise ModelError("its members have a scale of 0.")
        for name, one in ranker.members_.items():
            _kind_of_member(name, one).restore(one, {})

    def graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        total = graph.constant(-float(ranker.threshold_))
        for name, one in ranker.members_.items():
            score = _kind_of_member(name, one).graph(graph, model.member(one))
            apart = graph.apply("Sub", score, graph.constant(ranker.centers_[name]))
            part = ranker.weights_[name] / ranker.scales_[name]
            total = graph.apply("Add", total, graph.apply("Mul", apart, graph.constant(part)))
        return total


def against(ranker: Any, *, weighted: bool) -> list[About]:
    """Average precision of the combination less that of members, with intervals.

    Of the best member and of those in `RIVALS`; intervals know no weights of rows.
    """
    board = {row["name"]: row for row in ranker.leaderboard_}
    whole = board.pop(COMBINATION)
    best = next(iter(board))
    found = []
    for name in dict.fromkeys([best, *(one for one in RIVALS if one in board)]):
        apart = whole["average_precision"] - board[name]["average_precision"]
        interval = None if weighted else ranker._board.compared(name)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        found.append({"name": name, "difference": apart, "low": low, "high": high})
    return found


def without_extra(ranker: Any) -> About | None:
    """What the base models add that `effort="quick"` does not have, and what they cost."""
    from toppush.auto.members import EFFORTS

    board = [row for row in ranker.leaderboard_ if row["name"] != COMBINATION]
    extra = {row["name"] for row in board} - set(EFFORTS["quick"].members)
    apart = None if ranker.members is not None else ranker._board.without(extra)
    if apart is None or not extra:
        return None
    return {
        "extra": sorted(extra),
        "difference": apart.value,
        "low": apart.low,
        "high": apart.high,
        "seconds": sum(row["seconds"] for row in board if row["name"] not in extra),
        "all_seconds": sum(row["seconds"] for row in board),
    }


def _light(name: str, ranker: Any) -> Any:
    """A copy of a member without what only the fit needs."""
    light = copy.copy(ranker)
    _kind_of_member(name, ranker).lighten(light)
    light.cv = None
    return light


def _kind_of_member(name: str, ranker: Any) -> Kind:
    from toppush.modeltypes import kind_of

    kind = kind_of(ranker)
    if kind is None or isinstance(kind, Auto):
        raise ModelError(
            f"its base model {name!r} is a {type(ranker).__name__}, which neither a model file nor "
            "an export can hold; fit TopRanker without it, with members such as 'linear'."
        )
    return kind


def _require_savable(names: Sequence[str], rows: FitRows) -> None:
    """Refuse before the fit base models that no file can hold afterwards."""
    from toppush.auto.members import EFFORTS, MEMBERS, Given, Settings
    from toppush.tables.frames import FrameColumns

    given = Given(None, np.empty((rows.n_rows, 0)), FrameColumns(0), rows.positive, None, [])
    settings = Settings(EFFORTS["normal"], None, seed=0)
    for name in names:
        if limits := MEMBERS[name].limits(given, settings):
            raise OptionError(f"members has {name!r}: {limits}; leave it out.")


def _require_two_of_each(rows: FitRows) -> None:
    """Refuse rows of which no fold could hold out one of a class and learn from another."""
    n_pos, n_neg = rows.n_positives, rows.n_rows - rows.n_positives
    if min(n_pos, n_neg) < 2:
        raise DataError(
            f"there are {n_pos} positives ({rows.rule.positive!r}) and {n_neg} negatives, and two "
            "of each are needed at least; bring more, or give --lam and --top for a linear model.",
            file=rows.path,
        )


def _require_measure(name: str) -> None:
    from toppush.auto.ranker import PLAIN_MEASURES

    if name not in PLAIN_MEASURES:
        known = ", ".join(sorted(PLAIN_MEASURES))
        raise OptionError(f"scoring is {name!r}; --model auto takes {known}.")


def _require_members(names: Any) -> None:
    from toppush.auto.members import MEMBERS

    if isinstance(names, int):
        raise OptionError(f"members is {names}; --model auto takes names: {', '.join(MEMBERS)}.")
    for name in names:
        if name not in MEMBERS:
            known = ", ".join(MEMBERS)
            raise OptionError(f"members has {name!r}{like(name, MEMBERS)}; known are {known}.")
