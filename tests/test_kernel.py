"""TopKernel: kernel machines whose settings are chosen by cross-validation."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from toppush import TopRanker, metrics
from toppush.auto import members
from toppush.auto.kernel import TopKernel
from toppush.folds.scores import left_out_twice, with_second_scores
from toppush.folds.splits import folds_by_time, with_mean_one
from toppush.modelfile import saving
from toppush.modelfile.saving import export_onnx
from toppush.models import kernel
from toppush.models.kernel import KernelColumns
from toppush.system.errors import ModelError


def products(n_rows=240, seed=0):
    """Positives where two columns have the same sign: no weights of columns separate them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 3))
    return X, X[:, 0] * X[:, 1] > 0.3


def mixed(n_rows=300, seed=0):
    """A column of numbers with missing values, two of categories, and one that is constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [
            np.where(rng.random(n_rows) < 0.2, np.nan, rng.lognormal(size=n_rows)),
            rng.integers(0, 4, n_rows),
            np.where(rng.random(n_rows) < 0.1, np.nan, rng.integers(0, 150, n_rows)),
            np.full(n_rows, 7.0),
        ]
    )
    return X, (X[:, 1] == 2) ^ (rng.random(n_rows) < 0.1)


@pytest.fixture(scope="module")
def ranker():
    return TopKernel(categorical_features=[1, 2]).fit(*mixed())


@pytest.mark.sampled(5)
@parametrize_with_checks(
    [TopKernel("asinh")],
    expected_failed_checks=lambda one: {
        "check_sample_weight_equivalence_on_dense_data": "folds go by number, not by weight",
        "check_sample_weight_equivalence_on_sparse_data": "folds go by number, not by weight",
    },
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ---- columns


@given(st.integers(0, 10_000), st.sampled_from(kernel.CURVES))
@settings(max_examples=25)
def test_curves_ascend_and_end_at_the_greatest_values(seed, curve):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.standard_normal(200), rng.lognormal(sigma=2.0, size=200)])
    X = 10.0 ** rng.integers(-20, 20) * (X + 3.0)
    columns = KernelColumns.of(X, np.zeros(2, bool), curve)
    rows = columns.transform(X)
    assert (np.diff(columns.knots, axis=1) >= 0.0).all()
    for column in range(2):
        order = np.argsort(X[:, column])
        assert (np.diff(rows[order, column]) >= 0.0).all()
    deviations = rows.std(axis=0)
    assert (deviations < 1.001).all()
    assert (deviations > (0.999 if curve == "normal" else 0.1)).all()
    beyond = columns.transform(np.array([[1e300, -1e300]]))
    assert_allclose(beyond[0], [rows[:, 0].max(), rows[:, 1].min()])


def test_the_curve_of_sizes_is_the_inverse_hyperbolic_sine():
    values = np.random.default_rng(0).standard_normal(2_000)
    rows = KernelColumns.of(values[:, None], np.zeros(1, bool), "asinh").transform(values[:, None])
    exact = np.arcsinh((values - values.mean()) / values.std())
    assert_allclose(rows[:, 0], exact, atol=0.01)


def test_few_distinct_values_have_their_normal_quantiles():
    values = np.repeat([5.0, 1.0, 100.0], [50, 30, 20])
    rows = KernelColumns.of(values[:, None], np.zeros(1, bool), "normal").transform(values[:, None])
    heights = np.repeat(norm.ppf([0.55, 0.15, 0.9]), [50, 30, 20])
    assert_allclose(rows[:, 0], (heights - heights.mean()) / heights.std())


def test_missing_values_and_categories_have_indicators():
    X, _ = mixed()
    columns = KernelColumns.of(X, np.array([False, True, True, False]), "asinh")
    assert_array_equal(columns.missing, [0, 2])
    rows = columns.transform(X)
    assert_array_equal(rows[:, 2:4], np.isnan(X[:, [0, 2]]))
    median = KernelColumns.of(X, np.zeros(4, bool), "asinh").transform(
        np.array([[np.nanmedian(X[:, 0]), 0.0, 0.0, 7.0]])
    )
    assert_allclose(rows[np.isnan(X[:, 0]), 0], median[0, 0])
    assert_array_equal(rows[:, 1], 0.0)  # the constant column
    values, counts = np.unique(X[~np.isnan(X[:, 2]), 2], return_counts=True)
    common = values[counts >= 5]
    assert 0 < len(common) < len(values)
    assert_array_equal(rows[:, 4:8], X[:, [1]] == np.arange(4.0))
    assert_array_equal(rows[:, 8:], X[:, [2]] == common)
    unknown = columns.transform(np.array([[1.0, 17.0, -3.0, 7.0]]))
    assert_array_equal(unknown[0, 2:], 0.0)


def test_columns_without_a_common_category_are_no_error():
    X, y = np.arange(60.0)[:, None], np.arange(60) % 3 == 0
    ranker = TopKernel(categorical_features=[0]).fit(X, y)
    assert np.ptp(ranker.decision_function(X)) == pytest.approx(0.0, abs=1e-12)


# ---- scores


def test_scores_are_the_sum_over_support_vectors(ranker):
    X, _ = mixed(40, seed=1)
    rows = KernelColumns(**ranker.columns_).transform(X)
    slow = [
        np.mean(
            [
                intercept
                + sum(
                    a * np.exp(-ranker.gamma_ * np.sum((row - vector) ** 2))
                    for a, vector in zip(coef, ranker.support_vectors_, strict=True)
                )
                for coef, intercept in zip(ranker.dual_coef_, ranker.intercept_, strict=True)
            ]
        )
        for row in rows
    ]
    assert_allclose(ranker.decision_function(X) + ranker.threshold_, slow, atol=1e-10)


def test_each_machine_is_that_of_scikit_learn():
    X, y = mixed()
    weight = np.random.default_rng(0).random(len(y))
    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    ranker = TopKernel(categorical_features=[1, 2], cv=folds).fit(X, y, weight)
    rows = KernelColumns(**ranker.columns_).transform(X)
    for place, (train, _) in enumerate(with_second_scores(folds, y)[0]):
        model = SVC(C=ranker.cost_, gamma=ranker.gamma_)
        model.fit(rows[train], y[train], with_mean_one(weight)[train])
        alone = copy.copy(ranker)
        alone.dual_coef_ = ranker.dual_coef_[[place]]
        alone.intercept_ = ranker.intercept_[[place]]
        scores = alone.decision_function(X) + ranker.threshold_
        assert_allclose(scores, model.decision_function(rows), atol=1e-8)


def test_rows_are_scored_in_parts(ranker, monkeypatch):
    X, _ = mixed()
    whole = ranker.decision_function(X)
    monkeypatch.setattr(kernel, "PART_NUMBERS", 7 * len(ranker.support_vectors_))
    assert_allclose(ranker.decision_function(X), whole, atol=1e-12)


def test_the_units_of_columns_do_not_matter():
    X, y = products()
    first = TopKernel().fit(X, y)
    second = TopKernel().fit(X * [0.001, 1.0, 1e6] + [5.0, -2.0, 0.0], y)
    assert (first.curve_, first.cost_) == (second.curve_, second.cost_)
    assert_allclose(first.out_of_fold_, second.out_of_fold_, atol=0.02)


def test_machines_find_what_weights_of_columns_do_not():
    X, y = products()
    ranker = TopKernel().fit(X, y)
    assert metrics.auc(y, ranker.out_of_fold_) > 0.9
    new, truth = products(seed=1)
    assert metrics.auc(truth, ranker.decision_function(new)) > 0.9


# ---- out-of-fold scores


def test_out_of_fold_scores_of_noise_are_those_of_chance():
    found, chance = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((150, 4)), rng.permutation(np.arange(150) < 40)
        found.append(metrics.auc(y, TopKernel(random_state=seed).fit(X, y).out_of_fold_))
        chance.append(metrics.auc(y, rng.random(150)))
    error = np.sqrt((np.var(found, ddof=1) + np.var(chance, ddof=1)) / 12)
    assert abs(np.mean(found) - 0.5) < 3 * error


@settings(max_examples=5)
@given(st.integers(0, 10_000))
def test_the_setting_for_a_fold_does_not_depend_on_its_labels(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((90, 3)), rng.permutation(np.arange(90) < 30)
    folds = list(StratifiedKFold(3, shuffle=True, random_state=seed).split(X, y))
    turned = y.copy()
    turned[folds[1][1]] = rng.permutation(y[folds[1][1]])
    chosen = []
    for labels in (y, turned):
        ranker = TopKernel(cv=folds)
        chosen.append(ranker._search(*ranker._read_training(X, labels, None)).best_in(1))
    assert chosen[0] == chosen[1]


def test_a_second_machine_scores_the_rows_that_two_leave_out():
    X, y = products(400)
    ranker = TopKernel().fit(X, y)
    assert_array_equal(np.isfinite(ranker.second_scores_), left_out_twice(y))
    assert np.isfinite(ranker.out_of_fold_).all()


def test_fits_with_many_rows_learn_from_some(monkeypatch):
    X, y = products(600)
    monkeypatch.setattr(TopKernel, "_search_rows", (200, 50))
    monkeypatch.setattr("toppush.auto.kernel.MACHINE_ROWS", 300)
    ranker = TopKernel("asinh").fit(X, y)
    assert np.isfinite(ranker.out_of_fold_).all()
    assert metrics.auc(y, ranker.out_of_fold_) > 0.9


def test_rows_of_weight_0_are_left_out():
    X, y = products()
    weight = np.ones(len(y))
    weight[::5] = 0.0
    X[::5] *= 1e6
    weighted = TopKernel().fit(X, y, weight)
    assert np.isnan(weighted.out_of_fold_[::5]).all()
    new = products(seed=3)[0]
    without = TopKernel().fit(X[weight > 0], y[weight > 0])
    assert_allclose(weighted.decision_function(new), without.decision_function(new), atol=1e-9)


# ---- as a base model


def test_the_ranker_fits_it_by_default_and_explains_it():
    X, y = mixed()
    assert "kernel" in members.EFFORTS["normal"].members
    ranker = TopRanker(["kernel"], categorical_features=[1, 2]).fit(X, y)
    added = ranker.contributions(X[:20])
    assert_allclose(added.sum(axis=1), ranker.decision_function(X[:20]), atol=1e-9)
    assert np.abs(added[:, 1]).mean() > 3 * np.abs(added[:, [0, 2, 3]]).mean()


def test_too_many_rows_and_columns_leave_it_out(monkeypatch):
    X, y = products()
    monkeypatch.setattr(members, "KERNEL_ROWS", 200)
    ranker = TopRanker(["logistic", "kernel"]).fit(X, y)
    assert "240 rows" in ranker.left_out_["kernel"]
    wide = np.random.default_rng(0).standard_normal((60, members.KERNEL_COLUMNS + 1))
    ranker = TopRanker(["logistic", "kernel"]).fit(wide, np.arange(60) % 3 == 0)
    assert "501 columns" in ranker.left_out_["kernel"]


def test_too_many_categories_leave_it_out(monkeypatch):
    X, y = mixed()
    monkeypatch.setattr(members, "KERNEL_COLUMNS", 6)
    ranker = TopRanker(["logistic", "kernel"], categorical_features=[1, 2]).fit(X, y)
    assert "common category" in ranker.left_out_["kernel"]


def test_folds_by_time_and_groups_are_kept():
    X, y = products(300)
    folds = folds_by_time(y, np.arange(300.0), 3)
    ranker = TopRanker(["kernel"], cv=folds).fit(X, y)
    held = np.concatenate([held for _, held in folds])
    assert_array_equal(np.isfinite(ranker.out_of_fold_), np.isin(np.arange(300), held))
    assert metrics.auc(y[held], ranker.out_of_fold_[held]) > 0.7
    groups = np.arange(300) // 10
    ranker = TopRanker(["kernel"]).fit(X, y, groups=groups)
    assert metrics.auc(y, ranker.out_of_fold_) > 0.8


def test_a_column_without_values_changes_nothing():
    X, y = products()
    empty = np.column_stack([X, np.full(len(X), np.nan)])
    plain, odd = TopKernel().fit(X, y), TopKernel().fit(empty, y)
    assert_allclose(odd.out_of_fold_, plain.out_of_fold_, atol=1e-9)
    new = np.column_stack([X, np.ones(len(X))])
    assert np.isfinite(odd.decision_function(new)).all()


# ---- model files and ONNX


def _with(**entries):
    def change(member):
        member.columns_ = member.columns_ | entries

    return change


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda member: member.columns_.pop("knots"), "described"),
        (_with(numbers=np.array([0, 9])), "numbers"),
        (_with(missing=np.array([-1])), "missing"),
        (_with(categories=np.zeros(1)), "shape"),
        (_with(at_missing=np.array([np.nan, 0.0])), "at_missing"),
        (lambda member: member.columns_.update(knots=member.columns_["knots"][:, ::-1]), "ascend"),
        (lambda member: vars(member).update(dual_coef_=member.dual_coef_[:, 1:]), "dual_coef_"),
        (lambda member: vars(member).update(intercept_=member.intercept_ * np.nan), "intercept_"),
        (lambda member: vars(member).update(gamma_=-1.0), "gamma"),
        (lambda member: vars(member).update(gamma_=np.ones(3)), "gamma"),
        (lambda member: vars(member).update(background_=np.ones((2, 9))), "shape"),
    ],
)
def test_forged_machines_are_refused(change, said):
    whole = TopRanker(["kernel"], categorical_features=[1, 2], cv=2).fit(*mixed(80))
    change(whole.members_["kernel"])
    with pytest.raises(ModelError, match=said) as refused:
        saving.to_bytes(saving.as_model(whole))
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize("curve", kernel.CURVES)
def test_files_and_onnx_give_the_same_scores(curve, tmp_path, monkeypatch):
    monkeypatch.setattr(members, "_kernel", lambda data: TopKernel(curve, cv=data.folds))
    X, y = mixed()
    X[:, 2] *= 1e-3
    ranker = TopRanker(["kernel"], categorical_features=None).fit(X, y)
    model = saving.as_model(ranker)
    saving.save(model, tmp_path / "m")
    new = mixed(50, seed=2)[0]
    new[0] = [1e30, -1e30, 0.0, np.nan]
    expected = ranker.decision_function(new)
    assert_array_equal(saving.load(tmp_path / "m").decision_function(new), expected)
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    export_onnx(model, tmp_path / "m.onnx")
    scores = runtime.InferenceSession((tmp_path / "m.onnx").read_bytes()).run(None, {"X": new})[0]
    assert_allclose(scores, expected, atol=1e-9)
