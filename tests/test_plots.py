"""The displays draw what the metrics compute, ties and weights included."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.tree import DecisionTreeClassifier

from toppush import TopPush, metrics
from toppush.plots import TopCurveDisplay, TopRocDisplay, list_lengths

DISPLAYS = [TopCurveDisplay, TopRocDisplay]


@pytest.fixture(autouse=True)
def no_windows():
    """Pictures are kept in memory, and none stays open."""
    from matplotlib import pyplot as plt

    with matplotlib.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.fixture
def tied(rng):
    """A list with many ties."""
    y = rng.random(500) < 0.2
    return y, np.round(y + rng.normal(size=500), 1)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X, np.array(["good", "bad"])[y]


def test_top_curve_is_that_of_the_metrics(tied):
    y, scores = tied
    display = TopCurveDisplay.from_predictions(y, scores)
    for k, precision, recall in zip(display.length, display.precision, display.recall, strict=True):
        assert precision == pytest.approx(metrics.precision_at_k(y, scores, k=int(k)))
        assert recall == pytest.approx(metrics.recall_at_k(y, scores, k=int(k)))
    assert_allclose(display.precision_line_.get_ydata(), display.precision)
    assert_allclose(display.recall_line_.get_xdata(), display.length)
    assert display.prevalence == y.mean()


def test_top_curve_counts_weights(tied, rng):
    y, scores = tied
    weight = rng.integers(1, 4, len(y))
    display = TopCurveDisplay.from_predictions(y, scores, sample_weight=weight)
    repeated = TopCurveDisplay.from_predictions(np.repeat(y, weight), np.repeat(scores, weight))
    assert_allclose(display.length, repeated.length)
    assert_allclose(display.precision, repeated.precision)


@pytest.mark.parametrize("max_fpr", [0.001, 0.01, 0.1, 0.5])
def test_roc_staircase_is_recall_at_fpr(tied, max_fpr):
    y, scores = tied
    display = TopRocDisplay.from_predictions(y, scores)
    x, recall = display.line_.get_data()
    assert display.line_.get_drawstyle() == "steps-post"
    assert recall[x <= max(max_fpr, x[0])][-1] == metrics.recall_at_fpr(y, scores, max_fpr=max_fpr)
    assert x[0] > 0


@pytest.mark.parametrize("display", DISPLAYS)
def test_axes_name_and_chance(tied, display):
    figure = matplotlib.figure.Figure()
    axes = figure.subplots()
    drawn = display.from_predictions(
        *tied, ax=axes, name="mine", pos_label=True, plot_chance_level=True, despine=True
    )
    assert drawn.ax_ is axes
    assert drawn.figure_ is figure
    assert axes.get_xscale() == "log"
    assert "mine" in axes.get_legend().get_texts()[0].get_text()
    assert "positive label: True" in axes.get_ylabel()
    assert drawn.chance_level_ is not None
    assert not axes.spines["top"].get_visible()
    assert drawn.plot().chance_level_ is None
    assert drawn.ax_ is not axes


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(MaxAbsScaler(), TopPush(0.01, positive="good")),
        make_pipeline(MaxAbsScaler(), LogisticRegression()),
        DecisionTreeClassifier(max_depth=3, random_state=0),
    ],
    ids=["TopPush", "decision_function", "predict_proba"],
)
def test_from_estimator(display, estimator, cancer):
    X, y = cancer
    estimator.fit(X, y)
    ours = display.from_estimator(estimator, X, y, pos_label="good")
    assert ours.name == type(estimator).__name__
    if hasattr(estimator, "decision_function"):
        scores = estimator.decision_function(X)
    else:
        scores = estimator.predict_proba(X)[:, 1]
    theirs = display.from_predictions(y, scores, pos_label="good")
    for name in ("precision", "recall", "tpr", "fpr"):
        if hasattr(ours, name):
            assert_allclose(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("display", DISPLAYS)
def test_the_other_class_may_be_wanted(display, cancer):
    X, y = cancer
    ranker = LogisticRegression().fit(X[:, :5] / X[:, :5].max(axis=0), y)
    shown = display.from_estimator(ranker, X[:, :5] / X[:, :5].max(axis=0), y, pos_label="bad")
    best = shown.precision[0] if display is TopCurveDisplay else shown.tpr[shown.fpr < 0.1][-1]
    assert best > 0.6


def test_refusals(cancer):
    X, y = cancer
    ranker = DecisionTreeClassifier(max_depth=2).fit(X, y)
    with pytest.raises(ValueError, match="pos_label='ugly' is none"):
        TopCurveDisplay.from_estimator(ranker, X, y, pos_label="ugly")
    three = DecisionTreeClassifier(max_depth=2).fit(X[:3], [0, 1, 2])
    with pytest.raises(ValueError, match="knows 3 classes"):
        TopRocDisplay.from_estimator(three, X, y)

    class Mute(BaseEstimator):
        classes_ = ("bad", "good")

    with pytest.raises(ValueError, match="neither decision_function nor predict_proba"):
        TopRocDisplay.from_estimator(Mute(), X, y, pos_label="good")


@pytest.mark.parametrize("longest", [1, 2, 99, 100, 101, 12_345, 10**7])
def test_list_lengths(longest):
    lengths = list_lengths(longest)
    assert lengths[0] == 1
    assert lengths[-1] == longest
    assert (np.diff(lengths) >= 1).all()
    assert len(lengths) <= 100 + 200 * max(np.log10(longest / 100), 0) + 2
