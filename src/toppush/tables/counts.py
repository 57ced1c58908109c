"""What is met in rows and should be told: gaps, unknown texts, values far from those known."""

import warnings
from collections import Counter
from dataclasses import dataclass, field

LARGER = 1000.0
"""A value that is so many times the largest in training is of another unit, or wrong."""


@dataclass
class Counts:
    """Gaps that were filled, texts that were not known, and sizes that were not, by column."""

    missing: Counter[str] = field(default_factory=Counter)
    unseen: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    """Values that are no numbers, in columns of numbers written as text; also counted as missing.
    """
    larger: dict[str, float] = field(default_factory=dict)
    """How many times as large as any training value a value was, where that is over `LARGER`."""
    blanks: int = 0
    """Labels that were read without the blanks around them."""

    def note_larger(self, name: str, ratio: float) -> None:
        """Keep the greatest ratio of a column."""
        self.larger[name] = max(self.larger.get(name, 0.0), ratio)

    def caution(self) -> None:
        """Warn of columns that are far larger than in training."""
        if self.larger:
            shown = ", ".join(f"{name} ({ratio:.3g} times)" for name, ratio in self.larger.items())
            warnings.warn(
                f"values are far larger than any that the model was fitted to, and may decide the "
                f"order alone, in column {shown}. Is the unit another?",
                stacklevel=3,
            )
