"""RankSVM, MAPSVM, PartialAUCSVM, OWPC, their solver, and the two fronts on LIBLINEAR.

Risks are checked against loops over all pairs or all rankings, fits against CVXPY, the fronts
against scikit-learn.
"""

import warnings
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from reproduce.baselines import CostSensitiveSVM, LogisticRanker
from toppush import DegenerateWarning, Status
from toppush.baselines import MAPSVM, OWPC, PartialAUCSVM, RankSVM
from toppush.baselines.risks import AveragePrecisionHinge, OrderedHinge, PairHinge, PartialAreaHinge
from toppush.baselines.structural import rank_range, rank_shares
from toppush.designs import LocalDesign
from toppush.solvers import cutting_plane
from toppush.solvers.cutting_plane import minimise_on_simplex

pytestmark = pytest.mark.sampled(4)

CUTTING_PLANE = [RankSVM, MAPSVM, PartialAUCSVM, OWPC]

# Few distinct values, so that ties within a class, between classes and at the margin come up.
SCORES = st.one_of(
    st.integers(-4, 4).map(lambda k: k / 2),
    st.floats(-3, 3, allow_nan=False, width=32).map(float),
)


def score_lists(largest):
    side = st.lists(SCORES, min_size=1, max_size=largest).map(np.array)
    return st.tuples(side, side)


# Slow, obvious values of the risks.


def pair_hinge(positives, negatives, costs, shares):
    return sum(
        c * u * max(0.0, 1 - s + t)
        for s, c in zip(positives, costs, strict=True)
        for t, u in zip(negatives, shares, strict=True)
    )


def ordered_hinge(positives, negatives, rank_shares):
    total = 0.0
    for s in positives:
        losses = sorted((max(0.0, 1 - s + t) for t in negatives), reverse=True)
        total += sum(v * loss for v, loss in zip(rank_shares, losses, strict=False))
    return total / len(positives)


def average_precision_hinge(positives, negatives):
    """Loss plus the features' difference, y_ij = 1 if i is above j and -1 if below."""
    m, n = len(positives), len(negatives)
    worst = -np.inf
    for order in permutations(range(m + n)):
        place = {row: rank for rank, row in enumerate(order)}
        ranks = sorted(place[i] for i in range(m))
        precision = np.mean([(k + 1) / (rank + 1) for k, rank in enumerate(ranks)])
        features = 0.0
        for i in range(m):
            for j in range(n):
                y = 1 if place[i] < place[m + j] else -1
                features += (y - 1) * (positives[i] - negatives[j]) / (m * n)
        worst = max(worst, 1 - precision + features)
    return worst


def average_precision_hinge_by_greed(positives, negatives):
    """Each negative, best first, put where it hurts most: the published search, O(m n)."""
    m, n = len(positives), len(negatives)
    positives, negatives = np.sort(positives)[::-1], np.sort(negatives)[::-1]
    total = 0.0
    for j, t in enumerate(negatives, start=1):
        gains = [
            i / ((i + j) * (i + j - 1)) + 2 / n * (t - s) for i, s in enumerate(positives, start=1)
        ]
        total += max(sum(gains[first:]) for first in range(m + 1))
    return total / m


def partial_area_hinge(positives, negatives, low, high):
    """Over every subset of `high` negatives and every ranking of it among the positives."""
    m, worst = len(positives), -np.inf
    for subset in combinations(negatives, high):
        for order in permutations(range(m + high)):
            place = {row: rank for rank, row in enumerate(order)}
            by_rank = sorted(range(high), key=lambda k: place[m + k])
            loss = features = 0.0
            for i in range(m):
                for rank, k in enumerate(by_rank):
                    if place[m + k] < place[i]:
                        loss += rank >= low
                        features -= positives[i] - subset[k]
            worst = max(worst, (loss + features) / (m * (high - low)))
    return worst


def value(risk, positives, negatives):
    cut = risk.cut(positives, negatives)
    return cut.offset + cut.on_positives @ positives + cut.on_negatives @ negatives


class TestRisks:
    @given(score_lists(8), st.randoms(use_true_random=False))
    def test_pair_hinge_is_the_sum_over_pairs(self, scores, random):
        costs, shares = (np.array([random.random() + 0.1 for _ in side]) for side in scores)
        risk = PairHinge(costs, shares)
        assert value(risk, *scores) == pytest.approx(pair_hinge(*scores, costs, shares), abs=1e-12)

    @given(score_lists(8), st.lists(st.floats(0.0, 5.0), min_size=1, max_size=8))
    def test_ordered_hinge_sorts_the_losses_of_each_positive(self, scores, shares):
        shares = np.sort(np.array(shares))[::-1][: len(scores[1])]
        risk = OrderedHinge(shares)
        assert value(risk, *scores) == pytest.approx(ordered_hinge(*scores, shares), abs=1e-12)

    @given(score_lists(3))
    def test_average_precision_hinge_is_the_worst_of_all_rankings(self, scores):
        risk = AveragePrecisionHinge()
        assert value(risk, *scores) == pytest.approx(average_precision_hinge(*scores), abs=1e-12)

    @pytest.mark.parametrize("n_pos, n_neg", [(4, 4), (4, 3), (3, 4), (4, 2), (1, 4)])
    def test_average_precision_hinge_up_to_four_of_each(self, n_pos, n_neg):
        rng = np.random.default_rng(n_pos * 10 + n_neg)
        for scale in (0.02, 0.3):
            scores = scale * rng.normal(size=n_pos), scale * rng.normal(size=n_neg)
            found = value(AveragePrecisionHinge(), *scores)
            assert found == pytest.approx(average_precision_hinge(*scores), abs=1e-12)

    @given(score_lists(40), st.sampled_from([0.01, 0.3, 1.0]))
    def test_average_precision_hinge_is_that_of_the_published_search(self, scores, scale):
        scores = [scale * side for side in scores]
        found = value(AveragePrecisionHinge(), *scores)
        assert found == pytest.approx(average_precision_hinge_by_greed(*scores), abs=1e-11)

    @given(score_lists(3), st.data())
    def test_partial_area_hinge_is_the_worst_of_all_subsets_and_rankings(self, scores, data):
        low = data.draw(st.integers(0, len(scores[1]) - 1))
        high = data.draw(st.integers(low + 1, len(scores[1])))
        found = value(PartialAreaHinge(low, high), *scores)
        assert found == pytest.approx(partial_area_hinge(*scores, low, high), abs=1e-12)

    @given(score_lists(12), st.integers(1, 12))
    def test_partial_area_from_zero_is_the_ordered_hinge_of_the_top(self, scores, high):
        high = min(high, len(scores[1]))
        ordered = OrderedHinge(np.full(high, 1 / high))
        area = value(PartialAreaHinge(0, high), *scores)
        assert area == pytest.approx(value(ordered, *scores), abs=1e-12)

    @given(score_lists(10), st.randoms(use_true_random=False), st.data())
    def test_a_cut_lies_below_the_risk_everywhere(self, scores, random, data):
        n_pos, n_neg = (len(side) for side in scores)
        low = data.draw(st.integers(0, n_neg - 1))
        risks = [
            PairHinge(np.full(n_pos, 1 / n_pos), np.full(n_neg, 1 / n_neg)),
            OrderedHinge(rank_shares("inverse", 1, n_neg)),
            AveragePrecisionHinge(),
            PartialAreaHinge(low, data.draw(st.integers(low + 1, n_neg))),
        ]
        others = [np.array([random.uniform(-3, 3) for _ in side]) for side in scores]
        for risk in risks:
            cut = risk.cut(*scores)
            below = cut.offset + cut.on_positives @ others[0] + cut.on_negatives @ others[1]
            assert below <= value(risk, *others) + 1e-12
            assert value(risk, *others) >= 0.0
            assert cut.on_positives.sum() + cut.on_negatives.sum() == pytest.approx(0, abs=1e-12)

    def test_a_cut_of_many_rows_needs_no_array_of_pairs(self):
        rng = np.random.default_rng(0)
        positives, negatives = rng.normal(1, 1, 40_000), rng.normal(0, 1, 60_000)
        for risk in (
            PairHinge(np.full(40_000, 1 / 40_000), np.full(60_000, 1 / 60_000)),
            OrderedHinge(rank_shares("inverse", 1, 60_000)),
            AveragePrecisionHinge(),
            PartialAreaHinge(100, 6_000),
        ):
            assert np.isfinite(risk.cut(positives, negatives).offset)


class TestSimplex:
    @given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 2**32 - 1))
    def test_no_corner_lies_below_the_minimiser_in_slope(self, size, rank, seed):
        """The optimality condition: every entry's slope is at least the used entries' slope."""
        rng = np.random.default_rng(seed)
        factor, total = rng.normal(size=(size, rank)), 10.0 ** rng.integers(-2, 4)
        gram, linear = factor @ factor.T, rng.normal(size=size)
        point = minimise_on_simplex(gram, linear, total, np.zeros(size))
        slope = gram @ point - linear
        assert point.min() >= 0.0
        assert point.sum() == pytest.approx(total)
        scale = np.abs(gram @ point).max() + np.abs(linear).max()
        assert slope[point > 0].max() - slope.min() <= 1e-9 * scale

    def test_equal_cuts_share(self):
        gram, linear = np.ones((4, 4)), np.ones(4)
        assert minimise_on_simplex(gram, linear, 2.0, np.zeros(4)).sum() == pytest.approx(2.0)


def small_data(seed=0, n_rows=40):
    """Overlapping clouds, two fifths positive, near enough that no ranker finds them easy."""
    rng = np.random.default_rng(seed)
    y = np.zeros(n_rows, int)
    y[rng.permutation(n_rows)[: 2 * n_rows // 5]] = 1
    return rng.normal(size=(n_rows, 5)) + np.outer(y, [1.5, -1.5, 0.5, 0.5, 0.0]), y


def wide_data(n_rows=60, n_columns=3000):
    """A few rows of a few entries among many columns, with a signal."""
    rng = np.random.default_rng(11)
    y = np.arange(n_rows) % 3 == 0
    X = sparse.random_array((n_rows, n_columns), density=0.01, rng=rng).tolil()
    X[:, 0] = y + rng.normal(size=n_rows)
    return X.tocsr(), y


def space_of(X, y):
    """Where the solver keeps its cuts of these rows."""
    with LocalDesign(X, y, n_jobs=1) as design:
        return cutting_plane._space(design)


def solve_by_cvxpy(X, y, C, pair_shares):
    """1/2 |w|^2 + C sum_i sum_r v_ir (r-th largest pair loss), pair_shares of shape (n_neg,)."""
    import cvxpy

    weights = cvxpy.Variable(X.shape[1])
    positives, negatives = X[y == 1], X[y == 0]
    # An ordered sum is a sum of "k largest" sums, each of which CVXPY knows.
    steps = pair_shares - np.append(pair_shares[1:], 0.0)
    loss = 0.0
    for x in positives:
        pairs = cvxpy.pos(1 - (x @ weights - negatives @ weights))
        for k, step in enumerate(steps, start=1):
            if step > 0:
                loss += step * cvxpy.sum_largest(pairs, k)
    objective = 0.5 * cvxpy.sum_squares(weights) + C * loss / len(positives)
    problem = cvxpy.Problem(cvxpy.Minimize(objective))
    problem.solve(solver=cvxpy.CLARABEL)
    return problem.value, weights.value


class TestFits:
    @pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
    def test_rank_svm_solves_the_quadratic_programme_of_all_pairs(self, C):
        X, y = small_data()
        shares = np.full(np.sum(y == 0), 1 / np.sum(y == 0))
        optimum, weights = solve_by_cvxpy(X, y, C, shares)
        ranker = RankSVM(C, tol=1e-9).fit(X, y)
        assert ranker.solution_.lower <= optimum * (1 + 1e-7)
        assert ranker.solution_.upper == pytest.approx(optimum, rel=1e-6)
        np.testing.assert_allclose(ranker.coef_[0], weights, atol=1e-3 * np.abs(weights).max())

    @pytest.mark.parametrize("C", [1.0, 100.0])
    @pytest.mark.parametrize(
        "options", [{"owa": "inverse"}, {"owa": "top", "top": 3}, {"owa": [3.0, 2.0, 2.0, 0.5]}]
    )
    def test_owpc_solves_its_convex_programme(self, C, options):
        X, y = small_data(seed=1, n_rows=24)
        shares = rank_shares(options["owa"], options.get("top", 1), np.sum(y == 0))
        optimum, weights = solve_by_cvxpy(X, y, C, shares)
        ranker = OWPC(C, tol=1e-9, **options).fit(X, y)
        assert ranker.solution_.lower <= optimum * (1 + 1e-7)
        assert ranker.solution_.upper == pytest.approx(optimum, rel=1e-6)
        np.testing.assert_allclose(ranker.coef_[0], weights, atol=1e-3 * np.abs(weights).max())

    def test_partial_area_from_zero_is_owpc_of_the_top(self):
        X, y = small_data(seed=2)
        n_neg = np.sum(y == 0)
        area = PartialAUCSVM(10.0, fpr_high=5 / n_neg, tol=1e-10).fit(X, y)
        owpc = OWPC(10.0, owa="top", top=5, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(area.coef_, owpc.coef_, atol=1e-5)

    def test_owpc_of_equal_shares_is_rank_svm(self):
        X, y = small_data(seed=3)
        owpc = OWPC(10.0, owa="mean", tol=1e-12).fit(X, y)
        np.testing.assert_allclose(owpc.coef_, RankSVM(10.0, tol=1e-12).fit(X, y).coef_, atol=1e-5)

    @pytest.mark.parametrize("kind", [MAPSVM, PartialAUCSVM])
    def test_the_optimum_is_that_of_the_brute_force_risk(self, kind):
        """Polished by a method that only sees values of the slow risk, nothing gets better."""
        rng = np.random.default_rng(4)
        X, y = rng.normal(size=(6, 2)), np.array([1, 1, 1, 0, 0, 0])
        options = {"fpr_low": 1 / 3, "fpr_high": 1.0} if kind is PartialAUCSVM else {}
        ranker = kind(2.0, tol=1e-10, **options).fit(X, y)

        def objective(weights):
            scores = X[y == 1] @ weights, X[y == 0] @ weights
            slow = (
                average_precision_hinge(*scores)
                if kind is MAPSVM
                else partial_area_hinge(*scores, 1, 3)
            )
            return 0.5 * weights @ weights + 2.0 * slow

        best = ranker.coef_[0]
        assert objective(best) == pytest.approx(ranker.solution_.upper, rel=1e-9)
        polished = minimize(objective, best, method="Nelder-Mead", options={"maxfev": 40})
        assert ranker.solution_.lower <= polished.fun + 1e-9
        assert polished.fun == pytest.approx(objective(best), rel=1e-6)

    @pytest.mark.parametrize("kind", CUTTING_PLANE)
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("as_matrix", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
    def test_sparse_rows_give_the_dense_answer(self, kind, dtype, as_matrix):
        X, y = small_data(seed=5, n_rows=120)
        X[np.abs(X) < 0.4] = 0.0
        X = X.astype(dtype)
        tol = 1e-10 if dtype is np.float64 else 1e-5
        dense, rows = kind(1.0, tol=tol).fit(X, y), kind(1.0, tol=tol).fit(as_matrix(X), y)
        np.testing.assert_allclose(dense.coef_, rows.coef_, atol=30 * np.sqrt(tol))
        assert dense.coef_.dtype == np.float64

    @pytest.mark.parametrize("kind", CUTTING_PLANE)
    def test_the_record_certifies(self, kind):
        X, y = small_data(seed=6, n_rows=200)
        ranker = kind(100.0).fit(X, y)
        record = ranker.solution_
        assert record.status is Status.CONVERGED
        assert 0.0 <= record.relative_gap <= 1e-3
        assert record.dual.size == 0
        uppers, lowers, passes, seconds = np.array(record.history).T
        assert np.all(np.diff(uppers) <= 1e-12 * uppers[:-1])
        assert np.all(np.diff(lowers) >= 0.0)
        assert np.all(np.diff(passes) > 0)
        assert np.all(np.diff(seconds) >= 0)
        assert ranker.threshold_ == pytest.approx((X[y == 0] @ ranker.coef_[0]).max())
        above = ranker.predict(X) == 1
        assert not above[y == 0].any()

    @pytest.mark.parametrize("kind", CUTTING_PLANE)
    def test_blocks_in_threads_give_the_answer_of_one(self, kind, monkeypatch):
        monkeypatch.setattr("toppush.designs.local.ENTRIES_PER_THREAD", 64)
        X, y = small_data(seed=7, n_rows=300)
        one = kind(10.0, tol=1e-10, n_jobs=1).fit(X, y)
        three = kind(10.0, tol=1e-10, n_jobs=3).fit(X, y)
        np.testing.assert_allclose(one.coef_, three.coef_, atol=1e-4)

    @pytest.mark.parametrize("kind", CUTTING_PLANE)
    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_cuts_kept_by_rows_and_by_columns_lead_the_same_way(self, kind, n_jobs, monkeypatch):
        """The two differ in rounding alone: they see the same points and prove the same bounds."""
        monkeypatch.setattr("toppush.designs.local.ENTRIES_PER_THREAD", 64)
        X, y = wide_data()
        found = []
        for usual_cuts in (0, 1 << 20):
            monkeypatch.setattr(cutting_plane, "USUAL_CUTS", usual_cuts)
            found.append(kind(10.0, tol=1e-6, n_jobs=n_jobs).fit(X, y))
        by_columns, by_rows = found
        assert by_rows.solution_.status is Status.CONVERGED
        apart = 0.5 * np.sum((by_rows.coef_ - by_columns.coef_) ** 2)
        assert apart <= by_rows.solution_.gap + by_columns.solution_.gap  # both near one optimum
        first = [np.array(one.solution_.history)[:8, :2] for one in found]
        np.testing.assert_allclose(*first, rtol=1e-6)

    def test_few_rows_of_few_entries_keep_cuts_by_rows(self):
        """Not so rows that are dense, or more than the columns that they use."""
        X, y = wide_data()
        assert isinstance(space_of(X, y), cutting_plane._ByRows)
        tall, labels = sparse.vstack([X[:, :20]] * 20).tocsr(), np.tile(y, 20)
        assert isinstance(space_of(tall, labels), cutting_plane._ByColumns)
        full = np.random.default_rng(0).normal(size=X.shape)
        assert isinstance(space_of(full, y), cutting_plane._ByColumns)

    def test_weights_of_rank_svm_repeat_rows(self):
        X, y = small_data(seed=8)
        weight = np.random.default_rng(8).integers(0, 4, len(y))
        weighted = RankSVM(10.0, tol=1e-12).fit(X, y, sample_weight=weight)
        repeated = RankSVM(10.0, tol=1e-12).fit(np.repeat(X, weight, 0), np.repeat(y, weight))
        np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)

    def test_the_last_word_of_accuracy_is_rounding(self):
        X, y = small_data(seed=9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # by the machine the gap is zero, or its last bit stays
            record = RankSVM(1000.0, tol=0.0).fit(X, y).solution_
        assert record.relative_gap < 1e-12


class TestLiblinear:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("as_matrix", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize(
        "front, model",
        [
            (LogisticRanker(C=0.3), LogisticRegression(C=0.3, solver="liblinear")),
            (
                CostSensitiveSVM(C=0.3, positive_cost=4.0),
                LinearSVC(C=0.3, class_weight={0: 1.0, 1: 4.0}),
            ),
        ],
    )
    def test_equals_scikit_learn(self, front, model, as_matrix, weighted):
        X, y = small_data(seed=10, n_rows=100)
        weight = np.random.default_rng(0).random(100) if weighted else None
        X = as_matrix(X)
        front.fit(X, y, sample_weight=weight)
        model.fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(front.coef_, model.coef_)
        np.testing.assert_array_equal(front.intercept_, model.intercept_)
        decision = model.decision_function(X)
        np.testing.assert_allclose(front.decision_function(X), decision, atol=1e-12)
        np.testing.assert_array_equal(front.predict(X), model.predict(X))

    def test_wide_rows_take_the_dual_as_scikit_learn_does(self):
        X, y = np.random.default_rng(11).normal(size=(20, 60)), np.arange(20) % 2
        front = CostSensitiveSVM(random_state=0).fit(X, y)
        np.testing.assert_array_equal(front.coef_, LinearSVC(random_state=0).fit(X, y).coef_)

    def test_long_indices_are_narrowed(self):
        X, y = small_data(seed=12)
        rows = sparse.csr_array(X)
        rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
        np.testing.assert_allclose(
            LogisticRanker().fit(rows, y).coef_, LogisticRanker().fit(X, y).coef_
        )


class TestSentences:
    def test_too_few_iterations_say_so(self):
        X, y = small_data()
        with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
            ranker = RankSVM(1000.0, max_iter=2).fit(X, y)
        assert caught[0].filename == __file__
        assert ranker.solution_.status is Status.MAX_ITER
        assert ranker.solution_.gap > 0

    def test_a_hopeless_top_says_so(self):
        X = np.array([[0.0], [1.0], [-1.0]])
        with pytest.warns(DegenerateWarning, match="fpr_high"):
            PartialAUCSVM(fpr_high=0.5).fit(X, [1, 0, 0])

    @pytest.mark.parametrize("low, high", [(0.5, 0.5), (0.9, 0.1), (0.95, 1.0)])
    def test_an_empty_range_is_refused(self, low, high):
        X, y = small_data(n_rows=20)
        with pytest.raises(ValueError, match="negatives"):
            PartialAUCSVM(fpr_low=low, fpr_high=high).fit(X, y)

    def test_ranks_survive_rounding(self):
        assert rank_range(0.0, 1 / 49, 49) == (0, 1)
        assert rank_range(0.0, 1e-9, 10) == (0, 1)
        assert rank_range(0.1, 0.3, 10) == (1, 3)
        assert rank_range(0.0, 1.0, 7) == (0, 7)

    @pytest.mark.parametrize(
        "owa, sentence",
        [
            ([1.0, 2.0], "never rise"),
            ([1.0, -1.0], "negative"),
            ([0.0, 0.0], "start above 0"),
            ([1.0, np.nan], "never rise"),
            (np.ones(1000), "negatives"),
            ([[1.0]], "has shape"),
        ],
    )
    def test_shares_that_are_not_convex_are_refused(self, owa, sentence):
        X, y = small_data()
        with pytest.raises(ValueError, match=sentence):
            OWPC(owa=owa).fit(X, y)

    def test_a_class_without_weight_is_refused(self):
        X, y = small_data()
        with pytest.raises(ValueError, match=r"0.*sample_weight.*0"):
            RankSVM().fit(X, y, sample_weight=y)

    @pytest.mark.parametrize("kind", [MAPSVM, PartialAUCSVM, OWPC])
    def test_risks_of_ranks_take_no_weights(self, kind):
        X, y = small_data()
        with pytest.raises(TypeError, match="sample_weight"):
            kind().fit(X, y, sample_weight=np.ones(len(y)))

    def test_a_failed_fit_leaves_the_estimator_as_it_was(self):
        X, y = small_data()
        ranker = RankSVM().fit(X, y)
        before = ranker.coef_
        with pytest.raises(ValueError, match="two classes"):
            ranker.fit(X, np.ones(len(y)))
        assert ranker.coef_ is before

    def test_progress_is_printed_on_demand(self, capsys):
        X, y = small_data()
        RankSVM(verbose=1).fit(X, y)
        assert "iteration    1  objective" in capsys.readouterr().out


# The checks of equivalence (weights against repeated rows) compare to seven digits, so they need
# weights that are exact to rounding, which is no tolerance to reach.
EXACT = {"RankSVM": 1e-14, "LogisticRanker": 1e-12, "CostSensitiveSVM": 1e-9}


@pytest.mark.filterwarnings("ignore:Steps became too small:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
@parametrize_with_checks(
    [
        *(kind() for kind in CUTTING_PLANE),
        LogisticRanker(max_iter=10_000),
        CostSensitiveSVM(max_iter=100_000, random_state=0),
    ]
)
def test_scikit_learn_contract(estimator, check):
    if check.func.__name__.startswith("check_sample_weight_equivalence"):
        estimator = clone(estimator).set_params(tol=EXACT[type(estimator).__name__])
    check(estimator)


@pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")
def test_defaults_rank_separable_blobs():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(0, 1, (50, 2)), rng.normal(6, 1, (50, 2))])
    y = np.repeat([0, 1], 50)
    for kind in (*CUTTING_PLANE, LogisticRanker, CostSensitiveSVM):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ranker = kind().fit(X, y)
        assert ranker.score(X, y) == 1.0
        assert np.mean(ranker.predict(X) == y) > 0.95
