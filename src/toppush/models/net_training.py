"""Networks of an ensemble trained together, in torch.

Every layer is one tensor over the members, and all members see the same batches. Rows of a
member's own fold have weight 0 in its loss; it is evaluated on them.
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

from toppush.folds.scores import FoldScores, left_out_twice
from toppush.matrices import dense
from toppush.metrics import average_precision
from toppush.tables.scaling import PART_ROWS, AsinhScaler
from toppush.torch import Scored, Tensor, pairwise_loss, top_level
from toppush.types import Array, Mask, Matrix, Where

POSITIVES, NEGATIVES = 64, 512
"""Maximum number of rows of each class in a batch."""
HELD_ENTRIES = 1 << 27
"""Entries of X that are kept as an array of float32, 512 MB; beyond, each batch is made of X."""
SMOOTHING = 0.5
PATIENCE = 250
"""Steps without a better mean average precision on the folds until training ends."""
UNEVALUATED = 200
"""Maximum number of steps if no rows can be held out."""
AVERAGED = 0.98
"""Decay of the moving average of the weights over the steps: it spans about fifty."""
DECAY = 1e-2
SCORED_ROWS = 8192
"""Rows scored at once."""

Layers = list[list[Tensor]]
"""Weights (members, inputs, outputs) and biases (members, 1, outputs) of each layer."""


class NetRows:
    """Scaled rows with their classes and weights, and the two folds that leave each row out.

    The second fold is the one before, or the same for rows that one fold leaves out.
    """

    def __init__(
        self,
        X: Matrix,
        columns: AsinhScaler,
        positive: Mask,
        weight: Array,
        folds: Where,
        device: str,
    ) -> None:
        self._X, self._columns, self.device = X, columns, torch.device(device)
        self.n_rows, self.n_columns = X.shape
        self.positive, self.weight, self.folds = positive, weight, folds
        self.n_folds = int(folds.max()) + 1
        self.second_folds = (folds - left_out_twice(positive)) % self.n_folds
        held = self.n_rows * self.n_columns <= HELD_ENTRIES
        self._held = self._scaled(np.arange(self.n_rows)) if held else None

    def is_second(self, fold: int) -> Mask:
        """Rows of other folds that the model of a fold leaves out as well."""
        return np.asarray((self.second_folds == fold) & (self.folds != fold))

    def rows(self, where: Where) -> Tensor:
        """Some rows, scaled."""
        return self._scaled(where) if self._held is None else self._held[self.tensor(where)]

    def tensor(self, values: NDArray[Any]) -> Tensor:
        """An array on the device, real numbers in float32."""
        real = values.dtype == np.float64
        return torch.from_numpy(values.astype(np.float32) if real else values).to(self.device)

    def _scaled(self, where: Where) -> Tensor:
        scaled = np.empty((len(where), self.n_columns), np.float32)
        for start in range(0, len(where), PART_ROWS):
            part = slice(start, start + PART_ROWS)
            scaled[part] = self._columns.transform(dense(self._X[where[part]]))
        return torch.from_numpy(scaled).to(self.device)


class Shuffled:
    """Batches of a class, from one random order of its rows after the other."""

    def __init__(self, where: Where, most: int, rng: np.random.Generator) -> None:
        self._where, self.size, self._rng = where, min(most, len(where)), rng
        self._order, self._at = rng.permutation(where), 0

    @property
    def rows_for_each(self) -> float:
        """Ratio of the rows of the class to those of a batch."""
        return len(self._where) / self.size

    def draw(self) -> Where:
        """The rows of the next batch."""
        if self._at + self.size > len(self._order):
            self._order, self._at = self._rng.permutation(self._where), 0
        self._at += self.size
        return self._order[self._at - self.size : self._at]


def random_folds(positive: Mask, n_members: int, rng: np.random.Generator) -> Where:
    """The fold of each row, each with rows of both classes; all 0 if there cannot be two."""
    classes = np.flatnonzero(positive), np.flatnonzero(~positive)
    n_folds = min(n_members, *map(len, classes))
    folds = np.zeros(len(positive), np.int64)
    for where in classes:
        folds[rng.permutation(where)] = np.arange(len(where)) % max(n_folds, 1)
    return folds


@dataclass(frozen=True)
class TrainingPlan:
    """Hyperparameters of the training."""

    loss: str
    top: float
    hidden: tuple[int, ...]
    n_members: int
    max_steps: int
    learning_rate: float
    seed: int
    report: Callable[[int, float], None]
    """Called at each evaluation with the number of steps and the mean average precision."""


@dataclass(frozen=True)
class Trained:
    """The result of the training, on the host."""

    weights: list[NDArray[np.float32]]
    biases: list[NDArray[np.float32]]
    offsets: Array
    """Subtracted from each member's scores."""
    scores: FoldScores | None
    """None if there is one fold."""
    n_steps: int


def train(given: NetRows, plan: TrainingPlan) -> Trained:
    """Train until the mean average precision on the folds stops rising; returns the best step.

    Held-out scores of a fold are those at the step that is best on the other folds. The interval
    of the evaluations keeps them cheaper than the steps: a few rows are learnt by heart after
    thirty (diabetes, 512 rows).
    """
    training = NetTraining(given, plan)
    evaluated, interval = given.n_folds > 1, min(max(5, given.n_rows // 500), 50)
    best, best_layers, best_step = -math.inf, training.mean, 0
    for done in range(plan.max_steps if evaluated else min(plan.max_steps, UNEVALUATED)):
        training.step(done)
        if not evaluated or (done + 1) % interval:
            continue
        quality = training.evaluate()
        plan.report(done + 1, quality)
        if quality > best:
            best, best_layers, best_step = quality, copied(training.mean), done + 1
        elif done + 1 >= best_step + PATIENCE:
            break
    layers = best_layers if best_step else training.mean
    return training.result(layers, best_step or done + 1)


class NetTraining:
    """The members and their optimiser."""

    def __init__(self, given: NetRows, plan: TrainingPlan) -> None:
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
        """Train on a batch, and update the moving average of the weights."""
        positives, negatives = self._positives.draw(), self._negatives.draw()
        batch, cut = np.concatenate([positives, negatives]), len(positives)
        scores, weight = forward(self._layers, self.given.rows(batch)), self._weight(batch)
        self._optimiser.zero_grad(set_to_none=True)
        self._loss(
            Scored(scores[:, :cut], weight[:, :cut]), Scored(scores[:, cut:], weight[:, cut:])
        ).backward()
        self._optimiser.step()
        self._average(1.0 - min(AVERAGED, done / (done + 1.0)))

    def evaluate(self) -> float:
        """Mean over the members of the average precision on their held-out rows.

        The scores of a fold's rows are kept from the evaluation that is best on the other folds.
        """
        scores = [self._scores(member, where) for member, where in self._held_out()]
        pairs = zip(scores, self._held_out(), strict=True)
        quality = np.array([self._quality(own, where) for own, (_, where) in pairs])
        for member, (own, fold) in enumerate(zip(scores, self._folds, strict=True)):
            of_others = float(np.mean(quality[self._folds != fold]))
            if of_others > self._best[member]:
                self._best[member], self._unseen[member] = of_others, own
        return float(np.mean(quality))

    def result(self, layers: Layers, n_steps: int) -> Trained:
        """The given weights with the scores by them, on the host."""
        self.mean = layers
        offsets = np.array([self._offset(member) for member in range(self.plan.n_members)])
        return Trained(
            [weights.cpu().numpy() for weights, _ in layers],
            [biases.squeeze(1).cpu().numpy() for _, biases in layers],
            offsets,
            self._fold_scores(float(np.mean(offsets))) if self.given.n_folds > 1 else None,
            n_steps,
        )

    def _weight(self, batch: Where) -> Tensor:
        """Weights (members, rows), 0 for the held-out rows of a member."""
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
        """The level of the top among a member's held-out negatives.

        The pairwise loss depends on differences alone, so members differ by a shift.
        """
        if self.plan.loss != "pairwise":
            return 0.0
        where = np.flatnonzero(~self.given.positive & (self.given.folds == self._folds[member]))
        scores, weight = self._scores(member, where), self.given.weight[where]
        if self.plan.top >= 1.0:
            return float(np.average(scores, weights=weight))
        listed = Scored(torch.from_numpy(scores), torch.from_numpy(weight))
        return float(top_level(listed, self.plan.top, SMOOTHING))

    def _fold_scores(self, shift: float) -> FoldScores:
        """Scores of held-out rows, at the step that is best on the other folds and at the last."""
        chosen, final, second = [], [], []
        for member, where in self._held_out():
            final.append((where, self._scores(member, where)))
            chosen.append((where, self._unseen.get(member, final[-1][1])))
            other = np.flatnonzero(self.given.is_second(int(self._folds[member])))
            second.append((other, self._scores(member, other)))
        given = self.given
        return FoldScores.of(chosen, final, second, given.n_rows, given.n_folds, shift)

    @torch.no_grad()
    def _scores(self, member: int, where: Where) -> Array:
        """A member's scores of some rows."""
        if not len(where):
            return np.empty(0)
        layers = [[tensor[member : member + 1] for tensor in layer] for layer in self.mean]
        parts = [where[at : at + SCORED_ROWS] for at in range(0, len(where), SCORED_ROWS)]
        tensors = [forward(layers, self.given.rows(part))[0].double().cpu() for part in parts]
        scores = np.asarray(torch.cat(tensors).numpy())
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


def begin(sizes: list[int], plan: TrainingPlan, device: Any) -> Layers:
    """Random weights and biases as in torch's own layers, of size up to 1 / sqrt(inputs).

    With biases of zero all units have their kink at the mean of the rows: with six columns
    (mammography) that cost .02 of average precision.
    """
    random, layers = torch.Generator().manual_seed(plan.seed), []
    for inputs, outputs in itertools.pairwise(sizes):
        numbers = torch.rand(plan.n_members, inputs + 1, outputs, generator=random)
        numbers = (2.0 * numbers - 1.0) / math.sqrt(inputs)
        layer = numbers[:, :-1].clone(), numbers[:, -1:].clone()
        layers.append([tensor.to(device).requires_grad_() for tensor in layer])
    return layers


def copied(layers: Layers) -> Layers:
    """A copy that no step changes."""
    return [[tensor.detach().clone() for tensor in layer] for layer in layers]


def pairwise(positives: Scored, negatives: Scored, top: float) -> Tensor:
    """Sum of the pairwise losses of the members; 0 for one without rows of a class."""
    has_both = (positives.weight.sum(-1) > 0) & (negatives.weight.sum(-1) > 0)
    positives, negatives = (
        Scored(side.scores, torch.where(has_both[:, None], side.weight, 1.0))
        for side in (positives, negatives)
    )
    return (pairwise_loss(positives, negatives, top, SMOOTHING) * has_both).sum()
