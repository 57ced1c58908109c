"""Members of boosted trees trained by LightGBM, and the choice of their number of rounds."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toppush import metrics
from toppush.folds.splits import Fold
from toppush.models.progress import Line
from toppush.objectives import label_rows, pairwise_gradients
from toppush.system.extras import needs
from toppush.system.threads import check_cancelled
from toppush.types import Array, Mask, Matrix, Where

PATIENCE, EVERY = 40, 5
"""Rounds without improvement after which training stops, and rounds between two evaluations: on
10,000 rows an evaluation takes as long as a tree."""
SMOOTHED = {"max_cat_to_onehot": 8, "cat_smooth": 50.0, "cat_l2": 20.0, "min_data_per_group": 20}
"""LightGBM's parameters of splits by categories that are regularised more than by default."""


def lightgbm() -> Any:
    """The module, or an error that says how to install it."""
    try:
        import lightgbm
    except ImportError:
        raise ImportError(needs("TopPushTrees", "lightgbm")) from None
    return lightgbm


@dataclass(frozen=True)
class Growth:
    """Hyperparameters of the members."""

    top: float
    loss: str
    n_leaves: int
    learning_rate: float
    max_rounds: int
    subsample: float
    colsample_bynode: float
    min_child_samples: int
    category_encoding: str

    def parameters(self, seed: int, n_jobs: int) -> dict[str, Any]:
        """LightGBM's parameters, for fits that repeat bit for bit."""
        return {
            "objective": "binary" if self.loss == "binary" else "none",
            "metric": "none",
            "num_leaves": self.n_leaves,
            "learning_rate": self.learning_rate,
            "bagging_fraction": self.subsample,
            "bagging_freq": int(self.subsample < 1.0),
            "feature_fraction_bynode": self.colsample_bynode,
            "min_data_in_leaf": self.min_child_samples,
            **(SMOOTHED if self.category_encoding == "smoothed" else {}),
            "feature_pre_filter": False,
            "deterministic": True,
            "force_row_wise": True,
            "seed": seed,
            "num_threads": n_jobs,
            "verbosity": -1,
        }


@dataclass(frozen=True)
class BoostedMember:
    """A member with all its rounds, and the NDCG of its held-out rows after some of them."""

    text: str
    held: Where
    quality: Array
    """NDCG of the held-out rows at each evaluation."""
    n_trees: NDArray[np.int64]
    """Number of trees at each evaluation; a round without a split adds none."""
    n_tried: int

    def n_trees_at(self, evaluation: int) -> int:
        """Trees to keep: at least one if there is any, as LightGBM takes 0 for all."""
        count = self.n_trees[min(evaluation, len(self.n_trees) - 1)]
        return int(max(count, min(1, self.n_trees[-1])))


class TrainingBins:
    """The training rows in LightGBM's bins, which the members share."""

    def __init__(
        self,
        X: Matrix,
        positive: Mask,
        weight: Array | None,
        categorical: Sequence[int],
        growth: Growth,
    ) -> None:
        self.positive, self.weight = positive, weight
        self.bins = lightgbm().Dataset(
            X,
            positive.astype(np.float64),
            weight=weight,
            categorical_feature=list(categorical),
            params=growth.parameters(0, 0),
        )
        self.bins.construct()

    def part(self, where: Where) -> Any:
        """Some of the rows; LightGBM needs an ascending list."""
        return self.bins.subset(np.sort(where).tolist()).construct()


def grow(
    rows: TrainingBins,
    growth: Growth,
    fold: Fold,
    seed: int,
    n_jobs: int,
    after_round: Callable[[], None] = lambda: None,
) -> BoostedMember:
    """Boost on a fold's training rows until the NDCG of the held-out rows stops rising."""
    train, held = (np.sort(part) for part in fold)
    booster = lightgbm().Booster(growth.parameters(seed, n_jobs), rows.part(train))
    booster.add_valid(rows.part(held), "held")
    objective = _objective(rows, growth, train)
    positive, weight = rows.positive[held], _of(rows.weight, held)
    quality: list[float] = []
    n_trees: list[int] = []
    best = n_tried = 0
    while n_tried < growth.max_rounds and n_tried - best < PATIENCE:
        check_cancelled()
        booster.update(fobj=objective)  # without a split no tree; the next round has other columns
        after_round()
        n_tried += 1
        if n_tried % EVERY == 0 or n_tried == growth.max_rounds:
            value = metrics.ndcg(positive, _held_scores(booster), sample_weight=weight)
            if value > max(quality, default=-np.inf):
                best = n_tried
            quality.append(value)
            n_trees.append(booster.current_iteration())
    text = booster.model_to_string(num_iteration=-1)
    return BoostedMember(text, held, np.array(quality), np.array(n_trees), n_tried)


class Evaluated(Protocol):
    """A member with evaluations on its held-out rows."""

    @property
    def held(self) -> Where:
        """The held-out rows."""

    @property
    def quality(self) -> Array:
        """Their NDCG at each evaluation."""


def choose_rounds(members: Sequence[Evaluated]) -> Callable[[Iterable[int]], int]:
    """Returns a function that chooses the evaluation with the best mean NDCG of some members.

    A member that stopped earlier than others counts with its last NDCG from there on.
    """
    last = max(len(member.quality) for member in members)
    curves = [np.pad(member.quality, (0, last - len(member.quality)), "edge") for member in members]
    return lambda some: int(np.argmax(np.mean([curves[place] for place in some], axis=0)))


def others_than(place: int, members: Sequence[Evaluated]) -> list[int]:
    """Members that share no held-out row with a member; all members if there are none."""
    held = members[place].held
    apart = [at for at, member in enumerate(members) if not np.isin(member.held, held).any()]
    return apart or list(range(len(members)))


def _objective(rows: TrainingBins, growth: Growth, train: Where) -> Callable[..., Any] | None:
    """The objective of a booster; None for LightGBM's own."""
    if growth.loss == "binary":
        return None
    known = label_rows(rows.positive[train], _of(rows.weight, train))
    return lambda scores, _: pairwise_gradients(scores, known, top=growth.top)


def _held_scores(booster: Any) -> Array:
    """Scores of the held-out rows, which the booster keeps up to date.

    For its own loss LightGBM returns probabilities, which rank the rows as the scores do.
    """
    kept: list[Array] = []

    def keep(scores: Array, _: Any) -> tuple[str, float, bool]:
        kept.append(np.array(scores))
        return "kept", 0.0, True

    booster.eval_valid(keep)
    return kept[0]


def _of(weight: Array | None, where: Where) -> Array | None:
    return None if weight is None else weight[where]


class GrowthLine(Line):
    """Shows the progress of the members; several threads may call it."""

    def __init__(self, n_members: int) -> None:
        super().__init__()
        self._n_members, self._n_done, self._n_rounds = n_members, 0, 0
        self._began, self._lock = time.perf_counter(), Lock()

    def round(self) -> None:
        """A member has one more round."""
        with self._lock:
            self._n_rounds += 1
            seconds = time.perf_counter() - self._began
            if self.is_due(seconds):
                self.write(self._describe(seconds))

    def done(self) -> None:
        """One more member is done."""
        with self._lock:
            self._n_done += 1

    def close(self) -> None:
        """Show the final state."""
        self.write(self._describe(time.perf_counter() - self._began), last=True)

    def _describe(self, seconds: float) -> str:
        line = f"trees: {self._n_done} of {self._n_members} members, {self._n_rounds} rounds"
        line = f"{line}  {seconds:.1f} s"
        if not 0 < self._n_done < self._n_members:
            return line
        left = seconds / self._n_done * (self._n_members - self._n_done)
        return f"{line}  about {left:.1f} s left"
