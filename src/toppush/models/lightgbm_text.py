"""LightGBM's model strings: validated before LightGBM reads them, and written for other trees.

Its parser trusts its input: a missing "=" or a child beyond the last node makes it read out of
bounds, and the process dies. So the grammar of the output of `Booster.model_to_string` is checked
here, line by line, with all counts and positions, and other strings are refused. What follows the
trees (importances, parameters) is not part of a model, and `trimmed` removes it. `written` makes
such a string of trees that another engine has trained, so that they are scored, explained, saved
and exported as those of LightGBM.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toppush.system.errors import ModelError
from toppush.types import Array, Where

HEAD = ("tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0")
END = "end of trees\n"
MOST_LEAVES = 1 << 17
"""LightGBM's limit for the leaves of a tree."""
DEEPEST = 512
"""Maximum depth; explanations use recursion."""
INTEGER = r"-?(?:0|[1-9]\d{0,9})"
REAL = r"-?\d{1,20}(?:\.\d{1,30})?(?:e[-+]\d{1,3})?"
BOUND = f"(?:{REAL}|inf)"
INTEGERS, REALS, BOUNDS = (re.compile(f"(?:{one}(?: {one})*)?") for one in (INTEGER, REAL, BOUND))
NAME = re.compile(r"[!-<>-~]{1,1000}")
INFO = re.compile(rf"none|\[{REAL}:{REAL}\]|{INTEGER}(?::{INTEGER})*")
OBJECTIVE = re.compile(rf"objective=(?:custom|binary sigmoid:{REAL})")
CATEGORICAL, DEFAULT_LEFT, MISSING_AT = 1, 2, 2
"""Bits of a decision: a set of categories; whether missing values go left; and the position of the
bits that say which values are missing."""
NONE_MISSING, ZEROS, NANS = 0, 1, 2
"""Which values count as missing: none (NaN is 0), zeros, NaN."""
WHOLE_COUNT = 1 << 20
"""Rows of a tree in `written`, by whose numbers in the leaves LightGBM's explanations average."""


class Tree(NamedTuple):
    """A tree: nodes 0, 1, ... from the root; a child below 0 is the leaf ~child."""

    feature: Where
    threshold: Array
    """For numbers the threshold, for categories the position of their set."""
    decision: Where
    left: Where
    right: Where
    value: Array
    sets: list[Where]
    """The sets of categories that go left."""


@dataclass(frozen=True)
class Ensemble:
    """The trees of a model; the sum of their leaves is the raw score."""

    n_features: int
    trees: list[Tree]


def trimmed(text: str) -> str:
    """A model string without what follows its trees."""
    head, found, _ = text.partition("\n" + END)
    return head + "\n" + END if found else text


def parsed(text: str) -> Ensemble:
    """The trees of a trimmed model string; one that LightGBM would not write is refused."""
    if not text.isascii():
        raise ModelError("its trees are no LightGBM model: it is not ASCII.")
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
    """The lines of a model string, read one after another."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._next = 0
        self.n_bytes = 0
        """Number of bytes read."""

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
        """The value after the key of the next line."""
        line = self.take()
        if not line.startswith(f"{key}="):
            raise _wrong(f"{key!r} is to come, and there is {line[:40]!r}")
        return line[len(key) + 1 :]

    def integers(self, key: str, count: int | None, low: int, high: int) -> Where:
        """Integers from low to high, `count` of them if given."""
        values = self._numbers(key, count, INTEGERS, int)
        if any(not low <= value <= high for value in values):
            raise _wrong(f"{key!r} holds a number that is not from {low} to {high}")
        return np.array(values, np.int64)

    def reals(self, key: str, *counts: int) -> Array:
        """Finite numbers; `counts` are the allowed lengths."""
        return self._finite(key, REALS, float, *counts)

    def bounds(self, key: str, count: int) -> Array:
        """Thresholds, of which inf separates missing values from all others."""
        return self._finite(key, BOUNDS, _bound, count)

    def _finite(
        self, key: str, pattern: re.Pattern[str], parse: Callable[[str], float], *counts: int
    ) -> Array:
        values = np.array(self._numbers(key, None, pattern, parse), np.float64)
        if len(values) not in counts or not np.isfinite(values).all():
            raise _wrong(f"{key!r} does not hold {counts[0]} finite numbers")
        return values

    def _numbers(
        self, key: str, count: int | None, pattern: re.Pattern[str], parse: Callable[[str], float]
    ) -> list[float]:
        text = self.value(key)
        if not pattern.fullmatch(text):
            raise _wrong(f"{key!r} is {text[:40]!r}, which are no numbers")
        values = [parse(word) for word in text.split()]
        if count is not None and len(values) != count:
            raise _wrong(f"{key!r} holds {len(values)} numbers instead of {count}")
        return values


def _bound(word: str) -> float:
    return sys.float_info.max if word == "inf" else float(word)


def _wrong(what: str) -> ModelError:
    return ModelError(f"its trees are no LightGBM model: {what}.")


def _header(lines: _Lines) -> tuple[int, Sequence[int]]:
    """The number of features, and the number of bytes of each tree."""
    for line in HEAD:
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


def _require_words(key: str, line: str, count: int, pattern: re.Pattern[str]) -> None:
    words = line.removeprefix(f"{key}=").split(" ")
    if not line.startswith(f"{key}=") or len(words) != count:
        raise _wrong(f"{key!r} does not hold {count} words")
    if not all(pattern.fullmatch(word) for word in words):
        raise _wrong(f"{key!r} holds a word that is not one")


def _tree(lines: _Lines, number: int, size: int) -> Tree:
    """The next tree, of `size` bytes."""
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
    """Sets of categories, each stored as bits of some words."""
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
    """Refuse nodes that do not make a tree, and features or sets that do not exist."""
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
    """Whether every node but the first, and every leaf, has one parent before it, within depth."""
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


# ---- trees of other engines as a model string


def written(trees: Sequence[Tree], weights: Sequence[Array], n_features: int) -> str:
    """The model string of some trees, with the weight of the training rows in each of their leaves.

    The children of a node follow it.
    """
    blocks = [
        "\n".join(_tree_lines(number, tree, leaf_weights)) + "\n\n\n"
        for number, (tree, leaf_weights) in enumerate(zip(trees, weights, strict=True))
    ]
    names = " ".join(f"Column_{number}" for number in range(n_features))
    head = [
        *HEAD,
        f"max_feature_idx={n_features - 1}",
        "objective=custom",
        f"feature_names={names}",
        f"feature_infos={' '.join(['none'] * n_features)}",
        f"tree_sizes={_words(len(block) for block in blocks)}",
    ]
    return "\n".join(head) + "\n\n" + "".join(blocks) + END


def first_up_to(border: NDArray[np.float32]) -> Array:
    """The greatest double numbers that are at most each border when rounded to single precision."""
    above = np.nextafter(border, np.float32(np.inf))
    middle = border.astype(np.float64) / 2.0 + above.astype(np.float64) / 2.0  # ties round to even
    is_even = border.view(np.uint32) % 2 == 0
    return np.where(is_even, middle, np.nextafter(middle, -np.inf))


def _tree_lines(number: int, tree: Tree, leaf_weights: Array) -> list[str]:
    """The lines of a tree; gains and the rows of a node are computed from the weights of leaves."""
    share = leaf_weights / (leaf_weights.sum() or 1.0)
    leaf_count = 1 + np.rint(WHOLE_COUNT * share).astype(np.int64)  # explanations divide by them
    count, mean = np.zeros((2, len(tree.left)))
    gain = np.zeros(len(tree.left))
    for node in range(len(tree.left) - 1, -1, -1):
        children = tree.left[node], tree.right[node]
        rows = [count[child] if child >= 0 else leaf_count[~child] for child in children]
        means = [mean[child] if child >= 0 else tree.value[~child] for child in children]
        count[node] = sum(rows)
        mean[node] = np.average(means, weights=rows)
        gain[node] = np.prod(rows) / count[node] * (means[0] - means[1]) ** 2
    lines = [
        f"Tree={number}",
        f"num_leaves={len(tree.value)}",
        f"num_cat={len(tree.sets)}",
        f"split_feature={_words(tree.feature)}",
        f"split_gain={_words(gain)}",
        f"threshold={_words(_threshold_words(tree))}",
        f"decision_type={_words(tree.decision)}",
        f"left_child={_words(tree.left)}",
        f"right_child={_words(tree.right)}",
        f"leaf_value={_words(tree.value)}",
        f"leaf_weight={_words(leaf_count.astype(np.float64))}",
        f"leaf_count={_words(leaf_count)}",
        f"internal_value={_words(mean)}",
        f"internal_weight={_words(count)}",
        f"internal_count={_words(count.astype(np.int64))}",
    ]
    if tree.sets:
        words = [_bits(places) for places in tree.sets]
        ends = np.cumsum([0, *map(len, words)])
        lines += [
            f"cat_boundaries={_words(ends)}",
            f"cat_threshold={_words(np.concatenate(words))}",
        ]
    return [*lines, "is_linear=0", "shrinkage=1"]


def _threshold_words(tree: Tree) -> list[float | int]:
    """Thresholds; of categories the position of their set, as an integer."""
    by_set = tree.decision & CATEGORICAL > 0
    return [
        int(value) if is_set else value
        for value, is_set in zip(tree.threshold.tolist(), by_set, strict=True)
    ]


def _bits(places: Where) -> Where:
    """A set of categories as bits of words."""
    n_words = int(places.max(initial=0)) // 32 + 1
    inside = np.zeros(32 * n_words, bool)
    inside[places] = True
    return np.packbits(inside, bitorder="little").view("<u4").astype(np.int64)


def _words(numbers: Iterable[Any]) -> str:
    values = numbers.tolist() if isinstance(numbers, np.ndarray) else numbers
    return " ".join(map(repr, values))
