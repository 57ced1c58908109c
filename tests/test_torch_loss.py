"""The loss for training loops: against slow code over all pairs, with its memory, over ranks."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import expit

torch = pytest.importorskip("torch", reason="needs torch, the extra [gpu]")
from torch import distributed, multiprocessing, nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import toppush.torch as losses  # noqa: E402
from toppush.torch import PairLoss, Scored, TopPushLoss, top_level, top_parts  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")
tops = pytest.mark.parametrize("top", [0.01, 0.1, 0.5, 1.0])


def slow_parts(negatives, weight, top, smoothing):
    if top == 1.0:
        return weight / weight.sum()

    def excess(level):
        return weight @ expit((negatives - level) / smoothing) - top * weight.sum()

    level = brentq(excess, negatives.min() - 100.0, negatives.max() + 100.0, xtol=1e-13)
    part = weight * expit((negatives - level) / smoothing)
    return part / part.sum()


def slow_loss(scores, labels, weight, top=0.1, smoothing=0.5):
    """The loss and its slope, pair by pair, with the parts held fixed."""
    positives, negatives = np.flatnonzero(labels), np.flatnonzero(~labels)
    part = slow_parts(scores[negatives], weight[negatives], top, smoothing)
    value, slope = 0.0, np.zeros(len(scores))
    for i in positives:
        for j, share in zip(negatives, part, strict=True):
            amount = weight[i] / weight[positives].sum() * share
            value += amount * np.logaddexp(0.0, scores[j] - scores[i])
            slope[i] -= amount * expit(scores[j] - scores[i])
            slope[j] += amount * expit(scores[j] - scores[i])
    return value, slope


@pytest.fixture
def batch(rng):
    """Scores, labels and weights of 60 rows, a quarter positive."""
    labels = rng.random(60) < 0.25
    return 3.0 * rng.normal(size=60) + labels, labels, rng.random(60)


def value_and_slope(loss, scores, *more):
    scores = scores.clone().requires_grad_()
    value = loss(scores, *more)
    value.backward()
    return value.item(), scores.grad


@tops
def test_loss_and_slope_are_those_of_all_pairs(top, batch):
    value, slope = value_and_slope(TopPushLoss(top, memory=0), *map(torch.tensor, batch))
    expected = slow_loss(*batch, top)
    assert value == pytest.approx(expected[0], rel=1e-9)
    assert_allclose(slope.numpy(), expected[1], rtol=1e-8, atol=1e-15)


@pytest.mark.parametrize("top", [0.1, 1.0])
def test_slope_is_that_of_the_trees_objective(top, batch):
    objectives = pytest.importorskip("toppush.objectives", reason="needs toppush.objectives")
    scores, labels, weight = batch
    _, slope = value_and_slope(TopPushLoss(top, memory=0), *map(torch.tensor, batch))
    rows = objectives.label_rows(labels.astype(int), weight)
    found = objectives.pairwise_gradients(scores, rows, top=top).gradient
    assert_allclose(slope * weight[labels].sum(), found, rtol=1e-6, atol=1e-12)


def test_gradcheck(batch):
    scores, labels = torch.tensor(batch[0], requires_grad=True), torch.tensor(batch[1])
    whole = TopPushLoss(top=1.0, memory=0)
    assert torch.autograd.gradcheck(lambda scores: whole(scores, labels), scores)
    part = top_parts(Scored(scores[~labels], torch.ones_like(scores[~labels])), 0.1, 0.5)
    weight = torch.full_like(scores[labels], 1.0 / int(labels.sum()))
    pair_loss = lambda scores: PairLoss.apply(scores[labels], scores[~labels], weight, part)  # noqa: E731
    assert torch.autograd.gradcheck(pair_loss, scores)


def test_several_lists_at_once(rng):
    positives, negatives = (
        torch.tensor(rng.normal(size=(3, 4))),
        torch.tensor(rng.normal(size=(3, 9))),
    )
    weights = torch.tensor(rng.random((3, 13)))
    lists = Scored(positives, weights[:, :4]), Scored(negatives, weights[:, 4:])
    found = losses.pairwise_loss(*lists, 0.3, 0.5)
    for at in range(3):
        one = [Scored(each.scores[at], each.weight[at]) for each in lists]
        assert found[at] == pytest.approx(float(losses.pairwise_loss(*one, 0.3, 0.5)), rel=1e-12)


def test_how_many_pairs_are_held_changes_nothing(batch, monkeypatch):
    given = [torch.tensor(part) for part in batch]
    value, slope = value_and_slope(TopPushLoss(memory=0), *given)
    monkeypatch.setattr(losses, "PAIRS", 100)
    again, again_slope = value_and_slope(TopPushLoss(memory=0), *given)
    assert again == pytest.approx(value, rel=1e-14)
    assert_allclose(again_slope, slope, rtol=1e-13)


@pytest.mark.parametrize("spread", [0.0, 1e-3, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("top", [1e-4, 0.01, 0.5, 0.999])
def test_level_leaves_the_share_above(spread, top, rng):
    scores = torch.tensor(50.0 + spread * rng.normal(size=500))
    weight = torch.tensor(rng.random(500))
    level = top_level(Scored(scores, weight), top, 0.5)
    share = weight @ torch.sigmoid((scores - level) / 0.5) / weight.sum()
    assert float(share) == pytest.approx(top, rel=1e-9)


def test_a_shift_and_an_order_change_nothing(batch, rng):
    scores, labels, weight = map(torch.tensor, batch)
    loss, order = TopPushLoss(memory=0), torch.tensor(rng.permutation(len(scores)))
    value, slope = value_and_slope(loss, scores, labels, weight)
    moved, moved_slope = value_and_slope(loss, scores[order] + 7.0, labels[order], weight[order])
    assert moved == pytest.approx(value, rel=1e-12)
    assert_allclose(moved_slope, slope[order], rtol=1e-9, atol=1e-16)
    assert abs(float(slope.sum())) < 1e-15


def test_a_weight_is_a_number_of_copies(batch):
    scores, labels, _ = map(torch.tensor, batch)
    counts = torch.arange(len(scores)) % 3
    copies = torch.repeat_interleave(torch.arange(len(scores)), counts)
    loss = TopPushLoss(memory=0)
    assert float(loss(scores, labels, counts)) == pytest.approx(
        float(loss(scores[copies], labels[copies])), rel=1e-12
    )


# The memory.


def test_memory_holds_the_last_scores_in_training_alone():
    loss = TopPushLoss(memory=5)
    labels = torch.tensor([1, 0, 0])
    for step in range(4):
        loss(torch.tensor([100.0, 10.0 * step, 10.0 * step + 1], requires_grad=True), labels)
    assert sorted(loss.negatives.scores.tolist()) == [11.0, 20.0, 21.0, 30.0, 31.0]
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    scores = torch.tensor([0.0, 1.0, 2.0])
    with torch.no_grad():
        without = loss(scores, labels)
    alone = TopPushLoss(memory=0)(scores, labels)
    assert float(loss.eval()(scores, labels)) == float(without) == float(alone)
    assert all(torch.equal(value, before[name]) for name, value in loss.state_dict().items())
    loss.reset()
    assert not any(value.any() for value in loss.state_dict().values())


def test_memory_travels_with_the_state(batch):
    scores, labels, weight = map(torch.tensor, batch)
    one, other = TopPushLoss(memory=32), TopPushLoss(memory=32)
    value_and_slope(one, scores, labels, weight)
    other.load_state_dict(one.state_dict())
    found = [value_and_slope(loss, scores + 1.0, labels, weight) for loss in (one, other)]
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])


def test_what_is_no_number_is_not_remembered():
    loss = TopPushLoss(memory=4)
    value = loss(
        torch.tensor([1.0, math.nan, math.inf, 0.5], requires_grad=True), torch.tensor([1, 0, 0, 0])
    )
    assert not math.isfinite(value.item())
    assert loss.negatives.scores.tolist() == [0.5, 0.0, 0.0, 0.0]
    assert math.isfinite(value_and_slope(loss, torch.tensor([1.0, 0.0]), torch.tensor([1, 0]))[0])


@pytest.mark.parametrize("label", [0, 1])
def test_a_batch_of_one_class_asks_the_memory(label):
    loss, labels = TopPushLoss(memory=8), torch.full((4,), label)
    scores = torch.arange(4.0)
    value, slope = value_and_slope(loss, scores, labels)
    assert value == 0.0
    assert not slope.any()
    value_and_slope(loss, scores, 1 - labels)
    value, slope = value_and_slope(loss, scores, labels)
    assert value > 0.0
    assert bool((slope < 0.0 if label else slope > 0.0).all())


def test_an_empty_batch_is_nothing():
    value, slope = value_and_slope(TopPushLoss(), torch.zeros(0), torch.zeros(0))
    assert value == 0.0
    assert slope.shape == (0,)


def test_small_batches_estimate_the_gradient_of_all_rows(rng):
    """Two of a hundred are positive, so many batches of 64 hold none."""
    labels = torch.tensor(np.arange(2000) % 50 == 0)
    rows = torch.tensor(rng.normal(size=(2000, 3)) + 1.5 * labels.numpy()[:, None])
    weights = torch.tensor([1.0, 0.5, -0.5], dtype=torch.float64, requires_grad=True)
    TopPushLoss(memory=0)(rows @ weights, labels).backward()
    expected, total, loss = weights.grad.clone(), torch.zeros(3).double(), TopPushLoss(memory=500)
    for step in range(240):
        some, weights.grad = torch.tensor(rng.choice(2000, 64, replace=False)), None
        loss(rows[some] @ weights, labels[some]).backward()
        total += weights.grad * (step >= 40)
    assert torch.linalg.norm(total / 200 - expected) < 0.1 * torch.linalg.norm(expected)


# What scores are.


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype, batch):
    scores, labels, _ = map(torch.tensor, batch)
    scores = scores.to(dtype)
    loss = TopPushLoss(memory=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = loss(scores, labels)
    assert found.dtype == torch.float32
    assert float(found) == float(loss(scores.float(), labels))


def test_a_column_is_a_vector(batch):
    scores, labels, weight = map(torch.tensor, batch)
    loss = TopPushLoss(memory=0)
    one = loss(scores, labels, weight)
    assert float(loss(scores[:, None], labels[:, None].float(), weight[:, None])) == float(one)


@pytest.mark.parametrize(
    "scores, labels, words",
    [
        (torch.zeros(4, 2), torch.zeros(4), "scores"),
        (torch.zeros(4), torch.zeros(3), "4 scores.*3 labels"),
        (torch.zeros(4), torch.tensor([1, -1, 1, -1]), "labels.*0.*1"),
    ],
)
def test_what_cannot_be_meant_is_refused(scores, labels, words):
    with pytest.raises(ValueError, match=words):
        TopPushLoss()(scores, labels)


@pytest.mark.parametrize("wrong", [{"top": 0.0}, {"top": 1.5}, {"smoothing": 0.0}, {"memory": -1}])
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(
        ValueError, match=f"{next(iter(wrong))} .*found {next(iter(wrong.values()))}"
    ):
        TopPushLoss(**wrong)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
def test_a_compiled_step_is_the_same_step(batch):
    rows, model = torch.tensor(batch[0])[:, None], nn.Linear(1, 1).double()
    labels, plain, compiled = torch.tensor(batch[1]), TopPushLoss(memory=32), TopPushLoss(memory=32)
    step = torch.compile(lambda rows: compiled(model(rows), labels), backend="eager")
    for _ in range(2):
        assert step(rows).item() == pytest.approx(plain(model(rows), labels).item(), rel=1e-12)
    assert torch.equal(plain.negatives.scores, compiled.negatives.scores)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_memory_follows_the_scores_to_the_gpu(batch):
    scores, labels, weight = map(torch.tensor, batch)
    here, there = TopPushLoss(memory=32), TopPushLoss(memory=32)
    for _ in range(2):
        one = value_and_slope(here, scores, labels, weight)
        other = value_and_slope(there, *(part.cuda() for part in (scores, labels, weight)))
        assert one[0] == pytest.approx(other[0], rel=1e-9)
        assert_allclose(one[1], other[1].cpu(), rtol=1e-7, atol=1e-14)


# Several ranks.

SIZES = [[5, 9, 1, 7], [3, 0, 8, 8], [6, 6, 6, 6]]
"""Rows of each rank in each step; ranks differ, and one may hold none."""


def rows_of_step(step, n_ranks):
    rng = np.random.default_rng(step)
    sizes = SIZES[step][:n_ranks]
    labels = rng.random(sum(sizes)) < 0.3
    rows = rng.normal(size=(sum(sizes), 3)) + labels[:, None]
    cuts = np.cumsum(sizes)[:-1]
    return [(torch.tensor(x), torch.tensor(y)) for x, y in
            zip(np.split(rows, cuts), np.split(labels, cuts), strict=True)]  # fmt: skip


def gradients(model, loss, batches):
    found = []
    for rows, labels in batches:
        model.zero_grad()
        loss(model(rows), labels).backward()
        found.append([parameter.grad.clone() for parameter in model.parameters()])
    return found


def a_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()


def train_on_rank(rank, n_ranks, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=n_ranks
    )
    batches = [rows_of_step(step, n_ranks)[rank] for step in range(len(SIZES))]
    loss = TopPushLoss(memory=16)
    found = gradients(DistributedDataParallel(a_model()), loss, batches)
    torch.save((found, loss.state_dict()), f"{folder}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.long
@pytest.mark.parametrize("n_ranks", [2, 4])
def test_ranks_find_the_gradient_of_one_process(n_ranks, tmp_path):
    multiprocessing.spawn(train_on_rank, (n_ranks, str(tmp_path)), nprocs=n_ranks)
    loss, whole = TopPushLoss(memory=16), []
    for step in range(len(SIZES)):
        parts = rows_of_step(step, n_ranks)
        whole.append(tuple(torch.cat(each) for each in zip(*parts, strict=True)))
    expected = gradients(a_model(), loss, whole)
    for rank in range(n_ranks):
        found, state = torch.load(tmp_path / f"{rank}.pt")
        for one, other in zip(found, expected, strict=True):
            for here, there in zip(one, other, strict=True):
                assert_allclose(here, there, rtol=1e-10, atol=1e-14)
        assert all(torch.equal(value, loss.state_dict()[name]) for name, value in state.items())
