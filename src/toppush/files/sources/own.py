"""Scores by a model file of this package."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from toppush.files.readers.base import Reader
from toppush.files.scoring import ScoringNotes, labelled_rows, scored
from toppush.files.sources.base import ScoredRows, Source, Wanted
from toppush.modelfile.fitted import Model


@dataclass
class ModelSource(Source):
    """A model file of this package."""

    model: Model
    name: str = "the model"

    def _read(self, file: Reader, wanted: Wanted) -> ScoredRows:
        if wanted.rows and wanted.labelled:
            return self._read_rows(file, wanted)
        seen, model = ScoringNotes(), self.model
        needs = model.needs(
            labels=wanted.labelled, label=wanted.label, carry=wanted.texts, numbers=wanted.numbers
        )
        parts = list(scored(model, file, needs, seen))
        scores = np.concatenate([part.scores for part in parts])
        carried = [part.carried for part in parts if part.carried is not None]
        columns = pa.Table.from_batches(carried) if carried else None
        if not wanted.labelled:
            return ScoredRows(scores, columns, seen)
        positive = np.concatenate([part.positive for part in parts if part.positive is not None])
        return ScoredRows(scores, columns, seen, (model.label, positive))

    def _read_rows(self, file: Reader, wanted: Wanted) -> ScoredRows:
        """The same with the rows in memory."""
        seen, model = ScoringNotes(), self.model
        X, positive, columns = labelled_rows(
            model,
            file,
            label=wanted.label,
            columns=wanted.texts,
            numbers=wanted.numbers,
            seen=seen,
        )
        scores = model.decision_function(X)
        return ScoredRows(scores, columns, seen, (model.label, positive), X)

    @property
    def own_features(self) -> list[str] | None:
        return list(self.model.needs().schema) or None

    def was_fitted_to(self, file: Reader) -> bool:
        known = self.model.about.get("data", {}).get("fingerprint")
        return known is not None and file.fingerprint() == known
