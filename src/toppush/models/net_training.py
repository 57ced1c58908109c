"""Networks of an ensemble trained at once, in torch.

Every layer is one tensor over the members, and all members see the same batches. Rows of a
member's own fold weigh nothing for it; by them it is judged.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import softplus

from toppush.folds.scores import in_order, joined, narrowed
from toppush.metrics import average_precision
from toppush.models.net_batches import Shuffled, TrainingSet, dealt_folds
from toppush.torch import Scored, Tensor, pairwise_loss, top_level
from toppush.types import Array, Where

POSITIVES, NEGATIVES = 64, 512
"""Rows of a batch at most."""
SMOOTHING = 0.5
__all__ = ["Plan", "TrainingSet", "dealt_folds", "train"]
PATIENCE = 250
"""Steps without a better mean average precision of the folds until the end."""
UNWATCHED = 200
"""Steps at most where no rows can be held out."""
AVERAGED = 0.98
"""What the mean of the weights over the steps keeps at each: it spans about fifty."""
DECAY = 1e-2
SCORED_ROWS = 8192
"""Rows scored at once."""

Layers = list[list[Tensor]]
"""Weights (members, inputs, outputs) and biases (members, 1, outputs) of each layer."""


@dataclass(frozen=True)
class Plan:
    """How to train."""

    loss: str
    top: float
    hidden: tuple[int, ...]
    n_members: int
    max_steps: int
    learning_rate: float
    seed: int
    tell: Callable[[int, float], None]
    """Called at every look with the steps done and the mean average precision of the folds."""


@dataclass(frozen=True)
class Trained:
    """What a fit found."""

    weights: list[NDArray[np.float32]]
    biases: list[NDArray[np.float32]]
    offsets: Array
    """What each member's scores are above those of the others."""
    out_of_fold: Array | None
    second: Array | None
    """Scores of some rows by members of a second fold that left them out; NaN for others."""
    expected: Array | None
    """Out-of-fold scores as the mean of the members spreads them."""
    n_steps: int


def train(given: TrainingSet, plan: Plan) -> Trained:
    """Networks at the step at which the folds' mean average precision was the greatest.

    Held-out scores of a fold are those at the step that is best on the other folds.

    They are looked at every so many steps that looking costs less than the steps: a few rows are
    learnt by heart after thirty (diabetes, 512 rows).
    """
    training = Training(given, plan)
    watched, interval = given.n_folds > 1, min(max(5, given.n_rows // 500), 50)
    best, found, steps = -math.inf, training.mean, 0
    for done in range(plan.max_steps if watched else min(plan.max_steps, UNWATCHED)):
        training.step(done)
        if not watched or (done + 1) % interval:
            continue
        quality = training.look()
        plan.tell(done + 1, quality)
        if quality > best:
            best, found, steps = quality, copied(training.mean), done + 1
        elif done + 1 >= steps + PATIENCE:
            break
    return training.result(found if steps else training.mean, steps or done + 1)


class Training:
    """The members, and what a step does to them."""

    def __init__(self, given: TrainingSet, plan: Plan) -> None:
        self.given, self.plan = given, plan
        rng = np.random.default_rng(plan.seed)
        self._positives = Shuffled(np.flatnonzero(given.positive), POSITIVES, rng)
        self._negatives = Shuffled(np.flatnonzero(~given.positive), NEGATIVES, rng)
        self._folds = np.arange(plan.n_members) % given.n_folds
        self._layers = begin([given.n_columns, *plan.hidden, 1], plan, given.device)
        self.mean = copied(self._layers)
        self._best = np.full(plan.n_members, -math.inf)
        self._unseen: dict[int, Array] = {}
        self._optimiser = torch.optim.AdamW(
            [tensor for layer in self._layers for tensor in layer],
            lr=plan.learning_rate,
            weight_decay=DECAY,
            foreach=True,
        )

    def step(self, done: int) -> None:
        """One batch, and the mean of the weights over the steps."""
        positives, negatives = self._positives.draw(), self._negatives.draw()
        batch, cut = np.concatenate([positives, negatives]), len(positives)
        scores, weight = forward(self._layers, self.given.rows(batch)), self._weight(batch)
        self._optimiser.zero_grad(set_to_none=True)
        self._loss(
            Scored(scores[:, :cut], weight[:, :cut]), Scored(scores[:, cut:], weight[:, cut:])
        ).backward()
        self._optimiser.step()
        self._average(1.0 - min(AVERAGED, done / (done + 1.0)))

    def look(self) -> float:
        """Mean over the members of the average precision on the rows left out.

        The scores of a fold's rows are kept from the look that the other folds find best.
        """
        lists = [self._scores(member, where) for member, where in self._held_out()]
        quality = np.array(
            [
                self._quality(scores, where)
                for scores, (_, where) in zip(lists, self._held_out(), strict=True)
            ]
        )
        for member, (scores, fold) in enumerate(zip(lists, self._folds, strict=True)):
            of_others = float(np.mean(quality[self._folds != fold]))
            if of_others > self._best[member]:
                self._best[member], self._unseen[member] = of_others, scores
        return float(np.mean(quality))

    def result(self, layers: Layers, n_steps: int) -> Trained:
        """Everything on the host."""
        self.mean = layers
        offsets = np.array([self._offset(member) for member in range(self.plan.n_members)])
        unseen = second = expected = None
        if self.given.n_folds > 1:
            unseen, first, second = self._out_of_fold(offsets)
            expected = narrowed(unseen, first, second, self.given.n_folds)
        return Trained(
            [weights.cpu().numpy() for weights, _ in layers],
            [biases.squeeze(1).cpu().numpy() for _, biases in layers],
            offsets,
            unseen,
            second,
            expected,
            n_steps,
        )

    def _weight(self, batch: Where) -> Tensor:
        """Weights (members, rows): none for rows that a member is judged by."""
        weight = self.given.tensor(self.given.weight[batch])
        if self.given.n_folds < 2:
            return weight.expand(self.plan.n_members, -1)
        own = self.given.folds[batch] == self._folds[:, None]
        own |= self.given.second_folds[batch] == self._folds[:, None]
        return torch.where(self.given.tensor(own), 0.0, weight)

    def _loss(self, positives: Scored, negatives: Scored) -> Tensor:
        if self.plan.loss == "pairwise":
            return pairwise(positives, negatives, self.plan.top)
        of_positives = (softplus(-positives.scores) * positives.weight).sum()
        of_negatives = (softplus(negatives.scores) * negatives.weight).sum()
        # Each class counts as among all rows, not as in the batch.
        total = of_positives * self._positives.rows_for_each
        return (total + of_negatives * self._negatives.rows_for_each) / self.given.n_rows

    @torch.no_grad()
    def _average(self, new: float) -> None:
        for mean, layer in zip(self.mean, self._layers, strict=True):
            torch._foreach_lerp_(mean, layer, new)

    def _held_out(self) -> list[tuple[int, Where]]:
        return [
            (at, np.flatnonzero(self.given.folds == fold)) for at, fold in enumerate(self._folds)
        ]

    def _quality(self, scores: Array, where: Where) -> float:
        positive, weight = self.given.positive[where], self.given.weight[where]
        return average_precision(positive, scores, sample_weight=weight)

    def _offset(self, member: int) -> float:
        """The level of the top among a member's negatives, those left out if there are any.

        The pairwise loss sees differences alone, so members differ by a shift.
        """
        if self.plan.loss != "pairwise":
            return 0.0
        where = np.flatnonzero(~self.given.positive & (self.given.folds == self._folds[member]))
        scores, weight = self._scores(member, where), self.given.weight[where]
        if self.plan.top >= 1.0:
            return float(np.average(scores, weights=weight))
        listed = Scored(torch.from_numpy(scores), torch.from_numpy(weight))
        return float(top_level(listed, self.plan.top, SMOOTHING))

    def _out_of_fold(self, offsets: Array) -> tuple[Array, Array, Array]:
        """Out-of-fold scores, the same at the last step, and second scores; NaN for other rows.

        The first are those at the step that is best on the other folds.
        """
        first, chosen, second = [], [], []
        for member, where in self._held_out():
            first.append((where, self._scores(member, where)))
            by_others = self._unseen.get(member, first[-1][1])
            chosen.append((where, in_order(first[-1][1], by_others)))
            other = np.flatnonzero(self.given.is_second(int(self._folds[member])))
            second.append((other, self._scores(member, other)))
        n_rows, level = self.given.n_rows, float(np.mean(offsets))
        by_last, by_second = joined(first, n_rows), joined(second, n_rows, units=first)
        return joined(chosen, n_rows) - level, by_last - level, by_second - level

    @torch.no_grad()
    def _scores(self, member: int, where: Where) -> Array:
        """A member's scores of some rows."""
        if not len(where):
            return np.empty(0)
        layers = [[tensor[member : member + 1] for tensor in layer] for layer in self.mean]
        parts = [where[at : at + SCORED_ROWS] for at in range(0, len(where), SCORED_ROWS)]
        found = [forward(layers, self.given.rows(part))[0].double().cpu() for part in parts]
        scores = np.asarray(torch.cat(found).numpy())
        if not np.isfinite(scores).all():
            raise ValueError(
                "The networks diverged: their scores are no longer numbers. Lower learning_rate, "
                f"which is {self.plan.learning_rate:g}."
            )
        return scores


def forward(layers: Layers, rows: Tensor) -> Tensor:
    """Scores (members, rows)."""
    (weights, biases), *others = layers
    hidden = torch.matmul(rows, weights) + biases
    for weights, biases in others:
        hidden = torch.baddbmm(biases, torch.relu(hidden), weights)
    return hidden.squeeze(-1)


def begin(sizes: list[int], plan: Plan, device: Any) -> Layers:
    """Random weights and biases as torch's own layers begin, of size up to 1 / sqrt(inputs).

    Biases of zero bend all units at the mean of the rows: with six columns (mammography) that cost
    .02 of average precision.
    """
    random, layers = torch.Generator().manual_seed(plan.seed), []
    for inputs, outputs in itertools.pairwise(sizes):
        numbers = torch.rand(plan.n_members, inputs + 1, outputs, generator=random)
        numbers = (2.0 * numbers - 1.0) / math.sqrt(inputs)
        layer = numbers[:, :-1].clone(), numbers[:, -1:].clone()
        layers.append([tensor.to(device).requires_grad_() for tensor in layer])
    return layers


def copied(layers: Layers) -> Layers:
    """The same numbers, which no step changes."""
    return [[tensor.detach().clone() for tensor in layer] for layer in layers]


def pairwise(positives: Scored, negatives: Scored, top: float) -> Tensor:
    """The push of all members; one that is left without rows of a class has none."""
    some = (positives.weight.sum(-1) > 0) & (negatives.weight.sum(-1) > 0)
    lists = [
        Scored(each.scores, torch.where(some[:, None], each.weight, 1.0))
        for each in (positives, negatives)
    ]
    return (pairwise_loss(lists[0], lists[1], top, SMOOTHING) * some).sum()
