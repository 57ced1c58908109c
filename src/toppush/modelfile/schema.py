"""The schema of a skops file: JSON that describes each object with all that it holds.

skops writes an object in full wherever it occurs, with an id. Its reader takes the first object of
an id for all of them, whatever the others hold, so a short file can describe lists of lists that
together are astronomically long.
"""

import json
from collections.abc import Iterator
from typing import Any

from toppush.system.errors import ModelError

SCHEMA = "schema.json"
DEEPEST = 200
"""Levels of JSON within JSON. A `TopRanker` with preparation has about 40."""


def require_tree(schema: Any) -> None:
    """Refuse a schema that is deep, or that refers to objects instead of writing them in full.

    Objects of the same id must hold equally many. What skops builds then has the size of what is
    written, whichever of them it meets first.
    """
    _size(schema, {}, 0)
    readers: dict[str, int] = {}
    for node in nodes(schema):
        if "file" in node:
            name, number = node["file"], node.get("__id__")
            if not number or readers.setdefault(name, number) != number:
                raise ModelError(f"two of its objects read its part {name!r}, or one without id.")


def _size(value: Any, sizes: dict[Any, int], depth: int) -> int:
    """How many tables of JSON a value holds, with itself; `sizes` are those of each id."""
    if depth > DEEPEST:
        raise ModelError(f"its objects are nested more than {DEEPEST} deep.")
    is_table = isinstance(value, dict)
    size = int(is_table)
    for part in value.values() if is_table else value:
        if isinstance(part, (dict, list)):
            size += _size(part, sizes, depth + 1)
    number = value.get("__id__") if is_table else None
    if not isinstance(number, (dict, list)) and number and sizes.setdefault(number, size) != size:
        raise ModelError(f"two of its objects have the id {number!r} and differ.")
    return size


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object that a schema describes."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "__loader__" in value:
                yield value
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))


def canonical(parts: dict[str, bytes]) -> dict[str, bytes]:
    """The parts of a skops file with names and ids that depend on the content alone.

    skops takes them from addresses in memory. Only arrays need ids, by which several objects share
    one; they are numbered in the order of the schema.
    """
    schema = json.loads(parts[SCHEMA])
    names: dict[str, int] = {}
    for node in nodes(schema):
        node.pop("__id__", None)
        if isinstance(name := node.get("file"), str):
            number = names.setdefault(name, len(names) + 1)
            node |= {"__id__": number, "file": _numbered(name, number)}
    arrays = {_numbered(name, number): parts[name] for name, number in names.items()}
    return arrays | {SCHEMA: json.dumps(schema, separators=(",", ":")).encode()}


def _numbered(name: str, number: int) -> str:
    return f"{number}.{name.rpartition('.')[2]}"
