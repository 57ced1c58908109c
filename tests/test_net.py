"""TopPushNet: scikit-learn's contract, what it stores, few rows, interrupts, and what it learns."""

import pickle
import subprocess
import sys
from itertools import count

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

torch = pytest.importorskip("torch", reason="needs torch, the extra [gpu]")
from toppush import TopPushNet, metrics  # noqa: E402
from toppush.models import net_training  # noqa: E402
from toppush.models.net_training import Shuffled, random_folds  # noqa: E402
from toppush.thresholds.probabilities import Calibration  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")
F1 = "predict maximises F1, so it marks rows with probabilities below 1/2 too"
PLAIN = np.ndarray | float | int | Calibration | None
DRAWN = "rows are drawn into batches and folds, so a weight is not a number of copies"


def small(**params):
    return TopPushNet(**{"n_members": 2, "hidden": (16, 8), "max_steps": 100, **params})


@pytest.mark.sampled(8)
@parametrize_with_checks(
    [small(learning_rate=1e-2)],
    expected_failed_checks=lambda estimator: {
        "check_classifiers_train": F1,
        "check_sample_weight_equivalence_on_dense_data": DRAWN,
        "check_sample_weight_equivalence_on_sparse_data": DRAWN,
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def ring(rng, n_rows=600, n_features=4):
    """Positives, one in ten, lie around the origin: no line tells them apart."""
    y = np.arange(n_rows) % 10 == 0
    X = rng.normal(size=(n_rows, n_features))
    X[y] *= 0.25
    return X, y


@pytest.fixture
def rows(rng):
    return ring(rng)


@pytest.fixture
def fitted(rows):
    return small().fit(*rows)


def test_it_learns_what_no_line_can(rng):
    model = small(max_steps=300, learning_rate=3e-3).fit(*ring(rng))
    X, y = ring(rng)
    assert model.score(X, y) > 0.6
    assert metrics.average_precision(y, -X[:, 0]) < 0.3


@pytest.mark.parametrize("loss", ["pairwise", "cross_entropy"])
def test_a_fit_repeats_bit_for_bit(loss, rows):
    X, y = rows
    one, other, unlike = (
        small(loss=loss, max_steps=30, random_state=seed).fit(X, y).decision_function(X)
        for seed in (1, 1, 2)
    )
    assert_array_equal(one, other)
    assert (one != unlike).any()


def test_everything_fitted_is_plain(fitted):
    for name, value in vars(fitted).items():
        parts = value if isinstance(value, list) else [value]
        if name.endswith("_"):
            assert all(isinstance(part, PLAIN) for part in parts), name
    assert all(array.dtype == np.float32 for array in [*fitted.weights_, *fitted.biases_])


def test_scores_are_those_of_torch(fitted, rows):
    X, _ = rows
    units = torch.tensor(np.arcsinh((X - fitted.mean_) / fitted.scale_))
    layers = [
        [torch.tensor(weights).double(), torch.tensor(biases)[:, None].double()]
        for weights, biases in zip(fitted.weights_, fitted.biases_, strict=True)
    ]
    scores = net_training.forward(layers, units).numpy() - fitted.offsets_[:, None]
    assert_allclose(
        fitted.decision_function(X), scores.mean(axis=0) - fitted.threshold_, rtol=1e-9, atol=1e-12
    )


@pytest.mark.long
def test_scores_need_no_torch(fitted, rows, tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps((fitted, rows[0])))
    script = (
        "import pickle, sys;"
        f"model, X = pickle.loads(open({str(tmp_path / 'model.pkl')!r}, 'rb').read());"
        "print(repr(float(model.decision_function(X).sum())), 'torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    total, with_torch = ran.stdout.split()
    assert float(total) == pytest.approx(fitted.decision_function(rows[0]).sum(), rel=1e-9)
    assert with_torch == "False"


def test_a_fit_without_torch_names_the_extra(rows, monkeypatch):
    monkeypatch.delitem(sys.modules, "toppush.models.net_training")
    monkeypatch.delattr("toppush.models.net_training")
    monkeypatch.setitem(sys.modules, "toppush.torch", None)
    monkeypatch.setitem(sys.modules, "toppush.models.net_training", None)
    with pytest.raises(ImportError, match=r"'toppush\[gpu\]'"):
        small().fit(*rows)


def test_sparse_rows_are_dense_rows(rows, monkeypatch):
    X, y = rows
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    dense, csr = (small(max_steps=30).fit(kind, y) for kind in (X, sparse.csr_array(X)))
    assert_allclose(dense.decision_function(X), csr.decision_function(sparse.csr_array(X)))
    monkeypatch.setattr("toppush.models.net_training.HELD_ENTRIES", 0)
    in_batches = small(max_steps=30).fit(sparse.csr_array(X), y)
    assert_array_equal(in_batches.decision_function(X), csr.decision_function(X))


def test_out_of_fold_scores_are_by_members_that_left_the_row_out(rng, monkeypatch):
    """Labels are noise, and training goes on: what was seen is learnt, what was not is not."""
    evaluations = count()
    monkeypatch.setattr(net_training.NetTraining, "evaluate", lambda self: next(evaluations))
    X, y = rng.normal(size=(200, 10)), np.arange(200) % 2 == 0
    model = small(n_members=4, max_steps=200, hidden=(64,), learning_rate=1e-2)
    assert model.fit(X, y).score(X, y) > 0.9
    assert metrics.auc(y, model.out_of_fold_) < 0.65


def test_folds_hold_both_classes(rng):
    for n_pos, n_folds in ((1, 1), (2, 2), (5, 5), (30, 8)):
        positive = np.arange(200) < n_pos
        folds = random_folds(positive, 8, rng)
        assert set(folds) == set(folds[positive]) == set(folds[~positive]) == set(range(n_folds))


def test_draws_take_every_row_before_any_again(rng):
    rows = Shuffled(np.arange(10), 5, rng)
    assert sorted([*rows.draw(), *rows.draw()]) == list(range(10))
    assert len(Shuffled(np.arange(3), 5, rng).draw()) == 3


@pytest.mark.parametrize("n_pos", [1, 2, 3])
@pytest.mark.parametrize("loss", ["pairwise", "cross_entropy"])
def test_a_handful_of_positives_is_enough(n_pos, loss, rng):
    X, y = rng.normal(size=(80, 3)), np.arange(80) < n_pos
    X[y] += 6.0
    model = small(loss=loss, n_members=3, learning_rate=1e-2).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.score(X, y) == 1.0
    assert (model.out_of_fold_ is None) == (n_pos == 1)


def test_rows_of_weight_zero_are_out(rows, rng):
    X, y = rows
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
    model = small(max_steps=30).fit(np.where(weight[:, None], X, 1e6), y, weight)
    assert_array_equal(np.isnan(model.out_of_fold_), weight == 0.0)
    without = small(max_steps=30).fit(X[weight > 0], y[weight > 0])
    assert_array_equal(model.decision_function(X), without.decision_function(X))
    with pytest.raises(ValueError, match=r"sample_weight.*0"):
        small().fit(X, y, np.where(y, 0.0, 1.0))


def test_weights_move_the_scores_of_rows(rows):
    """Half of the positives, those on the left, weigh much more."""
    X, y = rows
    left = y & (X[:, 0] < 0.0)
    plain, pulled = (
        small(max_steps=100).fit(X, y, weight).decision_function(X)
        for weight in (np.ones(len(y)), np.where(left, 100.0, 1.0))
    )
    assert (
        pulled[left].mean() - pulled[y & ~left].mean()
        > plain[left].mean() - plain[y & ~left].mean()
    )


def test_columns_of_any_size(rows):
    X, y = rows
    far = X * np.array([1e-6, 1.0, 1e6, 1.0]) + np.array([0.0, 1e4, 0.0, 0.0])
    far[:, 3] = 7.0
    near = X.copy()
    near[:, 3] = 7.0
    found = [small(max_steps=50).fit(kind, y).decision_function(kind) for kind in (near, far)]
    assert_allclose(found[0], found[1], atol=1e-2)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"hidden": (16, 0)}, "widths.*1"),
        ({"hidden": (1 << 26, 8)}, "lower hidden"),
        ({"n_members": 1}, "n_members"),
        ({"top": 0.0}, "top"),
    ],
)
def test_what_cannot_be_meant_is_refused(change, words, rows):
    with pytest.raises(ValueError, match=words):
        small(**change).fit(*rows)


def test_a_divergence_is_told(rows):
    with pytest.raises(ValueError, match=r"diverged.*Lower learning_rate"):
        small(learning_rate=1e30).fit(*rows)


def test_gaps_are_refused(rows):
    X, y = rows
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        small().fit(X, y)


def test_tensors_are_refused(rows):
    X, y = rows
    with pytest.raises(ValueError, match=r"X.*torch.*tensor"):
        small().fit(torch.tensor(X), y)


def test_an_interrupt_leaves_the_last_fit(fitted, rows, monkeypatch):
    X, y = rows
    before, n_jobs = fitted.decision_function(X), torch.get_num_threads()

    def interrupted(self, done):
        raise KeyboardInterrupt

    monkeypatch.setattr(net_training.NetTraining, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(n_jobs=2).fit(X[:, :2], y)
    assert torch.get_num_threads() == n_jobs
    assert fitted.n_features_in_ == X.shape[1]
    assert_array_equal(fitted.decision_function(X), before)


def test_progress_is_told_on_stderr(rows, capsys):
    small(max_steps=50, verbose=1).fit(*rows)
    told = capsys.readouterr()
    assert told.err.splitlines()[-1].startswith("step   50  held-out AP")
    assert not told.out


def test_torch_keeps_its_own_random_numbers(rows):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    clone(small(max_steps=5)).fit(*rows)
    assert_array_equal(torch.rand(2), expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_finds_as_good_a_ranking(rows):
    X, y = rows
    here, there = (small(device=device).fit(X, y).score(X, y) for device in (None, "cuda"))
    assert there == pytest.approx(here, abs=0.05)
