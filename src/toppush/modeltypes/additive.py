"""`--model additive`: TopPushAdditive, a curve of each column, with a certificate."""

from typing import TYPE_CHECKING, Any

from toppush.modeltypes.base import About, FitRows, Options
from toppush.modeltypes.curves import Curved, require_sound
from toppush.modeltypes.searched import Searched

if TYPE_CHECKING:
    from toppush.export.onnx_graph import Graph
    from toppush.modelfile.fitted import Model


class Additive(Searched):
    """A sum of curves, one for each column; gaps and texts have levels of their own."""

    name = "additive"
    home = "toppush.models.additive.TopPushAdditive"
    form = "codes"
    scale = None

    def more(self, rows: FitRows, seed: int) -> Options:
        return {"categorical_features": rows.coded}

    def settings(self, ranker: Any, options: Options) -> About:
        return super().settings(ranker, options) | {"curves": int(ranker.n_features_in_)}

    def subject(self, settings: About) -> str:
        return f"The sum of a curve of each of {settings['curves']} columns: "

    def n_weights(self, ranker: Any) -> int:
        parts = ranker.values_, ranker.common_, ranker.missing_
        return require_sound(ranker, ranker.levels_, *parts, curves=lambda: ranker._curves)

    def graph(self, graph: "Graph", model: "Model") -> str:
        return _curved(model.ranker, model.is_member).on_graph(graph, model.columns)


def _curved(ranker: Any, is_member: bool) -> Curved:
    parts = ranker.values_, ranker.levels_, ranker.common_
    return Curved(ranker, *parts, float(ranker.offset_), is_member)
