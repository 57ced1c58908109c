"""Row blocks and who runs them."""

from toppush.designs.blocks import Block, read_only
from toppush.designs.local import LocalDesign
from toppush.designs.placing import BACKENDS, Backend, LocalRows, backend_of, is_placed, place
from toppush.designs.protocol import Design, PlacedRows
from toppush.designs.rows import UNSCALED, Scaling, precise

__all__ = [
    "BACKENDS",
    "UNSCALED",
    "Backend",
    "Block",
    "Design",
    "LocalDesign",
    "LocalRows",
    "PlacedRows",
    "Scaling",
    "backend_of",
    "is_placed",
    "place",
    "precise",
    "read_only",
]
