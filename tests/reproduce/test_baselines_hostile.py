"""The baselines on data that nobody would wish for: an answer with honest bounds, or a sentence.

Ties, constants, zeros, a single row of a class, entries of 1e-150 to 1e150, offsets, heavy tails,
more features than rows, sample weights of every size: no crash, no NaN, bounds in order, and a
warning whenever a fit did not end where it was meant to.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from reproduce.baselines import (
    MAPSVM,
    OWPC,
    AccuracyAtTop,
    CostSensitiveSVM,
    InfinitePush,
    LogisticRanker,
    PartialAUCSVM,
    PNormPush,
    RankSVM,
    SparseInfinitePush,
)
from reproduce.baselines.pairs import PAIR_LOSSES
from toppush import DegenerateWarning, Status, on_disk
from toppush.baselines.ranker import Task, WeightedRanker
from toppush.designs import Scaling
from toppush.designs.local import USUAL, power_of_two, well_scaled

pytestmark = pytest.mark.sampled(6)

N_ROWS = 24

LIBLINEAR = {"logistic ranker": LogisticRanker(), "cost-sensitive": CostSensitiveSVM()}
CERTIFIED = {
    "rank svm": RankSVM(max_iter=40),
    "map svm": MAPSVM(max_iter=40),
    "partial area": PartialAUCSVM(max_iter=40),
    "partial area of a band": PartialAUCSVM(fpr_low=0.3, fpr_high=0.9, max_iter=40),
    "owpc": OWPC(max_iter=40),
    "accuracy at the top": AccuracyAtTop(candidates=6, max_iter=30),
    "infinite push": InfinitePush(0.1, max_iter=60),
    "infinite push, admm": InfinitePush(0.1, loss="logistic", solver="admm", max_iter=60),
    "infinite push, published": InfinitePush(
        0.1, loss="exponential", solver="published", max_iter=60
    ),
    "infinite push, quadratic": InfinitePush(0.1, loss="truncated_quadratic", max_iter=30),
    "sparse infinite push": SparseInfinitePush(0.1, max_iter=60),
    "elastic infinite push": SparseInfinitePush(0.1, l1_ratio=0.5, loss="exponential", max_iter=60),
    "p-norm push": PNormPush(0.1, max_iter=60),
    "p-norm push, quadratic": PNormPush(0.1, loss="truncated_quadratic", p=64, max_iter=60),
    "p-norm push, logistic": PNormPush(0.1, loss="logistic", p=1, max_iter=60),
}
RANKERS = {**CERTIFIED, **LIBLINEAR}


def two_clouds():
    rng = np.random.default_rng(0)
    y = (np.arange(N_ROWS) % 3 == 0).astype(int)
    return rng, rng.normal(size=(N_ROWS, 3)) + y[:, None], y


def hostile_rows():
    """Names with X and y."""
    rng, X, y = two_clouds()
    one = (np.arange(N_ROWS) == 3).astype(int)
    yield from {
        "ties": (np.round(X), y),
        "a 0/1 column": (1.0 * (rng.random((N_ROWS, 1)) > 0.5), y),
        "0/1 columns": (1.0 * (rng.random((N_ROWS, 4)) > 0.5), y),
        "the label as a column": (y[:, None] * 1.0, y),
        "constants": (np.full((N_ROWS, 2), 3.0), y),
        "zeros": (np.zeros((N_ROWS, 2)), y),
        "sparse zeros": (sparse.csr_array((N_ROWS, 2)), y),
        "sparse constants": (sparse.csr_array(np.full((N_ROWS, 2), 3.0)), y),
        "columns of zeros": (np.hstack([np.zeros((N_ROWS, 2)), X]), y),
        "one positive": (X, one),
        "one negative": (X, 1 - one),
        "one of each": (X[2:4], one[2:4]),
        "offset 1e6": (X + 1e6, y),
        "offset 1e9": (X + 1e9, y),
        "float32": (X.astype(np.float32), y),
        "float32, offset 1e3": ((X + 1e3).astype(np.float32), y),
        "float32 x 1e30": ((X * 1e30).astype(np.float32), y),
        "float32 x 1e-30": ((X * 1e-30).astype(np.float32), y),
        "heavy tails": (rng.standard_cauchy((N_ROWS, 3)) + 2 * y[:, None], y),
        "rows of 1e-6 to 1e6": (X * 10.0 ** rng.uniform(-6, 6, (N_ROWS, 1)), y),
        "columns of 1e-8 to 1e8": (X * [1e-8, 1.0, 1e8], y),
        "more features than rows": (rng.normal(size=(N_ROWS, 60)) + y[:, None], y),
    }.items()
    for size in (1e-150, 1e-100, 1e-30, 1e-8, 1e8, 1e30, 1e80, 1e100, 1e150):
        yield f"x {size:g}", (X * size, y)
    yield "sparse x 1e100", (sparse.csr_array(X * 1e100), y)


ROWS = dict(hostile_rows())
# Entries that LIBLINEAR cannot be given: it may take forever, and not be interrupted.
TOO_LARGE = {"x 1e+30", "x 1e+80", "x 1e+100", "x 1e+150", "sparse x 1e100", "float32 x 1e30"}


def hostile_weights():
    rng = np.random.default_rng(1)
    return {
        "zeros": np.where(np.arange(N_ROWS) % 4, 1.0, 0.0),
        "1e-12": np.full(N_ROWS, 1e-12),
        "1e12": np.full(N_ROWS, 1e12),
        "1e-12 to 1e12": 10.0 ** rng.uniform(-12, 12, N_ROWS),
    }


def fit_and_judge(ranker, X, y, **weights):
    """Fit, and assert all that holds whatever the data are; the fitted ranker."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranker.fit(X, y, **weights)
    kinds = {warning.category for warning in caught}
    assert kinds <= {ConvergenceWarning, DegenerateWarning}, [str(w.message) for w in caught]
    assert np.isfinite(ranker.coef_).all()
    assert np.isfinite(ranker.decision_function(X)).all()
    assert set(ranker.predict(X)) <= {0, 1}
    if hasattr(ranker, "solution_"):
        judge_record(ranker, kinds)
    return ranker


def judge_record(ranker, kinds):
    record = ranker.solution_
    assert 0.0 <= record.lower <= record.upper < np.inf
    assert record.status.success or ConvergenceWarning in kinds
    if record.status is Status.CONVERGED and not isinstance(ranker, AccuracyAtTop):
        assert record.relative_gap <= ranker.tol
    bounds = np.array([entry[:2] for entry in record.history])
    assert np.isfinite(bounds).all()


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", CERTIFIED)
def test_hostile_rows(name, rows):
    X, y = ROWS[rows]
    if name == "partial area of a band" and np.sum(y == 0) == 1:
        with pytest.raises(ValueError, match="1 negatives"):
            CERTIFIED[name].fit(X, y)
    else:
        fit_and_judge(CERTIFIED[name], X, y)


@pytest.mark.parametrize("rows", sorted(ROWS.keys() - TOO_LARGE))
@pytest.mark.parametrize("name", LIBLINEAR)
def test_hostile_rows_for_liblinear(name, rows):
    fit_and_judge(LIBLINEAR[name], *ROWS[rows])


@pytest.mark.parametrize("weights", hostile_weights())
@pytest.mark.parametrize(
    "name", [name for name, ranker in RANKERS.items() if isinstance(ranker, WeightedRanker)]
)
def test_hostile_weights(name, weights):
    _, X, y = two_clouds()
    fit_and_judge(RANKERS[name], X, y, sample_weight=hostile_weights()[weights])


@pytest.mark.parametrize("loss", PAIR_LOSSES)
def test_infinite_push_on_a_column_of_zeros_and_ones(loss):
    """The classes' means agree in some of these, which leaves equal duals without curvature."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n_rows = int(rng.integers(4, 30))
        X, y = 1.0 * (rng.random((n_rows, 1)) > 0.5), rng.permutation(np.arange(n_rows) % 2)
        ranker = fit_and_judge(InfinitePush(1.0, loss=loss), X, y)
        assert ranker.solution_.status is Status.CONVERGED


@pytest.mark.parametrize("solver", ["gradient", "admm", "published"])
@pytest.mark.parametrize("loss", PAIR_LOSSES)
def test_infinite_push_on_rows_of_zeros_proves_that_zero_is_optimal(loss, solver):
    with pytest.warns(DegenerateWarning, match="better"):
        ranker = InfinitePush(1.0, loss=loss, solver=solver).fit(np.zeros((8, 2)), [0, 1] * 4)
    at_zero = float(PAIR_LOSSES[loss].value(np.zeros(1))[0])
    assert ranker.solution_.upper == pytest.approx(at_zero)
    assert ranker.solution_.lower == pytest.approx(at_zero, rel=1e-3)
    assert not ranker.coef_.any()


# The units of X


SCALED = {
    "rank svm": lambda unit: (RankSVM(10.0 / unit**2), unit**2),
    "accuracy at the top": lambda unit: (AccuracyAtTop(1.0 / unit**2), unit**2),
    "infinite push": lambda unit: (InfinitePush(1.0 * unit**2), 1.0),
    "sparse infinite push": lambda unit: (SparseInfinitePush(0.1 * unit), 1.0),
    "p-norm push": lambda unit: (PNormPush(1.0 * unit**2), 1.0),
}


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@pytest.mark.parametrize("exponent", [-100, 100])
@pytest.mark.parametrize("name", SCALED)
def test_rows_in_other_units_are_the_problem_of_another_penalty(name, exponent):
    """Huge and tiny rows are worked on as usual ones, and the answer is in their own units."""
    _, X, y = two_clouds()
    (plain, _), unit = SCALED[name](1.0), 2.0**exponent
    scaled, by = SCALED[name](unit)
    plain.fit(X, y)
    scaled.fit(X * unit, y)
    assert scaled.solution_.upper * by == pytest.approx(plain.solution_.upper, rel=2e-3)
    assert scaled.solution_.lower * by == pytest.approx(plain.solution_.lower, rel=2e-3)
    size = np.abs(plain.coef_).max()
    assert_allclose(scaled.coef_ * unit, plain.coef_, atol=0.02 * size)


@pytest.mark.parametrize(
    "ranker",
    [RankSVM(), OWPC(), InfinitePush(), SparseInfinitePush(0.1, l1_ratio=0.5), PNormPush()],
)
def test_an_offset_of_all_rows_changes_nothing(ranker):
    _, X, y = two_clouds()
    plain = ranker.fit(X, y).solution_
    far_off = ranker.fit(X + 2.0**30, y)
    assert far_off.solution_.upper == pytest.approx(plain.upper, rel=1e-3)
    assert far_off.decision_function(X + 2.0**30)[y == 0].max() == pytest.approx(0.0, abs=1e-5)


def test_the_scale_of_rows_is_a_power_of_two_or_one():
    for size in (1e-300, 1e-100, 3e-20, 7e11, 1e200):
        scale = power_of_two(size)
        assert np.frexp(scale)[0] == 0.5
        assert 0.5 <= scale * size < 1.0
    for size in (0.0, 1.0 / USUAL, 1.0, USUAL):
        assert power_of_two(size) == 1.0


def test_usual_rows_are_not_copied():
    X = two_clouds()[1]
    matrix = sparse.csr_array(X)
    assert np.shares_memory(well_scaled(X)[0], X)
    assert np.shares_memory(well_scaled(matrix)[0].data, matrix.data)


def test_a_penalty_out_of_range_is_refused():
    X, y = two_clouds()[1:]
    with pytest.raises(ValueError, match=r"X.*features"):
        PNormPush(1.0).fit(X * 1e200, y)
    task = Task(None, None, None, Scaling(2.0**-40), None)
    assert task.ridge(3.0) == 3.0 * 2.0**-80


# Rows that are elsewhere


@pytest.mark.parametrize("ranker", RANKERS.values(), ids=RANKERS)
def test_rows_that_are_elsewhere_are_refused_with_what_to_do(ranker, tmp_path):
    _, X, y = two_clouds()
    name = type(ranker).__name__
    np.save(tmp_path / "rows.npy", X)
    rows = on_disk.open(tmp_path / "rows.npy", memory_limit="1GiB")
    with pytest.raises(ValueError, match=f"{name} works on arrays.*rows on disk.*numpy.load"):
        ranker.fit(rows, y)
    dask_array = pytest.importorskip("dask.array", reason="needs Dask, the extra [dask]")
    with pytest.raises(ValueError, match=r"X.*Dask.*X.compute\(\).*TopPush"):
        ranker.fit(dask_array.from_array(X), y)
    with pytest.raises(ValueError, match=r"y.*Dask"):
        ranker.fit(X, dask_array.from_array(y))


def test_tensors_are_refused_with_what_to_do():
    torch = pytest.importorskip("torch", reason="needs torch, the extra [gpu]")
    _, X, y = two_clouds()
    with pytest.raises(ValueError, match=r"X.*torch.*tensor.*X.numpy\(force=True\)"):
        RankSVM().fit(torch.tensor(X), y)
