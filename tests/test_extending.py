"""A loss, a solver, a metric and a baseline of this file alone go everywhere that ours go.

`docs/extending.md` tells of them. They are registered while this file's tests run; other files
count what is registered.
"""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from sklearn.datasets import dump_svmlight_file, load_breast_cancer

from reproduce.baselines import BASELINES
from toppush import TopPush, TopPushCV
from toppush.cli import main
from toppush.designs.arrays import namespace
from toppush.metrics import METRICS, metric
from toppush.models.base import LinearRanker, read_training
from toppush.problem.losses import LOSSES
from toppush.solvers import SOLVERS, Solver
from toppush.solvers.newton.interior_point import newton_method


@dataclass(frozen=True)
class DoubleQuadratic:
    """l(t) = 2 (1 + t)_+^2; l*(a) = a^2/8 - a on a >= 0."""

    name = "double_quadratic"
    dual_limit = np.inf
    conjugate_curvature = 0.25

    def value(self, violation):
        with np.errstate(over="ignore"):
            return 2.0 * namespace(violation).square(self._positive_part(violation))

    def slope(self, violation):
        return 4.0 * self._positive_part(violation)

    def curvature(self, violation):
        return namespace(violation).where(violation >= -1.0, 4.0, 0.0)

    def conjugate(self, dual):
        xp = namespace(dual)
        inside = xp.maximum(dual, 0.0)
        with np.errstate(over="ignore"):
            return xp.where(dual >= 0.0, inside * (0.125 * inside - 1.0), np.inf)

    def conjugate_slope(self, dual):
        return 0.25 * dual - 1.0

    def raised(self, mean, by):
        return (np.sqrt(mean) + np.sqrt(2.0) * by) ** 2

    def dual_prox(self, point, stiffness):
        xp = namespace(point)
        dual = xp.maximum(1.0 + stiffness * point, 0.0) / (stiffness + 0.25)
        return dual, xp.where(dual > 0.0, stiffness / (stiffness + 0.25), 0.0)

    def _positive_part(self, violation):
        return namespace(violation).maximum(1.0 + violation, 0.0)


def careful_newton(problem, *, tol=1e-4, **options):
    """Ours, to a tenth of the gap."""
    return newton_method(problem, tol=tol / 10, **options)


@metric(title="R-precision")
def r_precision(curve):
    """Precision among as many rows as there are positives; ties in proportion."""
    return curve.positives_within(curve.n_pos) / curve.n_pos


del METRICS["r_precision"]


class MeanDifference(LinearRanker):
    """Ranks along the difference of the classes' means."""

    def __init__(self, tol=0.0):
        self.tol = tol

    def fit(self, X, y):
        given = read_training(self, X, y, None)
        rows = given.rows.original
        means = [
            np.asarray(rows[members].mean(axis=0)).ravel()
            for members in (given.positive, ~given.positive)
        ]
        self.classes_, self.n_iter_ = given.classes, 1
        self.coef_ = (means[0] - means[1])[None, :]
        self.threshold_ = float(np.max(rows[~given.positive] @ self.coef_[0]))
        return self


@pytest.fixture(autouse=True, scope="module")
def registered():
    """What this file adds, and nothing more: one line each."""
    from reproduce.methods import METHODS, Method, by_estimator
    from toppush.files.compare import COMPETITORS

    row = Method("mean-difference", "Mean difference", by_estimator(MeanDifference))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(LOSSES, "double_quadratic", DoubleQuadratic())
        patch.setitem(SOLVERS, "careful", Solver(careful_newton))
        patch.setitem(METRICS, "r_precision", r_precision)
        patch.setitem(BASELINES, "MeanDifference", MeanDifference)
        patch.setitem(METHODS, row.key, row)
        patch.setitem(COMPETITORS, "mean difference", lambda fold: MeanDifference())
        yield


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:240, :8] / X[:, :8].max(axis=0), y[:240] == 0


@pytest.fixture(scope="module")
def table(tmp_path_factory, cancer):
    """A CSV file of those rows."""
    path = tmp_path_factory.mktemp("table") / "cancer.csv"
    X, y = cancer
    lines = [",".join(map(str, [*row, int(label)])) for row, label in zip(X, y, strict=True)]
    header = ",".join([*(f"column{place}" for place in range(8)), "label"])
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def ask(*words):
    ran = CliRunner().invoke(main, list(map(str, words)))
    assert ran.exit_code == 0, ran.output
    return ran


# The loss and the solver.


@pytest.mark.parametrize("solver", ["paper", "newton", "careful"])
def test_the_loss_is_minimised(cancer, solver):
    """Twice the paper's loss with a penalty twice as large has the same weights."""
    twice = TopPush(0.2, loss="double_quadratic", solver=solver, tol=1e-8, max_iter=5000)
    once = TopPush(0.1, solver="newton", tol=1e-8).fit(*cancer)
    found = twice.fit(*cancer)
    assert_allclose(found.coef_, once.coef_, rtol=0, atol=1e-2 * np.abs(once.coef_).max())
    assert found.solution_.lower <= 2 * once.solution_.upper
    assert 2 * once.solution_.lower <= found.solution_.upper
    assert found.solution_.upper == pytest.approx(2 * once.solution_.upper, rel=5e-3)


LOSS_LAWS = [
    "fenchel_young_inequality",
    "fenchel_young_equality_at_the_slope",
    "slope_by_differences",
    "curvature_by_differences",
    "convex_and_non_decreasing",
    "domain_of_the_conjugate",
    "slope_spans_the_domain_of_the_conjugate",
    "conjugate_curvature_is_stated_where_it_is_one_number",
    "dual_prox_stays_in_the_domain_and_is_monotone",
    "huge_and_tiny_arguments",
]


@pytest.mark.parametrize("law", LOSS_LAWS)
def test_the_loss_keeps_the_laws_of_losses(law):
    import test_losses

    getattr(test_losses, f"test_{law}")(loss=LOSSES["double_quadratic"])


def test_a_loss_that_is_none_breaks_them():
    import test_losses

    class Wrong(DoubleQuadratic):
        def slope(self, violation):
            return 0.5 * super().slope(violation)

    with pytest.raises(AssertionError):
        test_losses.test_slope_by_differences(loss=Wrong())


@pytest.mark.parametrize("name", ["truncated_quadratic", "logistic"])
def test_the_solver_keeps_the_laws_of_solvers(name):
    import test_solvers

    test_solvers.test_optimum_lies_between_the_bounds(seed=1, name=name, solver="careful")
    test_solvers.test_strong_duality(seed=2, name=name, solver="careful")
    test_solvers.test_weight_zero_is_removal(name=name, top=2, solver="careful")
    test_solvers.test_history(name=name, solver="careful")
    test_solvers.test_max_iter_is_kept_and_said(solver="careful")


def test_solvers_are_known_by_name(cancer):
    with pytest.raises(ValueError, match=r"'solver'.*TopPush"):
        TopPush(solver="careless").fit(*cancer)
    loose, exact = (
        TopPush(0.1, solver=name, tol=1e-2).fit(*cancer) for name in ("newton", "careful")
    )
    assert exact.solution_.relative_gap <= 1e-3 < 1e-2
    assert exact.solution_.n_iter >= loose.solution_.n_iter


# The metric.


METRIC_LAWS = [
    "only_the_order_counts",
    "rows_come_in_any_order",
    "a_weight_is_a_number_of_copies",
    "weight_zero_is_no_row",
    "pos_label_turns_the_classes_round",
]


@pytest.mark.parametrize("law", METRIC_LAWS)
def test_the_metric_keeps_the_laws_of_metrics(law):
    import test_metrics

    getattr(test_metrics, f"test_{law}")(name="r_precision")


def test_the_metric_is_that_of_slow_code(rng):
    import reference_metrics

    for _ in range(20):
        pos, neg = rng.integers(0, 4, 3).tolist(), rng.integers(0, 4, 4).tolist()
        found = r_precision([1] * 3 + [0] * 4, pos + neg)
        assert found == pytest.approx(reference_metrics.precision_at_k(pos, neg, k=3))


def test_the_metric_has_intervals_and_scorers(cancer):
    import test_bootstrap
    import test_metrics

    test_bootstrap.test_measures_of_draws_are_the_metrics(name="r_precision", parameters={})
    test_metrics.test_scorers_survive_pickling("r_precision", cancer)
    search = TopPushCV([0.1, 10.0], tops=(1,), cv=3, scoring="r_precision").fit(*cancer)
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() > 0.8


def test_the_metric_is_in_reports(cancer):
    from toppush.report.ranking import Ranking, metric_rows

    X, y = cancer
    scores = MeanDifference().fit(X, y).decision_function(X)
    rows = {row.name: row.own for row in metric_rows(Ranking.of(y, scores), None)}
    assert rows["R-precision"].value == pytest.approx(r_precision(y, scores))
    assert rows["R-precision"].low < rows["R-precision"].high


# The commands.


def test_fit_and_evaluate_take_them(table, tmp_path):
    model = tmp_path / "cancer.toppush"
    words = ["fit", table, "--output", model, "--lam", "0.1", "--top", "1"]
    ask(*words, "--loss", "double_quadratic")
    found = json.loads(ask("evaluate", model, table, "--json", "--draws", "50").stdout)
    (ours,) = [one for one in found["metrics"] if one["metric"] == "r_precision"]
    assert ours["low"] <= ours["value"] <= ours["high"]
    refused = CliRunner().invoke(main, [*map(str, words), "--loss", "none"])
    assert "double_quadratic" in refused.stderr


def test_compare_takes_the_baseline(table):
    names = "logistic regression,mean difference"
    found = json.loads(ask("compare", table, "--cv", "2", "--methods", names, "--json").stdout)
    assert set(found["folds"]) == {"logistic regression", "mean difference"}
    assert min(found["folds"]["mean difference"]["AUC"]) > 0.8


# The baseline.


def test_the_baseline_is_an_estimator():
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(MeanDifference(), on_skip=None)


def test_the_baseline_runs_through_the_experiments(tmp_path, cancer):
    """In another process, which is handed the method."""
    from reproduce.runner import Plan, run
    from reproduce.store import Store
    from reproduce.table2 import result

    X, y = cancer
    path = str(tmp_path / "diabetes_scale.svm")
    dump_svmlight_file(X, np.where(y, 1, -1), path, zero_based=False)
    plan = Plan(["diabetes"], ["mean-difference"], trials=1, directory=str(tmp_path))
    store = Store(tmp_path / "records.sqlite")
    run(plan, store)
    row, *_ = result(plan, store, {"diabetes": "diabetes"}).tables[0].rows
    assert row[1] == "Mean difference"
    assert float(row[6].split(" ")[0]) > 0.8


def test_the_baseline_has_a_growth():
    from reproduce.growth import table1

    (table,) = table1(["MeanDifference"], seconds=0.0).tables
    assert [row[0] for row in table.rows] == ["MeanDifference"]
