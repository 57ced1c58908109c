"""Row blocks and who runs them."""

from toppush.designs.blocks import Block, only_asks
from toppush.designs.local import LocalDesign
from toppush.designs.placing import is_placed, open_design, place, score, some_rows
from toppush.designs.protocol import Design, Placed, Spread
from toppush.designs.rows import PLAIN, Form
from toppush.designs.views import precise

__all__ = [
    "PLAIN",
    "Block",
    "Design",
    "Form",
    "LocalDesign",
    "Placed",
    "Spread",
    "is_placed",
    "only_asks",
    "open_design",
    "place",
    "precise",
    "score",
    "some_rows",
]
