"""`--model auto`: TopRanker, which cross-validates several base models and combines them."""

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from toppush.modeltypes.base import (
    About,
    FitRows,
    ModelType,
    OptionError,
    Options,
    model_type_of,
)
from toppush.system.errors import ModelError, like
from toppush.system.reading import DataError
from toppush.types import Matrix

if TYPE_CHECKING:
    from toppush.modelfile.model import Model
    from toppush.modeltypes.onnx_graph import Graph

COMBINATION = "combination"
BASELINES = ("logistic", "boosted")
"""Base models that users would otherwise take alone: logistic regression, LightGBM's log loss."""


class Auto(ModelType):
    """A weighted mean of base models' scores; cross-validation chooses the weights."""

    name = "auto"
    ranker_class = "toppush.auto.ranker.TopRanker"
    takes = ("effort", "seconds", "members", "scoring", "cv", "groups", "time", "threads")
    form = "codes"
    scale = None
    takes_text = True

    def check_options(self, options: Options) -> None:
        from toppush.auto.members import MEMBERS
        from toppush.auto.ranker import PLAIN_METRICS

        super().check_options(options)
        if (scoring := options.get("scoring")) is not None and scoring not in PLAIN_METRICS:
            known = ", ".join(sorted(PLAIN_METRICS))
            raise OptionError(f"scoring is {scoring!r}; --model auto takes {known}.")
        members, known = options.get("members", ()), ", ".join(MEMBERS)
        if isinstance(members, int):
            raise OptionError(f"members is {members}; --model auto takes names: {known}.")
        for name in members:
            if name not in MEMBERS:
                meant = like(name, MEMBERS)
                raise OptionError(f"members has {name!r}{meant}; known are {known}.")

    def ranker(self, options: Options, rows: FitRows, seed: int) -> Any:
        parameters = {
            name: value for name, value in options.items() if name not in ("groups", "time")
        }
        if "members" in options:
            parameters["members"] = list(options["members"])
        _require_two_of_each(rows)
        _require_savable(options.get("members", ()), rows)
        if "cv" in options:
            rows.require_folds(options["cv"])
        if rows.has_folds:
            n_folds = options.get("cv", self._n_folds(options, rows))
            parameters["cv"] = rows.folds(n_folds, seed)
        return self.new_ranker(
            **parameters,
            categorical_features=rows.categorical,
            text_features=rows.term_places,
            random_state=seed,
        )

    def _n_folds(self, options: Options, rows: FitRows) -> int:
        """Folds of the effort, fewer if there are fewer groups."""
        from toppush.auto.members import EFFORTS

        n_folds = EFFORTS[options.get("effort", self.new_ranker().effort)].n_folds
        groups = rows.roles.groups
        return n_folds if groups is None else max(2, min(n_folds, len(np.unique(groups))))

    def training_facts(self, ranker: Any, X: Matrix, rows: FitRows) -> About:
        return {
            "leaderboard": ranker.leaderboard_,
            "left_out": ranker.left_out_,
            "against": compared_with_members(ranker, weighted=rows.roles.weight is not None),
            "quick": without_extra(ranker),
        }

    def packages(self, ranker: Any) -> list[str]:
        types = [_model_type(name, member) for name, member in ranker.members_.items()]
        return sorted({known.engine for known in types if known.engine is not None})

    def cautions(self, ranker: Any, X: Matrix, rows: FitRows, seed: int) -> list[str]:
        return []  # its fit has given them

    def is_reported(self, warning: Warning) -> bool:
        return "alone ranks the held-out rows better" in str(warning)

    def settings(self, ranker: Any, options: Options) -> About:
        return {
            "effort": ranker.effort,
            "seconds": ranker.seconds,
            "scoring": ranker.scoring,
            "weights": ranker.weights_,
        }

    def describe(self, settings: About) -> str:
        weights = sorted(settings["weights"].items(), key=lambda item: -item[1])
        parts = ", ".join(f"{name} {weight:.0%}" for name, weight in weights)
        what = f"A combination of {parts}" if len(weights) > 1 else f"{weights[0][0]} alone"
        metric = f", by {settings['scoring']}" if settings["scoring"] else ""
        return f"{what}; effort {settings['effort']}{metric}, seed {settings['seed']}."

    def lighten(self, ranker: Any) -> None:
        ranker._rows_of_board, ranker._board = ranker.leaderboard_, None
        super().lighten(ranker)
        ranker.members, ranker.text_features = list(ranker.members_), None
        ranker.members_ = {name: copy.copy(member) for name, member in ranker.members_.items()}
        for name, member in ranker.members_.items():
            _model_type(name, member).lighten(member)
            member.cv = None

    def restore(self, ranker: Any, about: About) -> None:
        super().restore(ranker, about)
        tables = ranker.members_, ranker.weights_, ranker.centers_, ranker.scales_
        same_names = len({tuple(sorted(table)) for table in tables}) == 1
        if not same_names or not set(ranker.raw_) <= set(ranker.members_):
            raise ModelError("its members and their weights do not belong together.")
        numbers = [value for table in tables[1:] for value in table.values()]
        if any(map(np.ndim, numbers)) or not np.isfinite(numbers).all():
            raise ModelError("its members have no finite weights.")
        if not all(ranker.scales_.values()):
            raise ModelError("its members have a scale of 0.")
        _require_text(ranker)
        for name, member in ranker.members_.items():
            _model_type(name, member).restore(member, {})

    def add_to_graph(self, graph: "Graph", model: "Model") -> str:
        ranker: Any = model.ranker
        if ranker.components_ is not None:
            raise ModelError("ONNX export does not support text; fit with text_features=None.")
        total = graph.constant(-float(ranker.threshold_))
        for name, member in ranker.members_.items():
            score = _model_type(name, member).add_to_graph(graph, model.base_model(member))
            centered = graph.apply("Sub", score, graph.constant(ranker.centers_[name]))
            weight = ranker.weights_[name] / ranker.scales_[name]
            total = graph.apply("Add", total, graph.apply("Mul", centered, graph.constant(weight)))
        return total


def _require_text(ranker: Any) -> None:
    """Refuse terms and components that do not belong together."""
    from toppush.auto.text import TermPlaces

    components, places = ranker.components_, ranker.term_places_
    if components is None:
        if places is not None or ranker.text_terms_ or ranker.on_terms_:
            raise ModelError("it has terms of text, and no components of these.")
        return
    if not all(terms.is_valid for terms in ranker.text_terms_.values()):
        raise ModelError("its terms of text are not described as they should be.")
    width = int(ranker.n_features_in_)
    sizes = [len(terms) for terms in ranker.text_terms_.values()]
    if places is not None:
        TermPlaces.of(places.places, np.broadcast_to(0.0, (1, width)))  # refuses positions
        sizes = places.sizes
    is_right = all(
        np.ndim(axes) == 2 and axes.dtype == np.float32 and axes.shape[0] <= axes.shape[1]
        for axes in components.axes
    )
    if not is_right or components.sizes != sizes:
        raise ModelError("its components are not those of its terms.")


def compared_with_members(ranker: Any, *, weighted: bool) -> list[About]:
    """Average precision of the combination minus that of base models, with intervals.

    Of the best base model and of `BASELINES`; there are no intervals with sample weights.
    """
    board = {row["name"]: row for row in ranker.leaderboard_}
    combination = board.pop(COMBINATION)
    best = next(iter(board))
    records = []
    for name in dict.fromkeys([best, *(name for name in BASELINES if name in board)]):
        difference = combination["average_precision"] - board[name]["average_precision"]
        interval = None if weighted else ranker._board.compared(name)
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        records.append({"name": name, "difference": difference, "low": low, "high": high})
    return records


def without_extra(ranker: Any) -> About | None:
    """What the base models add that `effort="quick"` does not have, and what they cost."""
    from toppush.auto.members import EFFORTS

    board = [row for row in ranker.leaderboard_ if row["name"] != COMBINATION]
    extra = {row["name"] for row in board} - set(EFFORTS["quick"].members)
    interval = None if ranker.members is not None else ranker._board.without(extra)
    if interval is None or not extra:
        return None
    return {
        "extra": sorted(extra),
        "difference": interval.value,
        "low": interval.low,
        "high": interval.high,
        "seconds": sum(row["seconds"] for row in board if row["name"] not in extra),
        "all_seconds": sum(row["seconds"] for row in board),
    }


def _model_type(name: str, member: Any) -> ModelType:
    model_type = model_type_of(member)
    if model_type is None or isinstance(model_type, Auto):
        raise ModelError(
            f"its base model {name!r} is a {type(member).__name__}, which neither a model file nor "
            "an export can hold; fit TopRanker without it, with members such as 'linear'."
        )
    return model_type


def _require_savable(names: Sequence[str], rows: FitRows) -> None:
    """Refuse before the fit base models that no file can hold after it."""
    from toppush.auto.members import EFFORTS, MEMBERS, FitData
    from toppush.tables.frames import FrameColumns

    numbers, effort = np.empty((rows.n_rows, 0)), EFFORTS["normal"]
    data = FitData(None, numbers, FrameColumns(0), rows.positive, None, [], effort)
    for name in names:
        if limits := MEMBERS[name].limits(data):
            raise OptionError(f"members has {name!r}: {limits}; leave it out.")


def _require_two_of_each(rows: FitRows) -> None:
    """Refuse rows of which no fold can both train on and hold out each class."""
    n_pos, n_neg = rows.n_positives, rows.n_rows - rows.n_positives
    if min(n_pos, n_neg) < 2:
        raise DataError(
            f"there are {n_pos} positives ({rows.rule.positive!r}) and {n_neg} negatives, and two "
            "of each are needed at least; bring more, or give --lam and --top for a linear model.",
            file=rows.path,
        )
