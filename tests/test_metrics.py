"""Laws of the metrics, and their agreement with slow code and with scikit-learn."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

import reference_metrics
from toppush import metrics

pytestmark = pytest.mark.sampled(3)

PARAMS = {
    "positives_at_top": {},
    "average_precision": {},
    "ndcg": {},
    "auc": {},
    "partial_auc": {"max_fpr": 0.4},
    "precision_at_k": {"k": 2},
    "recall_at_k": {"k": 2},
    "recall_at_fpr": {"max_fpr": 0.4},
    "top_recall": {"n_false": 3},
    "recall_at_10_false_positives": {},
    "lift_at": {"fraction": 0.3},
    "ranking_loss": {},
    "top_loss": {},
}
SHARES = {"positives_at_top", "recall_at_fpr", "ranking_loss", "top_loss", "auc", "partial_auc"}
every_metric = pytest.mark.parametrize("name", PARAMS)
close = partial(assert_allclose, rtol=1e-12, atol=1e-12)


def measure(name, y, score, **params):
    return metrics.METRICS[name](y, score, **{**PARAMS.get(name, {}), **params})


def test_every_metric_is_here():
    assert (
        set(PARAMS)
        == set(metrics.METRICS)
        == set(metrics.__all__)
        - {
            "FOUR",
            "METRICS",
            "Metric",
            "TopCurve",
            "metric",
            "register",
            "scorer",
            "summary",
            "top_curve",
        }
    )


def test_the_summary_is_of_the_measures_it_names(rng):
    y, scores = rng.random(60) < 0.3, rng.integers(0, 20, 60).astype(float)
    for by in ("name", "key", "title"):
        found = metrics.summary(y, scores, by=by)
        assert found == {
            getattr(one, by): metrics.METRICS[one.name](y, scores) for one in metrics.FOUR
        }
    assert list(found) == ["Pos@Top", "AP", "NDCG", "AUC"]


# Scores on a coarse grid, so that most lists have ties; both classes are always there.
grid = st.integers(-3, 3).map(float)
any_score = st.floats(allow_nan=False) | grid
any_weight = st.floats(0.01, 100)


@st.composite
def lists(draw, scores=grid, max_size=20):
    rest = draw(st.lists(st.booleans(), max_size=max_size - 2))
    y = np.array([1, 0, *rest], dtype=int)
    return y, np.array(draw(st.lists(scores, min_size=len(y), max_size=len(y))))


@st.composite
def weighted_lists(draw, weights=any_weight):
    y, score = draw(lists())
    return y, score, draw(arrays(float, len(y), elements=weights))


# ---------------------------------------------------------------- slow code


@st.composite
def limits(draw, name, n_pos, n_neg):
    """Parameters of a metric for a short list; the limits often fall on a row."""
    n_rows = n_pos + n_neg
    depth = draw(st.integers(1, n_rows))
    rate = draw(st.integers(1, n_neg).map(lambda j: j / n_neg) | st.floats(0.01, 1))
    values = {"k": depth, "fraction": depth / n_rows, "max_fpr": rate, "n_false": depth}
    return {param: values[param] for param in PARAMS[name]}


@every_metric
@given(data=st.data())
def test_matches_slow_code(name, data):
    y, score = data.draw(lists(max_size=6))
    pos, neg = score[y == 1].tolist(), score[y == 0].tolist()
    params = data.draw(limits(name, len(pos), len(neg)))
    slow = getattr(reference_metrics, name)(pos, neg, **params)
    close(measure(name, y, score, **params), slow)


def test_by_hand():
    # From the top: +, (+ -), -, +.
    y, score = [1, 1, 0, 0, 1], [4, 3, 3, 2, 1]
    assert metrics.positives_at_top(y, score) == pytest.approx(1 / 3)
    assert metrics.top_loss(y, score) == pytest.approx(2 / 3)
    assert metrics.ranking_loss(y, score) == pytest.approx(3 / 6)
    assert metrics.auc(y, score) == pytest.approx(3.5 / 6)
    assert metrics.average_precision(y, score) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)
    assert metrics.precision_at_k(y, score, k=2) == pytest.approx(1.5 / 2)
    assert metrics.recall_at_k(y, score, k=2) == pytest.approx(1.5 / 3)
    assert metrics.recall_at_fpr(y, score, max_fpr=0.49) == pytest.approx(1 / 3)
    assert metrics.recall_at_fpr(y, score, max_fpr=0.5) == pytest.approx(2 / 3)
    assert metrics.lift_at(y, score, fraction=0.1) == pytest.approx(5 / 3)
    # ROC: (0, 1/3), (1/2, 2/3), (1, 2/3), (1, 1); half way along the tie at 1/4.
    assert metrics.partial_auc(y, score, max_fpr=0.25) == pytest.approx((1 / 3 + 1 / 2) / 2)


# ------------------------------------------------------------- scikit-learn


@given(weighted_lists(any_weight | st.just(0.0)), st.floats(0.01, 1))
def test_agrees_with_sklearn(case, max_fpr):
    y, score, weight = case
    if not all(weight[y == label].any() for label in (0, 1)):
        weight = None
    close(
        metrics.average_precision(y, score, sample_weight=weight),
        average_precision_score(y, score, sample_weight=weight),
    )
    close(
        metrics.auc(y, score, sample_weight=weight),
        roc_auc_score(y, score, sample_weight=weight),
    )
    close(
        metrics.partial_auc(y, score, max_fpr=max_fpr, standardized=True, sample_weight=weight),
        roc_auc_score(y, score, max_fpr=max_fpr, sample_weight=weight),
        rtol=1e-11,
    )
    close(metrics.ndcg(y, score), ndcg_score([y], [score]))


def test_agrees_with_sklearn_on_a_long_list():
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.02).astype(int)
    score = np.round(rng.normal(size=len(y)) + 2 * y, 2)
    weight = rng.exponential(size=len(y))
    for ours, theirs in (
        (metrics.average_precision, average_precision_score),
        (metrics.auc, roc_auc_score),
    ):
        close(ours(y, score, sample_weight=weight), theirs(y, score, sample_weight=weight))
    close(metrics.ndcg(y, score), ndcg_score([y], [score]))


@given(lists(), st.floats(0.01, 0.99))
def test_partial_auc_and_mcclish(case, max_fpr):
    area = max_fpr * metrics.partial_auc(*case, max_fpr=max_fpr)
    least, most = max_fpr**2 / 2, max_fpr
    mcclish = (1 + (area - least) / (most - least)) / 2
    close(mcclish, roc_auc_score(*case, max_fpr=max_fpr), rtol=1e-11)


# --------------------------------------------------------------------- laws


@every_metric
@given(case=lists(any_score))
def test_only_the_order_counts(name, case):
    y, score = case
    ranks = np.unique(score, return_inverse=True)[1]
    close(measure(name, y, ranks), measure(name, y, score))


@every_metric
@given(case=weighted_lists(), seed=st.integers(0, 2**32 - 1))
def test_rows_come_in_any_order(name, case, seed):
    y, score, weight = case
    order = np.random.default_rng(seed).permutation(len(y))
    shuffled = measure(name, y[order], score[order], **depth_of(name, weight[order]))
    close(shuffled, measure(name, y, score, **depth_of(name, weight)), rtol=1e-10)


def depth_of(name, weight):
    """The weights, and a k that fits into them."""
    fits = {"k": 1} if name.endswith("_k") else {}
    return {"sample_weight": np.maximum(weight, 0.5), **fits}


@every_metric
@given(case=weighted_lists(st.integers(1, 4).map(float)))
def test_a_weight_is_a_number_of_copies(name, case):
    y, score, weight = case
    copies = weight.astype(int)
    repeated = measure(name, np.repeat(y, copies), np.repeat(score, copies))
    close(measure(name, y, score, sample_weight=weight), repeated)


@every_metric
@given(case=lists(), extra=lists(any_score))
def test_weight_zero_is_no_row(name, case, extra):
    both = [np.concatenate(pair) for pair in zip(case, extra, strict=True)]
    weight = np.repeat([1.0, 0.0], [len(case[0]), len(extra[0])])
    assert measure(name, *both, sample_weight=weight) == measure(name, *case)


@pytest.mark.parametrize("name", sorted(SHARES | {"average_precision", "lift_at"}))
@given(case=weighted_lists(), scale=st.sampled_from([1e-90, 0.1, 7.0, 1e90]))
def test_the_unit_of_weight_is_free(name, case, scale):
    y, score, weight = case
    scaled = measure(name, y, score, sample_weight=scale * weight)
    close(scaled, measure(name, y, score, sample_weight=weight))


@every_metric
@given(case=lists())
def test_pos_label_turns_the_classes_round(name, case):
    y, score = case
    assert measure(name, y, score, pos_label=0) == measure(name, 1 - y, score)


@given(lists(any_score))
def test_proposition_1(case):
    rank, top = metrics.ranking_loss(*case), metrics.top_loss(*case)
    n_neg = np.count_nonzero(case[0] == 0)
    assert rank <= top + 1e-12
    assert top <= min(n_neg * rank, 1) + 1e-12


@given(weighted_lists())
def test_relations(case):
    y, score, weight = case
    find = partial(measure, y=y, score=score, sample_weight=weight)
    assert find("top_loss") == 1 - find("positives_at_top")
    close(find("partial_auc", max_fpr=1), find("auc"))
    close(find("lift_at", fraction=1), 1)
    close(find("recall_at_fpr", max_fpr=1), 1)
    close(find("top_recall", n_false=0.9 * weight[y == 0].min()), find("positives_at_top"))
    strictly_above = 1 - find("ranking_loss")
    close(find("top_recall", n_false=weight.sum()), strictly_above)
    lightest = weight[y == 0].min() / weight[y == 0].sum()
    close(find("recall_at_fpr", max_fpr=0.9 * lightest), find("positives_at_top"))
    close(metrics.auc(y, -score, sample_weight=weight), 1 - find("auc"))


@given(lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_auc_and_ranking_loss_without_ties(case):
    y, score = case
    ranks = np.argsort(np.argsort(score))
    close(metrics.auc(y, ranks), 1 - metrics.ranking_loss(y, ranks))


@every_metric
@pytest.mark.parametrize("sign", [1, -1])
def test_best_and_worst_lists(name, sign):
    y = np.repeat([0, 1], [7, 3])
    value = measure(name, y, sign * np.arange(10))
    if name == "ndcg":
        lowest = np.sum(1 / np.log2([9, 10, 11])) / np.sum(1 / np.log2([2, 3, 4]))
        assert value == pytest.approx(1 if sign > 0 else lowest)
    elif name == "average_precision":
        assert value == pytest.approx(1 if sign > 0 else (1 / 8 + 2 / 9 + 3 / 10) / 3)
    else:
        best = {"recall_at_k": 2 / 3, "lift_at": 10 / 3, "ranking_loss": 0, "top_loss": 0}
        worst = {"ranking_loss": 1, "top_loss": 1, "recall_at_10_false_positives": 1}
        assert value == pytest.approx((best if sign > 0 else worst).get(name, int(sign > 0)))


# ------------------------------------------------------------------- inputs

LABELS = [0, 1, 1, 0, 1]
SCORES = [0.25, 0.75, 0.5, 0.5, -1.0]


@every_metric
@pytest.mark.parametrize(
    "container",
    [list, tuple, np.array, partial(np.array, dtype=object), pd.Series, pl.Series],
    ids=["list", "tuple", "array", "object", "pandas", "polars"],
)
def test_containers(name, container):
    found = measure(name, container(LABELS), container(SCORES))
    assert found == measure(name, np.array(LABELS), np.array(SCORES, dtype=np.float32))


@pytest.mark.parametrize(
    "classes",
    [(0, 1), (-1, 1), (1, 2), (False, True), (0.0, 0.5), ("0", "1"), ("false", "TRUE")],
)
def test_the_greater_class_is_positive(classes):
    y = [classes[label] for label in LABELS]
    assert metrics.auc(y, SCORES) == metrics.auc(LABELS, SCORES)
    assert metrics.auc(np.array(y, dtype=object), SCORES) == metrics.auc(LABELS, SCORES)
    flipped = metrics.auc([1 - label for label in LABELS], SCORES)
    assert metrics.auc(y, SCORES, pos_label=classes[0]) == flipped


def test_scores_keep_their_precision():
    # The two scores are one float64, but two integers.
    assert metrics.positives_at_top([0, 1], [2**60, 2**60 + 1]) == 1
    assert metrics.ranking_loss([0, 1], np.array([0, 2**64 - 1], dtype=np.uint64)) == 0
    assert metrics.auc([0, 1, 1], np.array([False, True, False])) == 0.75


def test_infinite_scores_are_an_order():
    y, score = [1, 0, 1, 0], [np.inf, np.inf, 0.0, -np.inf]
    assert metrics.auc(y, score) == (0.5 + 1 + 1) / 4
    assert metrics.positives_at_top(y, score) == 0


def test_rounded_sums_of_weights_do_not_move_a_limit():
    tenths, score = np.full(11, 0.1), -np.arange(11.0)
    assert tenths[:3].sum() > 0.3 > 0.3 * tenths[:10].cumsum()[-1]
    y = np.repeat([0, 1, 0], [3, 1, 7])
    assert metrics.recall_at_fpr(y, score, max_fpr=0.3, sample_weight=tenths) == 1
    assert 0.1 + tenths[:9].cumsum()[-1] < 1
    y, score = np.repeat([1, 0], [1, 9]), np.zeros(10)
    close(metrics.precision_at_k(y, score, k=1, sample_weight=tenths[:10]), 0.1)


def test_a_weight_lost_in_the_sum_changes_nothing():
    y, score = [1, 0, 1], [3, 2, 1]
    close(metrics.ndcg(y, score, sample_weight=[1, 1, 1e-30]), 1)


# ------------------------------------------------------------------- errors


@every_metric
@pytest.mark.parametrize(
    "y, score, message",
    [
        ([1, 1], [0.1, 0.2], r"\[1\]"),
        ([], [], "classes"),
        (["a", "b", "c"], [1, 2, 3], r"\['a'.*'b'.*'c'\]"),
        ([0, 1, np.nan], [1, 2, 3], "y_true.*NaN"),
        ([None, "a"], [1, 2], "missing"),
        ([0, 1, 1], [1, 2], r"y_true.*\(3,\).*y_score.*\(2,\)"),
        ([[0], [1]], [[1], [2]], r"y_true has shape \(2, 1\)"),
        ([0, 1, 1], [1, np.nan, np.nan], "y_score.*2.*NaN"),
        ([0, 1], ["1", "2"], "<U1"),
        ([0, 1], [1j, 2j], "complex128"),
        ([0, 1], np.array([1, "x"], dtype=object), "numbers"),
    ],
)
def test_refuses_lists(name, y, score, message):
    with pytest.raises(ValueError, match=message):
        measure(name, y, score)


@every_metric
@pytest.mark.parametrize(
    "weight, message",
    [
        ([1, 1, -2, 1, 1], "finite.*0.*-2"),
        ([1, np.nan, 1, 1, 1], "finite.*0"),
        ([1, np.inf, 1, 1, 1], "finite.*0"),
        ([1, 1], r"sample_weight has shape \(2,\)"),
        ([1, 0, 0, 1, 0], "positives.*0"),
        ([0, 1, 1, 0, 1], "negatives.*0"),
    ],
)
def test_refuses_weights(name, weight, message):
    with pytest.raises(ValueError, match=message):
        measure(name, LABELS, SCORES, sample_weight=weight)


@every_metric
@pytest.mark.parametrize("pos_label", [2, "1"])
def test_refuses_a_pos_label_that_is_not_there(name, pos_label):
    with pytest.raises(ValueError, match=r"pos_label=.*0.*1"):
        measure(name, LABELS, SCORES, pos_label=pos_label)


@pytest.mark.parametrize(
    "name, param",
    [("partial_auc", "max_fpr"), ("recall_at_fpr", "max_fpr"), ("lift_at", "fraction")],
)
@pytest.mark.parametrize("value", [0, -0.1, 1.1, np.nan])
def test_refuses_shares(name, param, value):
    with pytest.raises(ValueError, match=f"{param} must be above 0 and at most 1, got {value}"):
        measure(name, LABELS, SCORES, **{param: value})


@pytest.mark.parametrize("name", ["precision_at_k", "recall_at_k"])
def test_refuses_depths(name):
    for k in (0, -1, 6):
        with pytest.raises(ValueError, match=f"k must be from 1 to 5, .* got {k}"):
            measure(name, LABELS, SCORES, k=k)
    with pytest.raises(TypeError, match="integer"):
        measure(name, LABELS, SCORES, k=2.5)


def test_ndcg_refuses_endless_lists():
    with pytest.raises(ValueError, match=r"5e\+12.*sample_weight"):
        metrics.ndcg(LABELS, SCORES, sample_weight=np.full(5, 1e12))


# ------------------------------------------------------------------ scorers


@pytest.fixture(scope="module")
def mail():
    X, y = make_classification(300, 6, weights=[0.7], flip_y=0.1, random_state=0)
    return X, np.array(["ham", "spam"])[y]


def spam_scorer(name, label="spam"):
    return metrics.scorer(name, **PARAMS.get(name, {}), pos_label=label)


@every_metric
def test_scorers_score_each_fold(name, mail):
    X, y = mail
    folds, model = StratifiedKFold(3), LogisticRegression()
    found = cross_val_score(
        model,
        X,
        y,
        cv=folds,
        scoring=spam_scorer(name),
        error_score="raise",
    )
    sign = -1 if name.endswith("_loss") else 1
    expected = [
        sign
        * measure(name, y[test] == "spam", model.fit(X[train], y[train]).decision_function(X[test]))
        for train, test in folds.split(X, y)
    ]
    assert found.tolist() == expected


@every_metric
def test_scorers_survive_pickling(name, mail):
    model = LogisticRegression().fit(*mail)
    scorer = spam_scorer(name, model.classes_[-1])
    assert pickle.loads(pickle.dumps(scorer))(model, *mail) == scorer(model, *mail)


def test_scorers_take_probabilities(mail):
    X, y = mail
    model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
    expected = metrics.average_precision(y == "spam", model.predict_proba(X)[:, 1])
    assert spam_scorer("average_precision")(model, X, y) == expected


def test_scorers_follow_pos_label(mail):
    X, y = mail
    model = LogisticRegression().fit(X, y)
    found = metrics.scorer("positives_at_top", pos_label="ham")(model, X, y)
    expected = metrics.positives_at_top(y == "ham", -model.decision_function(X))
    assert found == expected > 0


def test_scorers_choose_in_a_grid(mail):
    search = GridSearchCV(
        LogisticRegression(),
        {"C": [1e-4, 1.0]},
        scoring={name: spam_scorer(name) for name in PARAMS},
        refit="ranking_loss",
        cv=3,
        error_score="raise",
    ).fit(*mail)
    losses = -search.cv_results_["mean_test_ranking_loss"]
    assert losses[search.best_index_] == losses.min() < losses.max()
    assert search.cv_results_["mean_test_auc"] == pytest.approx(1 - losses)


def test_scorer_refuses_what_cannot_be_scored():
    with pytest.raises(ValueError, match=r"'map'.*\['auc'"):
        metrics.scorer("map")
    with pytest.raises(TypeError, match=r"missing.*'k'"):
        metrics.scorer("precision_at_k")
    with pytest.raises(TypeError, match="'depth'"):
        metrics.scorer("auc", depth=3)


@every_metric
@pytest.mark.parametrize("weight", [1e308, 1e-165, 5e-324])
def test_weights_beyond_float64_are_refused_by_their_size(name, weight):
    """Their sum overflowed, or was lost."""
    with pytest.raises(ValueError, match=f"{weight:g}".replace("+", r"\+")):
        measure(name, [0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0], sample_weight=[1.0, weight, weight, 1.0])
