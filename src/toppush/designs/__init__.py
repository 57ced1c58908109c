"""Row blocks and who runs them."""

from toppush.designs.base import FORMED
from toppush.designs.blocks import Block, only_asks
from toppush.designs.local import LocalDesign
from toppush.designs.placing import dense, is_placed, open_design, place, score, some_rows
from toppush.designs.protocol import Design, Placed, Spread
from toppush.designs.rows import PLAIN, Form, precise

__all__ = [
    "FORMED",
    "PLAIN",
    "Block",
    "Design",
    "Form",
    "LocalDesign",
    "Placed",
    "Spread",
    "dense",
    "is_placed",
    "only_asks",
    "open_design",
    "place",
    "precise",
    "score",
    "some_rows",
]
