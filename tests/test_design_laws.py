"""One list of laws for every way to hold rows: the numbers are those of the plain array."""

import warnings
from functools import cache
from itertools import accumulate, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from holders import HOLDERS, VARIANTS, check_same, opened, small_parts, solved
from toppush import TopPush, TopPushCV, toppush_path
from toppush.designs import Block, Scaling
from toppush.designs.disk import rows as disk
from toppush.designs.rows import UNSCALED, MaskedRows, precise
from toppush.solvers import pairwise as pairwise_solver
from toppush.solvers.newton import interior_point

pytestmark = pytest.mark.sampled(5)

N_ROWS, N_COLUMNS = 240, 12


def values():
    """Classes that overlap; numbers of 24 bits, which float32 holds, many zeros, empty rows."""
    rng = np.random.default_rng(1410)
    positive = rng.random(N_ROWS) < 0.3
    X = rng.normal(size=(N_ROWS, N_COLUMNS)).astype(np.float32).astype(np.float64)
    X[positive, :4] += 2.0
    X[rng.random(X.shape) < 0.4] = 0.0
    X[[0, 5, 6, N_ROWS - 1]] = 0.0
    return X.astype(np.float32).astype(np.float64), positive


X, POSITIVE = values()
WEIGHT = np.random.default_rng(7).integers(0, 3, size=N_ROWS).astype(float)

every_holder = pytest.mark.parametrize("holder", HOLDERS, ids=lambda holder: holder.name)
every_fit = pytest.mark.parametrize(
    "holder",
    [
        pytest.param(one, id=one.name, marks=[pytest.mark.long] if one.name in VARIANTS else [])
        for one in HOLDERS
    ],
)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch):
    small_parts(monkeypatch)


@pytest.fixture
def held(holder, tmp_path, request):
    """X in the hands of the holder; what that needs is started, or the test skips."""
    if holder.needs == "distributed":
        request.getfixturevalue("client")
    elif holder.needs == "torch":
        request.getfixturevalue("one_torch_thread")
    return holder.held(X, tmp_path)


@pytest.fixture
def design(holder, held):
    with opened(held, POSITIVE, **holder.options) as design:
        yield design


def precision(holder):
    return np.abs(X).sum() * (1e-5 if holder.is_single else 1e-13)


def to_here(values):
    """As a NumPy array, computed if it is lazy."""
    return np.asarray(values.compute() if hasattr(values, "compute") else values)


# Rows that hold the same numbers in the same order. They and what asks them are found by name,
# because questions may travel.


def _all(rows):
    return rows.arrays.asarray(np.arange(rows.shape[0]))


def _twice_reversed(rows):
    back = rows.arrays.asarray(np.arange(rows.shape[0])[::-1].copy())
    return rows.subset(back).subset(back)


def _halves(rows):
    half, whole = rows.shape[0] // 2, _all(rows)
    return rows.subset(whole[:half]).stacked(rows.subset(whole[half:]))


def _without_copy(rows):
    return MaskedRows(rows, _all(rows))


COPIES = {
    "rows": lambda rows: rows,
    "reversed twice": _twice_reversed,
    "halves": _halves,
    "without a copy": _without_copy,
    "in float64": lambda rows: rows.subset(_all(rows)).in_double(),
    "precise": lambda rows: precise(rows, UNSCALED),
    "exact": lambda rows: rows.subset(_all(rows)).exact(),
}


class Kept:
    """A block's part of a vector over the rows."""


def keep(block, part):
    block.work.of(Kept).part = part


def kept(block):
    return block.work.of(Kept).part


def scores_of(block, copy, weights):
    return COPIES[copy](block.rows).scores(weights)


def combination_of(block, copy):
    return COPIES[copy](block.rows).combine(kept(block))


def products_of(block, copy, weights):
    """X'(2u), X' diag(u) (X w - 0.5), and the same weighted Gram matrix over every other row."""
    rows, u = COPIES[copy](block.rows), kept(block)
    some = _all(rows)[::2]
    pulls = rows.combine_all(u, 2.0 * u)
    return pulls[0], pulls[1], rows.hessian_product(weights, u, 0.5), *rows.gram(some, u[::2])


def square_products_of(block, copy, weights):
    """Of the rows with every entry squared: X'u, and the sum of u times X w."""
    squares, u = COPIES[copy](block.rows).squared(), kept(block)
    return squares.combine(u), (u * squares.scores(weights)).sum() + 0.0


def scaled_products_of(block, weights):
    return COPIES["exact"](block.rows).scaled(weights).combine(kept(block))


def norms_of(block, copy):
    return COPIES[copy](block.rows).squared_norms()


def largest_of(block, copy):
    return (COPIES[copy](block.rows).largest(),)


def part_scores(block, weights):
    """Part by part, and the places that the parts have."""
    scores = block.arrays.zeros(block.rows.shape[0])
    for place, rows in block.rows.parts():
        scores[place] += rows.scores(weights)
    return scores


def scores_by_sides(block, weights):
    negatives = block.arrays.asarray(np.arange(block.n_neg))
    return block.join(
        block.positive_rows().scores(weights), block.negative_rows(negatives).scores(weights)
    )


def inner_products(block):
    """The squares of the rows' lengths, off the diagonal too."""
    exact = COPIES["exact"](block.rows)
    return (exact.inner_products(exact) ** 2).sum() + 0.0


def entries_of(block):
    every_other = _all(block.rows)[::2]
    return float(block.rows.count_entries(every_other)), float(block.rows.n_entries)


def sizes_of(block):
    return block.rows.shape[0], block.n_neg, block.first_negative


# Products.


@every_holder
def test_products(holder, design, rng):
    w, u, near = rng.normal(size=N_COLUMNS), rng.normal(size=N_ROWS), precision(holder)
    design.scatter(keep, u)
    for copy in COPIES:
        scores = design.gather(scores_of, copy, design.narrow(w))
        pull = design.widen(design.sum(combination_of, copy))
        assert scores.dtype == pull.dtype == np.float64
        assert_allclose(scores, X @ w, rtol=0, atol=near, err_msg=copy)
        assert_allclose(pull, X.T @ u, rtol=0, atol=near, err_msg=copy)
        assert scores @ u == pytest.approx(w @ pull, rel=0, abs=10 * near), copy  # adjoint


@every_holder
def test_further_products(holder, design, rng):
    w, u, near = rng.normal(size=N_COLUMNS), rng.normal(size=N_ROWS), precision(holder)
    bounds = np.cumsum([0, *(size for size, *_ in design.each(sizes_of))])
    every_other = np.concatenate([np.arange(*bound, 2) for bound in pairwise(bounds)])
    some, scale = X[every_other], u[every_other]
    right = (X.T @ u, 2.0 * X.T @ u, X.T @ (u * (X @ w - 0.5)), (some.T * scale) @ some,
             some.T @ scale)  # fmt: skip
    design.scatter(keep, u)
    scaled = design.widen(design.sum(scaled_products_of, design.narrow(w)))
    assert_allclose(scaled, w * (X.T @ u), rtol=0, atol=near)
    for copy in set(COPIES) - {"exact"}:
        found = design.sum(products_of, copy, design.narrow(w))
        for one, other in zip(found, right, strict=True):
            assert_allclose(design.arrays.to_host(one), other, rtol=0, atol=10 * near, err_msg=copy)
        pull, total = design.sum(square_products_of, copy, design.narrow(w))
        squares = np.square(X)
        assert_allclose(design.widen(pull), squares.T @ u, rtol=0, atol=near, err_msg=copy)
        assert total == pytest.approx(u @ squares @ w, rel=0, abs=10 * near), copy
        norms = design.gather(norms_of, copy)
        assert_allclose(norms, np.square(X).sum(axis=1), rtol=0, atol=near, err_msg=copy)
        (largest,) = design.max(largest_of, copy)
        assert largest in (np.abs(X).max(), np.abs(X).max() / 2.0)  # where entries are halves


@every_holder
def test_rows_in_parts_and_by_sides(holder, design, rng):
    w, near = rng.normal(size=N_COLUMNS), precision(holder)
    assert_allclose(design.gather(part_scores, design.narrow(w)), X @ w, rtol=0, atol=near)
    assert_allclose(design.gather(scores_by_sides, design.narrow(w)), X @ w, rtol=0, atol=near)


@every_holder
def test_inner_products(holder, design):
    lengths = np.cumsum([size for size, *_ in design.each(sizes_of)])
    expected = sum(np.square(part @ part.T).sum() for part in np.split(X, lengths[:-1]))
    assert float(design.sum(inner_products)) == pytest.approx(expected, rel=1e-9)


@every_holder
def test_entries_are_counted(holder, design):
    some, stored = design.sum(entries_of)
    assert 0 < some < stored <= max(X.size, 2 * np.count_nonzero(X))
    assert design.data_passes == 0.0
    design.gather(scores_of, "rows", design.narrow(np.ones(N_COLUMNS)))
    assert design.data_passes == pytest.approx(1.0)
    design.scatter(keep, np.ones(N_ROWS))
    design.sum(combination_of, "rows")
    assert design.data_passes == pytest.approx(2.0)


@every_holder
def test_rows_in_another_form(holder, design, rng):
    """scale x - centre, in float64; no centre where zeros are not stored."""
    w, shift = rng.normal(size=N_COLUMNS), rng.normal(size=N_COLUMNS)
    centre = design.narrow(shift) if all(design.each(can_center)) else None
    design.apply(Block.rescale, Scaling(0.25, centre))
    expected = 0.25 * X - (0.0 if centre is None else shift)
    scores = design.gather(scores_of, "rows", design.narrow(w))
    assert_allclose(scores, expected @ w, rtol=0, atol=1e-12)
    design.scatter(keep, scores)
    pull = design.widen(design.sum(combination_of, "rows"))
    assert_allclose(pull, expected.T @ scores, rtol=0, atol=1e-10)


def can_center(block):
    return block.rows.can_center


# Blocks.


@every_holder
def test_scatter_undoes_gather(design, rng):
    vector = rng.normal(size=N_ROWS)
    design.scatter(keep, vector)
    assert_array_equal(design.gather(kept), vector)


@every_holder
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_counts_and_costs(holder, held, weight):
    cost = np.ones(N_ROWS) if weight is None else weight
    with opened(held, POSITIVE, weight, **holder.options) as design:
        assert design.n_features == N_COLUMNS
        assert design.n_pos == np.count_nonzero(cost[POSITIVE])
        assert design.n_neg == np.count_nonzero(cost[~POSITIVE])
        assert design.total_cost == cost[POSITIVE].sum()
        lengths, negatives, befores = zip(*design.each(sizes_of), strict=True)
    assert sum(lengths) == N_ROWS
    assert list(befores) == list(accumulate(negatives[:-1], initial=0))


# Fits.

SETTINGS = [
    {"top": 1},
    {"top": 0.1, "loss": "logistic"},
    {"top": 7, "loss": "exponential"},
    {"top": 1, "solver": "paper", "max_iter": 4},
    {"top": 5, "loss": "logistic", "solver": "paper", "max_iter": 1},
    {"top": 5, "loss": "logistic", "formed": 0},
    {"top": 1, "formed": 0},
    {"top": 20, "loss": "exponential", "formed": 0},
    {"top": 0.1, "pairwise": True},
    {"top": 7, "loss": "logistic", "pairwise": True},
    {"top": 20, "loss": "exponential", "pairwise": True, "formed": 0},
]
"""`formed` features at most are factored; with more, conjugate gradients solve the system."""


def fit(monkeypatch, rows, number, weighted, **options):
    given = {"lam": 0.05, "tol": 1e-6, **SETTINGS[number], **options}
    formed = given.pop("formed", 1000)
    monkeypatch.setattr(interior_point, "FORMED", formed)
    monkeypatch.setattr(pairwise_solver, "MAX_FORMED", formed)
    monkeypatch.setattr(disk.DiskDesign, "most_formed", formed)
    return solved(rows, POSITIVE, WEIGHT if weighted else None, **given)


@cache
def reference(number, weighted):
    with pytest.MonkeyPatch.context() as patch:
        return fit(patch, X, number, weighted, n_jobs=1)


def holders_and_settings():
    """Holders that differ from another in layout or type alone take one setting in three."""
    for place, holder in enumerate(HOLDERS):
        for number in range(len(SETTINGS)):
            marks = []
            if holder.name in VARIANTS:
                marks = [pytest.mark.slow if (place + number) % 3 else pytest.mark.long]
            yield pytest.param(holder, number, id=f"{holder.name}-{number}", marks=marks)


@pytest.mark.parametrize("holder, number", list(holders_and_settings()))
def test_a_fit_is_that_of_the_array(holder, held, number, monkeypatch):
    """Half of the settings with weights; float32 is certified by a looser gap."""
    weighted, right = number % 2 == 0, reference(number, number % 2 == 0)
    if not holder.is_single:
        found = fit(monkeypatch, held, number, weighted, **holder.options)
        check_same(found, right, rel=1e-7)
        return
    found = fit(monkeypatch, held, number, weighted, **{**holder.options, "tol": 1e-3})
    if SETTINGS[number].get("solver") != "paper":
        assert found.relative_gap <= 1e-3
        assert found.upper == pytest.approx(right.upper, rel=1e-3)
    assert found.lower <= right.upper * (1.0 + 1e-5)
    assert right.lower <= found.upper * (1.0 + 1e-5)


@pytest.mark.filterwarnings("ignore::toppush.PositiveClassWarning")
@every_fit
def test_scores_and_labels(holder, held):
    names = np.where(POSITIVE, "yes", "no")
    ranker = TopPush(0.05, top=5, tol=1e-3, **holder.options).fit(held, names, WEIGHT)
    assert type(ranker.coef_) is np.ndarray
    assert (list(ranker.classes_), ranker.n_features_in_) == (["no", "yes"], N_COLUMNS)
    plain = TopPush().fit(X, names)
    plain.coef_, plain.threshold_ = ranker.coef_, ranker.threshold_
    scores = to_here(ranker.decision_function(held))
    assert_allclose(scores, plain.decision_function(X), rtol=0, atol=1e-12)
    assert_array_equal(to_here(ranker.predict(held)), ranker.classes_[(scores > 0.0).astype(int)])
    assert ranker.score(held, names) == pytest.approx(plain.score(X, names), rel=1e-12)


@pytest.mark.parametrize(
    "holder", [one for one in HOLDERS if one.in_memory], ids=lambda holder: holder.name
)
def test_the_rows_are_left_alone(holder, held):
    solved(held, POSITIVE, lam=0.05, tol=1e-2, **holder.options)
    assert_array_equal(held.toarray() if sparse.issparse(held) else held, X)


def fitted_twice(rows, solver, **given):
    """A fit, and another from its answer with a smaller lam."""
    ranker = TopPush(0.5, top=5, tol=1e-3, solver=solver, warm_start=True, max_iter=20, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = ranker.fit(rows, POSITIVE).solution_
        return first, ranker.set_params(lam=0.05).fit(rows, POSITIVE).solution_


@cache
def reference_twice(solver):
    return fitted_twice(X, solver, n_jobs=1)


@every_fit
@pytest.mark.parametrize("solver", ["newton", "paper"])
def test_a_warm_start_is_that_of_the_array(holder, held, solver):
    if (holder.needs, solver) == ("distributed", "paper"):
        pytest.skip("a cluster keeps no dual, from which the paper's solver would begin")
    (first, second), (one, other) = (
        fitted_twice(held, solver, **holder.options),
        reference_twice(solver),
    )
    if holder.is_single:
        assert first.upper == pytest.approx(one.upper, rel=5e-3)
        assert second.upper == pytest.approx(other.upper, rel=5e-3)
        return
    check_same(first, one, rel=1e-7)
    if solver == "paper":
        check_same(second, other, rel=1e-7)
    else:  # begun at the boundary, where rounding decides about the first step
        assert second.upper == pytest.approx(other.upper, rel=1e-3)
        assert second.relative_gap <= 1e-3


@cache
def hopeless():
    """Rows of which no weights bring a positive above all negatives."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(N_ROWS, 4)).astype(np.float32).astype(np.float64)
    rows[POSITIVE] += 0.25
    ranker = TopPush(top="auto", n_jobs=1).fit(rows, POSITIVE)
    return rows, ranker.top_, ranker.solution_.lower


@every_fit
def test_automatic_top(holder, held, tmp_path):
    rows, top, lower = hopeless()
    (tmp_path / "hopeless").mkdir()
    found = TopPush(top="auto", **holder.options).fit(
        holder.held(rows, tmp_path / "hopeless"), POSITIVE
    )
    assert found.top_ == top > 1
    assert found.solution_.lower == pytest.approx(lower, rel=1e-3 if holder.is_single else 1e-6)


GRID = {"lams": (0.1, 0.02), "tol": 1e-3}


def grid_of(pairwise):
    return {**GRID, "tops": (0.05 if pairwise else 1,), "pairwise": pairwise}


@cache
def path_and_choice(pairwise):
    fold = np.empty(N_ROWS, int)
    for side in (POSITIVE, ~POSITIVE):
        fold[side] = np.arange(side.sum()) % 2
    folds = [(np.flatnonzero(fold != one), np.flatnonzero(fold == one)) for one in range(2)]
    return (
        toppush_path(X, POSITIVE, n_jobs=1, **grid_of(pairwise)),
        TopPushCV(cv=folds, n_jobs=1, **grid_of(pairwise)).fit(X, POSITIVE),
        folds,
    )


@every_fit
@pytest.mark.parametrize("pairwise", [False, True])
def test_paths_and_folds(holder, held, pairwise):
    """A cluster takes a number of folds, and deals the rows of a class out in turn."""
    path, choice, folds = path_and_choice(pairwise)
    near = 1e-2 if holder.is_single else 1e-4  # rounding grows along a path of warm starts
    found = toppush_path(held, POSITIVE, **grid_of(pairwise), **holder.options)
    assert_allclose(found.coefs, path.coefs, rtol=0, atol=near * np.abs(path.coefs).max())
    cv = 2 if holder.needs == "distributed" else folds
    chosen = TopPushCV(cv=cv, **grid_of(pairwise), **holder.options).fit(held, POSITIVE)
    assert (chosen.lam_, chosen.top_) == (choice.lam_, choice.top_)
    for name in ("mean_test_score", "rank_test_score"):
        assert_allclose(chosen.cv_results_[name], choice.cv_results_[name], rtol=near)
    assert_allclose(chosen.coef_, choice.coef_, rtol=0, atol=near * np.abs(choice.coef_).max())


# What is refused.


@every_holder
@pytest.mark.filterwarnings("ignore:X has feature names")
def test_what_cannot_be_fitted_is_refused(holder, held, tmp_path):
    ranker = TopPush(**holder.options)
    with pytest.raises(ValueError, match="inconsistent"):
        ranker.fit(held, POSITIVE[:-1])
    with pytest.raises(ValueError, match=r"two classes"):
        ranker.fit(held, np.zeros(N_ROWS))
    fitted = TopPush().fit(X[:, :4], POSITIVE)
    with pytest.raises(ValueError, match=r"feature"):
        to_here(fitted.decision_function(held))
    for bad in (np.nan, np.inf):
        broken = X.copy()
        broken[7, 1] = bad
        folder = tmp_path / str(bad)
        folder.mkdir()
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            ranker.fit(holder.held(broken, folder), POSITIVE)
