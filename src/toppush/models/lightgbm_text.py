"""LightGBM's model texts, read before LightGBM reads them.

Its parser trusts what it is given: a text with a missing "=" or a child beyond the last node lets
it read where there is nothing, and the process dies. So the grammar of what
`Booster.model_to_string` writes is checked here, line by line, with all counts and places, and a
text that differs is refused. What follows the trees (importances, parameters) is no part of a
model, and `trimmed` cuts it off.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from toppush.system.errors import ModelError
from toppush.types import Array, Where

END = "end of trees\n"
MOST_LEAVES = 1 << 17
"""Leaves of a tree, LightGBM's own limit."""
DEEPEST = 512
"""Steps from the root to a leaf; explanations go down by recursion."""
INTEGER = r"-?(?:0|[1-9]\d{0,9})"
REAL = r"-?\d{1,20}(?:\.\d{1,30})?(?:e[-+]\d{1,3})?"
BOUND = f"(?:{REAL}|inf)"
INTEGERS, REALS, BOUNDS = (re.compile(f"(?:{one}(?: {one})*)?") for one in (INTEGER, REAL, BOUND))
NAME = re.compile(r"[!-<>-~]{1,1000}")
INFO = re.compile(rf"none|\[{REAL}:{REAL}\]|{INTEGER}(?::{INTEGER})*")
OBJECTIVE = re.compile(rf"objective=(?:custom|binary sigmoid:{REAL})")
CATEGORICAL, DEFAULT_LEFT, MISSING_AT = 1, 2, 2
"""Bits of a decision: a set of categories; where gaps go; and, shifted so far, what a gap is."""
NO_GAPS, ZEROS, NANS = 0, 1, 2
"""What counts as a gap: nothing (NaN is 0), zeros, NaN."""


class Tree(NamedTuple):
    """A tree: nodes 0, 1, ... from the root; a child below 0 is the leaf ~child."""

    feature: Where
    threshold: Array
    """Of numbers; of categories the place of their set."""
    decision: Where
    left: Where
    right: Where
    value: Array
    sets: list[Where]
    """The categories of each set, which go left."""


@dataclass(frozen=True)
class Ensemble:
    """The trees of a text, whose leaves add up to a raw score."""

    n_features: int
    trees: list[Tree]


def trimmed(text: str) -> str:
    """A text without what follows its trees."""
    head, found, _ = text.partition("\n" + END)
    return head + "\n" + END if found else text


def parsed(text: str) -> Ensemble:
    """The trees of a trimmed text; one that LightGBM would not have written is refused."""
    if not text.isascii():
        raise ModelError("its trees are no LightGBM text: it is not ASCII.")
    lines = _Lines(text)
    n_features, sizes = _header(lines)
    trees = [_tree(lines, number, size) for number, size in enumerate(sizes)]
    lines.expect(END.rstrip("\n"))
    lines.expect("")
    lines.end()
    for number, tree in enumerate(trees):
        _require_places(tree, n_features, number)
    return Ensemble(n_features, trees)


class _Lines:
    """The lines of a text, each of which is asked for."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._next = 0
        self.n_bytes = 0
        """Bytes of the lines so far."""

    def take(self) -> str:
        if self._next == len(self._lines):
            raise _wrong("it ends too early")
        line = self._lines[self._next]
        self._next += 1
        self.n_bytes += len(line) + 1
        return line

    def expect(self, wanted: str) -> None:
        if (line := self.take()) != wanted:
            raise _wrong(f"{wanted!r} is to come, and there is {line[:40]!r}")

    def end(self) -> None:
        if self._next != len(self._lines):
            raise _wrong("it goes on after its trees")

    def value(self, key: str) -> str:
        """What follows the key of a line."""
        line = self.take()
        if not line.startswith(f"{key}="):
            raise _wrong(f"{key!r} is to come, and there is {line[:40]!r}")
        return line[len(key) + 1 :]

    def integers(self, key: str, count: int | None, low: int, high: int) -> Where:
        """So many whole numbers, each from low to high."""
        found = self._numbers(key, count, INTEGERS, int)
        if any(not low <= number <= high for number in found):
            raise _wrong(f"{key!r} holds a number that is not from {low} to {high}")
        return np.array(found, np.int64)

    def reals(self, key: str, *counts: int) -> Array:
        """So many finite numbers."""
        return self._finite(key, REALS, float, *counts)

    def bounds(self, key: str, count: int) -> Array:
        """So many numbers, or inf: whatever has a value is below it, and gaps go elsewhere."""
        return self._finite(key, BOUNDS, _bound, count)

    def _finite(
        self, key: str, form: re.Pattern[str], kind: Callable[[str], float], *counts: int
    ) -> Array:
        found = np.array(self._numbers(key, None, form, kind), np.float64)
        if len(found) not in counts or not np.isfinite(found).all():
            raise _wrong(f"{key!r} does not hold {counts[0]} finite numbers")
        return found

    def _numbers(
        self, key: str, count: int | None, form: re.Pattern[str], kind: Callable[[str], float]
    ) -> list[float]:
        text = self.value(key)
        if not form.fullmatch(text):
            raise _wrong(f"{key!r} is {text[:40]!r}, which are no numbers")
        found = [kind(word) for word in text.split()]
        if count is not None and len(found) != count:
            raise _wrong(f"{key!r} holds {len(found)} numbers instead of {count}")
        return found


def _bound(word: str) -> float:
    return sys.float_info.max if word == "inf" else float(word)


def _wrong(what: str) -> ModelError:
    return ModelError(f"its trees are no LightGBM text: {what}.")


def _header(lines: _Lines) -> tuple[int, Sequence[int]]:
    """How many features there are, and the bytes of each tree."""
    for line in ("tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"):
        lines.expect(line)
    n_features = int(lines.integers("max_feature_idx", 1, 0, 1 << 24)[0]) + 1
    line = lines.take()
    if line.startswith("objective="):
        if not OBJECTIVE.fullmatch(line):
            raise _wrong(f"{line[:40]!r} is not known")
        line = lines.take()
    _require_words("feature_names", line, n_features, NAME)
    _require_words("feature_infos", lines.take(), n_features, INFO)
    sizes: list[int] = lines.integers("tree_sizes", None, 1, 1 << 30).tolist()
    lines.expect("")
    return n_features, sizes


def _require_words(key: str, line: str, count: int, form: re.Pattern[str]) -> None:
    words = line.removeprefix(f"{key}=").split(" ")
    if not line.startswith(f"{key}=") or len(words) != count:
        raise _wrong(f"{key!r} does not hold {count} words")
    if not all(form.fullmatch(word) for word in words):
        raise _wrong(f"{key!r} holds a word that is not one")


def _tree(lines: _Lines, number: int, size: int) -> Tree:
    """The next tree, of so many bytes."""
    before = lines.n_bytes
    lines.expect(f"Tree={number}")
    n_leaves = int(lines.integers("num_leaves", 1, 1, MOST_LEAVES)[0])
    n_sets = int(lines.integers("num_cat", 1, 0, n_leaves - 1)[0])
    n_nodes = n_leaves - 1
    feature = lines.integers("split_feature", n_nodes, 0, 1 << 24)
    lines.reals("split_gain", n_nodes)
    threshold = lines.bounds("threshold", n_nodes)
    decision = lines.integers("decision_type", n_nodes, 0, 11)
    left = lines.integers("left_child", n_nodes, -n_leaves, n_nodes - 1)
    right = lines.integers("right_child", n_nodes, -n_leaves, n_nodes - 1)
    value = lines.reals("leaf_value", n_leaves)
    lines.reals("leaf_weight", n_leaves, n_leaves if n_nodes else 0)
    lines.integers("leaf_count", n_leaves, 0, (1 << 31) - 1)
    lines.reals("internal_value", n_nodes)
    lines.reals("internal_weight", n_nodes)
    lines.integers("internal_count", n_nodes, 0, (1 << 31) - 1)
    sets = list(_sets(lines, n_sets))
    lines.expect("is_linear=0")
    lines.reals("shrinkage", 1)
    lines.expect("")
    lines.expect("")
    if lines.n_bytes - before != size:
        raise _wrong(f"tree {number} has {lines.n_bytes - before} bytes and not {size}")
    return Tree(feature, threshold, decision, left, right, value, sets)


def _sets(lines: _Lines, n_sets: int) -> Iterator[Where]:
    """Sets of categories, each written as bits of some words."""
    if not n_sets:
        return
    ends = lines.integers("cat_boundaries", n_sets + 1, 0, 1 << 24).tolist()
    words = lines.integers("cat_threshold", ends[-1], 0, (1 << 32) - 1)
    if ends[0] or sorted(ends) != ends:
        raise _wrong("'cat_boundaries' do not rise from 0")
    for start, stop in pairwise(ends):
        bits = np.unpackbits(words[start:stop].astype("<u4").view(np.uint8), bitorder="little")
        yield np.flatnonzero(bits)


def _require_places(tree: Tree, n_features: int, number: int) -> None:
    """Refuse what is no tree, a feature or a set that is not there, and kinds of gaps unknown."""
    if (tree.feature >= n_features).any():
        raise _wrong(f"tree {number} splits by a feature beyond {n_features}")
    if not _is_tree(tree):
        raise _wrong(f"the nodes of tree {number} do not make a tree")
    by_set = tree.decision & CATEGORICAL > 0
    places = tree.threshold[by_set]
    if (places != np.floor(places)).any() or not _within(places, len(tree.sets)):
        raise _wrong(f"tree {number} splits by categories that it does not list")


def _within(places: Array, count: int) -> bool:
    return bool(((places >= 0) & (places < count)).all())


def _is_tree(tree: Tree) -> bool:
    """Whether every node but the first, and every leaf, has one parent, which comes before it."""
    n_nodes = len(tree.left)
    children = np.concatenate([tree.left, tree.right])
    wanted = np.concatenate([np.arange(-n_nodes - 1, 0), np.arange(1, n_nodes)])
    if n_nodes and not np.array_equal(np.sort(children), wanted):
        return False
    depth = [1] * n_nodes
    for node, both in enumerate(zip(tree.left.tolist(), tree.right.tolist(), strict=True)):
        for child in both:
            if 0 <= child <= node:
                return False
            if child > 0:
                depth[child] = depth[node] + 1
    return max(depth, default=0) <= DEEPEST
