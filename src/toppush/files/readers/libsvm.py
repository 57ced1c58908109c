"""LIBSVM text; column numbers count from 0 if a 0 occurs, else from 1."""

from collections.abc import Collection, Iterator

from toppush.files.readers.base import MatrixReader, TextReader
from toppush.system import libsvm
from toppush.tables.loaded import Batch, LoadedRows, Needs


class LibsvmReader(MatrixReader, TextReader):
    """LIBSVM text, plain or packed."""

    def load(self, label: str | None, drop: Collection[str], texts: Collection[str]) -> LoadedRows:
        self._refuse_names(drop=drop, categorical=texts, label=[label] if label else [])
        X, y, first = libsvm.read_open(self.content, self.path)
        if not len(y):
            raise self.error("holds no rows.")
        return LoadedRows(X, y, None, {"width": X.shape[1], "first": first})

    def batches(self, needs: Needs) -> Iterator[Batch]:
        width, first = self._width(needs), int(needs.layout.get("first", 1))
        for entries, y in libsvm.blocks(self.content, self.path, lowest=first):
            X, beyond = libsvm.aligned(entries, first, width)
            yield Batch(X, X.shape[0], y, None, beyond)
