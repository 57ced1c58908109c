"""Columns of free text: recognising them, and their words and parts of words as numbers."""

import math
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from toppush.tables.strings import MAX_CATEGORIES, is_missing
from toppush.types import Array, Matrix

FEWEST = 50
"""Different strings that free text has at least."""
VARIED = 0.2
"""Different strings as a fraction of all, from which strings are too varied for categories; more
than `MAX_CATEGORIES` are in any case."""
SEVERAL = 2.5
"""Mean number of words from which varied strings are text; most names of people have 2."""
LONG = 12
"""Mean number of characters from which strings with fewer words may be text, as chemical formulas
in SMILES notation and requests to web servers are."""
PATTERNS = 0.1
"""Fraction of different strings, all numbers alike, below which long strings are codes."""
SHARED = 0.85
"""Ratio of compressed size to the entropy of single characters below which strings share parts:
random strings have 1 or more, chemical formulas and requests .5 to .7."""
LOOKED_AT = 1000
"""Different strings that are looked at."""
WORD = re.compile(r"[^\W\d_]{2,}")
TOKEN = re.compile(r"\b\w\w+\b")
"""What scikit-learn takes for a word."""
DIGITS = re.compile(r"[0-9]+")

MOST_WORDS, MOST_PIECES = 20_000, 30_000
"""Words and pairs of words, and parts of words, that are kept: the most frequent ones."""
MOST_CHARACTERS = 20_000
"""Characters of a string that are read."""
MOST_ROWS = 50_000
"""Rows from which terms are learned, evenly spaced."""


def is_free_text(strings: Collection[str], n_values: int) -> bool:
    """Whether strings are free text, and neither categories nor ids nor codes.

    Numbers and dates must have been ruled out.

    Parameters
    ----------
    strings : collection of str
        The different strings of a column.
    n_values : int
        Number of rows with a string.

    Examples
    --------
    >>> from toppush.tables.text import is_free_text
    >>> is_free_text([f"call me back at {n} please" for n in range(100)], 120)
    True
    >>> is_free_text(["North America", "Latin America"], 120)
    False
    """
    n_distinct = len(strings)
    if n_distinct < FEWEST or n_distinct < min(VARIED * n_values, MAX_CATEGORIES + 1):
        return False
    some = sorted(strings)[:: max(1, n_distinct // LOOKED_AT)]
    n_words = sum(len(WORD.findall(text)) for text in some if " " in text.strip())
    return n_words >= SEVERAL * len(some) or _share_parts(some)


def _share_parts(strings: list[str]) -> bool:
    """Whether long strings differ in length and by more than numbers, and share parts."""
    lengths = np.array([len(text) for text in strings])
    if lengths.mean() < LONG or np.ptp(np.quantile(lengths, [0.1, 0.9])) < 2:
        return False
    letters = sum(character.isalpha() for text in strings for character in text)
    patterns = {DIGITS.sub("0", text) for text in strings}
    if letters < 0.2 * lengths.sum() or len(patterns) < PATTERNS * len(strings):
        return False
    whole = "\n".join(strings)
    counts = np.array(list(Counter(whole).values()))
    bits = float(-(counts * np.log2(counts / len(whole))).sum())
    return 8 * len(zlib.compress(whole.encode(), 9)) < SHARED * bits


def as_texts(values: Iterable[Any]) -> list[str]:
    """Values as strings of bounded length; missing ones are empty."""
    return ["" if is_missing(value) else str(value)[:MOST_CHARACTERS] for value in values]


def lengths_of(strings: Sequence[str]) -> Array:
    """Number of characters of each string."""
    return np.array([len(text) for text in strings], np.float64)


def shortened(text: str, most: int = 40) -> str:
    """The beginning of a string."""
    return text if len(text) <= most else f"{text[:most]}..."


@dataclass(frozen=True)
class Terms:
    """The words, pairs of words and parts of words of strings, with TF-IDF weights.

    Parts are of 2 to 5 characters, within words. Terms in a single string are left out.
    """

    words: str
    """Words and pairs of words, in lines: a file of a model has 50,000 of them in one string."""
    pieces: str
    """Parts of words, in lines."""
    weights: Array
    """The inverse document frequency of words and parts."""

    _OPTIONS: ClassVar[tuple[dict[str, Any], ...]] = (
        {"ngram_range": (1, 2), "max_features": MOST_WORDS},
        {"ngram_range": (2, 5), "max_features": MOST_PIECES, "analyzer": "char_wb"},
    )

    @classmethod
    def none(cls) -> Self:
        """No terms."""
        return cls("", "", np.empty(0))

    @classmethod
    def of(cls, strings: Sequence[str]) -> Self:
        """The terms of training strings."""
        strings = strings[:: math.ceil(len(strings) / MOST_ROWS) or 1]
        lines: list[str] = []
        weights: list[Array] = []
        for options in cls._OPTIONS:
            for least in (2, 1):  # strings of which none shares a term have others
                vectorizer = _vectorizer(options, min_df=least)
                try:
                    vectorizer.fit(strings)
                except ValueError:  # there is no term
                    continue
                lines.append("\n".join(vectorizer.get_feature_names_out()))
                weights.append(vectorizer.idf_)
                break
            else:
                lines.append("")
        words, pieces = lines
        return cls(words, pieces, np.concatenate([np.empty(0), *weights]))

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def names(self) -> list[str]:
        """The terms; parts of words in quotes."""
        words, pieces = self._lines()
        return [*words, *map(repr, pieces)]

    @property
    def is_valid(self) -> bool:
        """Whether there is a weight for each term: model files may be forged."""
        if not (isinstance(self.words, str) and isinstance(self.pieces, str)):
            return False
        terms, weights = self._lines(), self.weights
        differ = all(len(set(lines)) == len(lines) for lines in terms)
        is_array = isinstance(weights, np.ndarray) and weights.dtype == np.float64
        shape = (sum(map(len, terms)),)
        return differ and is_array and weights.shape == shape and bool(np.isfinite(weights).all())

    def _lines(self) -> tuple[list[str], list[str]]:
        words, pieces = (text.split("\n") if text else [] for text in (self.words, self.pieces))
        return words, pieces

    def transform(self, strings: Sequence[str]) -> Matrix:
        """The weights of the terms in each string, a CSR array."""
        parts, start = [sparse.csr_array((len(strings), 0))], 0
        for options, lines in zip(self._OPTIONS, self._lines(), strict=True):
            if lines:
                vectorizer = _vectorizer(options, vocabulary=lines)
                vectorizer.idf_ = self.weights[start : start + len(lines)]
                parts.append(sparse.csr_array(vectorizer.transform(strings)))
                start += len(lines)
        return sparse.csr_array(sparse.hstack(parts, format="csr"))

    def unseen(self, strings: Sequence[str], *, training: bool = False) -> Array:
        """Percentage of the words of each string that are not known; 0 if it has none.

        Of `training` strings, the rarest words would be unknown without the string itself.
        """
        words = self._lines()[0]
        weights = self.weights[: len(words)]
        rarest = weights.max(initial=0.0) if training else np.inf
        known = {word for word, weight in zip(words, weights, strict=True) if weight < rarest}
        tokens = [TOKEN.findall(text.lower()) for text in strings]
        unknown = [sum(word not in known for word in each) for each in tokens]
        lengths = np.array([max(len(each), 1) for each in tokens], np.float64)
        return 100.0 * np.array(unknown, np.float64) / lengths

    def by_word(self, text: str, amounts: Matrix) -> dict[str, float]:
        """What each word of a string adds, its parts and its pairs included.

        `amounts`, a sparse row, has what each term adds. What a term adds is divided among the
        words that contain it.
        """
        words, pieces = self._lines()
        place = {(0, word): at for at, word in enumerate(words)}
        place |= {(1, piece): len(words) + at for at, piece in enumerate(pieces)}
        amount = dict(zip(amounts.indices.tolist(), amounts.data.tolist(), strict=True))
        holders: dict[int, list[str]] = {}
        for kind, term, word in self._occurrences(text.lower()):
            at = place.get((kind, term), -1)
            if at in amount:
                holders.setdefault(at, []).append(word)
        added: dict[str, float] = {}
        for at, in_words in holders.items():
            for word in in_words:
                added[word] = added.get(word, 0.0) + amount[at] / len(in_words)
        return added

    def _occurrences(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Each term of a string with its type, and the word that it is in; pairs are in two."""
        analyzers = [_vectorizer(options).build_analyzer() for options in self._OPTIONS]
        words = text.split()
        for word in words:
            for kind, analyzer in enumerate(analyzers):
                for term in analyzer(word):
                    yield kind, term, word
        tokens = [(token, word) for word in words for token in TOKEN.findall(word)]
        for (first, word), (second, other) in pairwise(tokens):
            if word != other:
                yield 0, f"{first} {second}", word
                yield 0, f"{first} {second}", other


def _vectorizer(options: dict[str, Any], **more: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(sublinear_tf=True, **options | more)


def stacked_terms(parts: Iterator[Matrix] | Sequence[Matrix], n_rows: int) -> Matrix:
    """The terms of several columns, next to each other."""
    empty = sparse.csr_array((n_rows, 0))
    return sparse.csr_array(sparse.hstack([empty, *parts], format="csr"))
