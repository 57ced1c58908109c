"""Row blocks and who runs them."""

from toppush.designs.blocks import Block, only_asks
from toppush.designs.here import LocalRows
from toppush.designs.local import LocalDesign
from toppush.designs.placing import BACKENDS, Backend, backend_of, is_placed, place
from toppush.designs.protocol import Design, PlacedRows
from toppush.designs.rows import PLAIN, Form
from toppush.designs.views import precise

__all__ = [
    "BACKENDS",
    "PLAIN",
    "Backend",
    "Block",
    "Design",
    "Form",
    "LocalDesign",
    "LocalRows",
    "PlacedRows",
    "backend_of",
    "is_placed",
    "only_asks",
    "place",
    "precise",
]
