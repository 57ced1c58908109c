"""The report's numbers are the library's, and its page is safe, complete and well formed."""

import re
import stat
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

import toppush.report
from hostile_page import hostile_page
from toppush import TopPush, TopPushCV, metrics, report
from toppush.explain.columns import before_scaling, sources
from toppush.metrics.bootstrap import intervals, metric_at
from toppush.report import page as report_page
from toppush.report import ranking as lists
from toppush.report.contributions import MAX_NAME, largest_contributions, largest_weights
from toppush.report.estimator import FittedRanker
from toppush.report.figures import calibration_figure, scores_figure
from toppush.report.ranking import Ranking, metric_rows, metrics_for

pytestmark = pytest.mark.sampled(3)


def made_list(rng, n_rows=400, *, ties=True):
    positive = rng.random(n_rows) < 0.2
    positive[:2] = True, False
    scores = positive + rng.normal(size=n_rows)
    return positive, np.round(scores, 1) if ties else scores


@st.composite
def small_lists(draw):
    pairs = draw(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=30))
    positive, scores = (np.array(column) for column in zip(*pairs, strict=True))
    positive[:2] = True, False
    return positive, scores.astype(float)


def drawn_data(figure, mark):
    """What the layer of a chart with this mark draws."""
    layer = next(one for one in figure.spec["layer"] if one["mark"]["type"] == mark)
    return figure.spec["datasets"][layer["data"]["name"]]


class TestRanking:
    def test_negatives_come_first_in_a_tie(self):
        ranking = Ranking.of([1, 0, 1, 0], [2.0, 2.0, 3.0, 1.0])
        assert ranking.order.tolist() == [2, 1, 0, 3]
        assert ranking.false_alarms(5).tolist() == [1, 3]

    @given(small_lists())
    def test_rows_until_is_the_shortest_list(self, made):
        ranking = Ranking.of(*made)
        for share in (0.1, 0.5, 0.9, 1.0):
            lengths = np.arange(1, ranking.n_rows + 1)
            enough = ranking.curve.positives_within(lengths) >= share * ranking.n_pos - 1e-9
            assert ranking.rows_until(share) == lengths[enough][0]

    @given(small_lists())
    def test_kept_counts_say_everything_of_a_short_list(self, made):
        counts = lists.kept_counts(Ranking.of(*made))
        assert counts["exact"] == counts["n"] == len(made[0])
        for k in range(1, counts["n"] + 1):
            hits = np.interp(k, counts["depth"], counts["hits"])
            assert hits / k == pytest.approx(metrics.precision_at_k(*made, k=k))

    def test_kept_counts_of_a_long_list_are_few_and_right(self, rng):
        n_rows = 300_000
        positive = rng.random(n_rows) < 0.01
        scores = positive + rng.normal(size=n_rows)
        counts = lists.kept_counts(Ranking.of(positive, scores))
        assert counts["exact"] == 10_000
        assert len(counts["depth"]) < 10_600
        assert counts["depth"][-1] == n_rows
        found = np.cumsum(positive[np.argsort(-scores)])
        depth = np.array(counts["depth"][1:])
        assert_allclose(counts["hits"][1:], found[depth - 1])
        beyond = depth[depth >= 10_000]
        assert (np.diff(beyond) / beyond[:-1]).max() < 0.01

    def test_roc_points_are_those_of_recall_at_fpr(self, rng):
        positive, scores = made_list(rng)
        rates, recall = lists.roc_points(Ranking.of(positive, scores))
        for rate, found in zip(rates[1:], recall[1:], strict=True):
            assert found == metrics.recall_at_fpr(positive, scores, max_fpr=rate)
        assert recall[rates == 0][-1] == metrics.positives_at_top(positive, scores)

    def test_score_groups_share_out_the_list(self, rng):
        positive, scores = made_list(rng, 5000)
        groups = lists.score_groups(Ranking.of(positive, scores))
        assert groups[0].first == 1
        assert groups[-1].last == len(scores)
        for before, after in pairwise(groups):
            assert after.first == before.last + 1
            assert after.highest < before.lowest
        for group in groups:
            inside = (scores >= group.lowest) & (scores <= group.highest)
            assert inside.sum() == group.last - group.first + 1
            assert group.hits == positive[inside].sum()
            assert group.low <= group.share <= group.high
            assert group.median in scores[inside]

    def test_a_dot_stands_where_its_rows_are(self):
        """Of 300 rows, 281 near 0 and the rest near 1000: the middle, 500, is nobody's score."""
        scores = np.append(np.linspace(1000, 1001, 19), np.linspace(1, 0, 281))
        ranking = Ranking.of(np.arange(300) < 19, scores)
        groups = lists.score_groups(ranking)
        figure = calibration_figure(ranking, groups)
        dots = drawn_data(figure, "point")
        assert all(dot["score"] <= 1 or dot["score"] >= 1000 for dot in dots)
        steps, heights = lists.isotonic_share(ranking)
        for dot, group in zip(dots, groups, strict=True):
            assert dot["score"] == pytest.approx(group.median, rel=1e-5)
            line = heights[np.searchsorted(steps, dot["score"], side="right") - 1]
            assert abs(line - dot["share"]) < 0.06

    def test_every_bin_and_step_has_its_width(self, rng):
        ranking = Ranking.of(*made_list(rng))
        edges, *shares = lists.score_shares(ranking)
        drawn = drawn_data(scores_figure(ranking), "line")
        for name, share in zip(("positives", "negatives"), shares, strict=True):
            points = [(one["low"], one["share"]) for one in drawn if one["ranking"] == name]
            expected = zip(edges, np.append(share, share[-1]), strict=True)
            assert_allclose(points, list(expected), rtol=1e-5, atol=1e-9)
        groups = lists.score_groups(ranking)
        *_, before, last = drawn_data(calibration_figure(ranking, groups), "line")
        assert last["share"] == before["share"]
        assert last["score"] > before["score"] == pytest.approx(ranking.score.max())

    def test_isotonic_share_is_isotonic_regression(self, rng):
        positive, scores = made_list(rng)
        steps, heights = lists.isotonic_share(Ranking.of(positive, scores))
        fitted = IsotonicRegression().fit(scores, positive).predict(scores)
        assert (np.diff(heights) >= 0).all()
        ours = heights[np.searchsorted(steps, scores, side="right") - 1]
        assert_allclose(ours, fitted)

    @pytest.mark.parametrize(
        "positive, sentence",
        [
            ([1, 1, 1, 0, 1, 0], "The first false alarm is at rank 4: 3 positives come before it"),
            ([1, 0, 1, 0, 1, 0], "The first false alarm is at rank 2: 1 positive comes before it"),
            ([0, 1, 1, 0, 1, 0], "The highest score belongs to a false alarm."),
            ([1, 1, 1, 0, 0, 0], "All positives come before the first false alarm"),
        ],
    )
    def test_headlines(self, positive, sentence):
        told = lists.headlines(Ranking.of(positive, np.arange(6.0)[::-1]), 2)
        hits = sum(positive[:2])
        verb = "is" if hits == 1 else "are"
        assert told[0] == f"Of the first 2 rows, {hits} {verb} positive."
        assert any(line.startswith(sentence) for line in told)

    def test_headline_of_a_cut_tie_is_an_average(self):
        told = lists.headlines(Ranking.of([1, 0, 0, 1], [1.0, 1.0, 0.0, 0.0]), 1)
        assert told[0] == "Of the first row, 0.5 are positive."


class TestComparison:
    def test_values_are_the_metrics(self, rng):
        positive, scores = made_list(rng, 3000)
        found = {row.name: row.own.value for row in metric_rows(Ranking.of(positive, scores), None)}
        expected = {
            "positives above every negative": metrics.positives_at_top(positive, scores),
            "recall at 10 false positives": metrics.recall_at_10_false_positives(positive, scores),
            "precision in the first 10": metrics.precision_at_k(positive, scores, k=10),
            "precision in the first 100": metrics.precision_at_k(positive, scores, k=100),
            "precision in the first 1,000": metrics.precision_at_k(positive, scores, k=1000),
            "recall at 0.1% false positives": metrics.recall_at_fpr(
                positive, scores, max_fpr=0.001
            ),
            "recall at 1% false positives": metrics.recall_at_fpr(positive, scores, max_fpr=0.01),
            "average precision": metrics.average_precision(positive, scores),
            "NDCG": metrics.ndcg(positive, scores),
            "area under the ROC curve": metrics.auc(positive, scores),
        }
        assert found == pytest.approx(expected)

    def test_a_list_does_not_differ_from_itself(self, rng):
        ranking = Ranking.of(*made_list(rng))
        for row in metric_rows(ranking, ranking):
            assert row.difference.value == 0
            assert row.difference.low <= 0 <= row.difference.high
            assert row.own == row.baseline
            assert row.own.low <= row.own.high

    def test_intervals_are_those_of_evaluate(self, rng):
        """One function, whoever prints them."""
        ranking = Ranking.of(*made_list(rng))
        baseline = Ranking.of(ranking.positive, ranking.score + rng.normal(size=ranking.n_rows))
        top = {"top": metric_at("positives_at_top")}
        expected = intervals(ranking.positive, ranking.score, top)["top"]
        assert metric_rows(ranking, None)[0].own == expected
        assert metric_rows(ranking, baseline)[0].own == expected

    def test_says_what_the_intervals_are_of(self, full_page):
        text = Page(full_page).text
        assert "over new samples" in text
        assert "does not contain 0" in text

    def test_short_lists_have_fewer_measures(self):
        ranking = Ranking.of([1, 0, 1], [3.0, 2.0, 1.0])
        assert not [name for name in metrics_for(ranking) if name.startswith(("prec", "recall"))]

    def test_long_lists_have_no_intervals(self, rng, monkeypatch):
        monkeypatch.setattr("toppush.report.ranking.MAX_ROWS", 100)
        ranking = Ranking.of(*made_list(rng, 101))
        measured = [one.of(ranking.curve) for one in metrics_for(ranking).values()]
        assert [row.own for row in metric_rows(ranking, None)] == measured
        assert [row.difference for row in metric_rows(ranking, ranking)] == [0.0] * len(measured)
        assert "No intervals" in report.build(ranking.positive, ranking.score)


class TestFeatures:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
    def test_contributions_add_up_to_the_score(self, rng, form):
        X = rng.normal(size=(50, 7)) * (rng.random((50, 7)) < 0.5)
        w = rng.normal(size=7)
        features = report.Features.of(form(X), w, rows=[3, 41])
        for row in (3, 41):
            apart = X[row] @ w - (X @ w).mean()
            assert features.contributions(row).sum() == pytest.approx(apart)
        assert_allclose(features.influence(), np.abs(w) * X.std(axis=0))
        assert features.names[0] == "feature 1"

    def test_largest_first(self):
        X = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 2.0]])
        features = report.Features.of(X, [5.0, -1.0, 0.0], list("abc"), rows=[1])
        parts = largest_contributions(features, 8, 1)
        assert [(part.name, part.value, part.amount) for part in parts] == [
            ("a", 1.0, 2.5),
            ("b", 2.0, -1.0),
        ]
        assert [weight.name for weight in largest_weights(features, 8)] == ["a", "b"]

    def test_long_names_are_cut_and_stay_apart(self):
        names = ["n" * 1000 + "a", "n" * 1000 + "b"]
        features = report.Features.of(np.eye(2), [1.0, 2.0], names, rows=[])
        told = {weight.name for weight in largest_weights(features, 8)}
        assert len(told) == 2
        assert max(map(len, told)) < MAX_NAME + 20

    def test_lengths_must_agree(self):
        with pytest.raises(ValueError, match=r"lengths \[2, 3\]"):
            report.Features.of(np.eye(2), [1.0, 2.0], ["a", "b", "c"], rows=[])


def alarm_table(page):
    """Text of the table of false alarms."""
    return Page(page[page.index('id="alarms"') : page.index('id="roc"')]).text


@pytest.fixture(scope="module")
def coloured():
    """Rows with a text, a number far from 1 and a gap; red and old rows are positive."""
    rng = np.random.default_rng(5)
    colour = rng.choice(["red", "green", "blue"], 400)
    age = rng.integers(20, 80, 400).astype(float)
    y = (colour == "red") & (age + 10 * rng.normal(size=400) > 50)
    age[rng.random(400) < 0.1] = np.nan
    return pd.DataFrame({"colour": colour, "age": age}), y


def by_columns(scale):
    pytest.importorskip("pyarrow")
    from toppush.tables.columns import Columns

    return make_pipeline(Columns(), scale, TopPush(0.01, top=0.5))


def by_scikit_learn(scale):
    number = make_pipeline(SimpleImputer(), scale)
    prepare = make_column_transformer((OneHotEncoder(), ["colour"]), (number, ["age"]))
    return make_pipeline(prepare, TopPush(0.01, top=0.5))


class TestReasons:
    @pytest.mark.parametrize(
        "made, scale",
        [
            (by_columns, MaxAbsScaler()),
            (by_columns, MinMaxScaler()),
            (by_scikit_learn, StandardScaler()),
        ],
    )
    def test_are_the_columns_and_values_of_the_row(self, coloured, made, scale):
        X, y = coloured
        ranker = made(scale).fit(X, y)
        scores = ranker.decision_function(X)
        table = alarm_table(report.from_estimator(ranker, X, y))
        assert not re.search("colour(=|_|__)", table)
        alarms = report.first_false_alarms(y, scores)
        assert len(set(X["colour"].iloc[alarms])) < 3, "some colour is absent from the alarms"
        for colour in ("red", "green", "blue"):
            there = (X["colour"].iloc[alarms] == colour).any()
            assert (f"colour = {colour}" in table) == there
        told = {float(age) for age in re.findall(r"age = (\S+)", table)}
        assert told
        assert told <= set(X["age"].iloc[alarms])

    def test_a_gap_is_told_as_one(self, coloured):
        X, y = coloured
        ranker = by_columns(MaxAbsScaler()).fit(X, y)
        X = X.assign(age=np.where(np.arange(len(X)) % 2, np.nan, 20.0))  # 50 in place of a gap
        assert "age is missing" in alarm_table(report.from_estimator(ranker, X, y))

    @pytest.mark.parametrize(
        "columns", [["colour"], [0], [True, False], slice(0, 1), make_column_selector("colour")]
    )
    @pytest.mark.parametrize(
        "encoder, width",
        [
            (OneHotEncoder(), 3),
            (OneHotEncoder(drop="first"), 2),
            (OneHotEncoder(max_categories=2), 2),
        ],
    )
    def test_features_are_traced_to_their_columns(self, coloured, columns, encoder, width):
        step = make_column_transformer((encoder, columns), remainder="passthrough")
        step.fit(coloured[0])
        assert sources(step, 2) == [0] * width + [1]

    @pytest.mark.parametrize("scale", [MaxAbsScaler(), StandardScaler(), RobustScaler()])
    def test_scaling_is_folded_into_the_weights(self, coloured, scale):
        X, y = coloured
        values = np.c_[X["age"].fillna(50.0), 1000 * (X["colour"] == "red")]
        ranker = make_pipeline(scale, TopPush(0.01, top=0.5)).fit(values, y)
        before, weights = before_scaling(ranker[:-1], ranker[-1].coef_[0])
        assert before is None
        scores = ranker.decision_function(values)
        assert_allclose(values @ weights - (values @ weights).mean(), scores - scores.mean())
        told = Page(report.from_estimator(ranker, values, y)).text
        assert f"{values[:, 0].mean():.4g}" in told

    def test_amounts_of_a_column_add_up(self, coloured):
        X, y = coloured
        ranker = by_scikit_learn(StandardScaler()).fit(X, y)
        features = FittedRanker.of(ranker, None).features(X, [3, 4])
        scores = ranker.decision_function(X)
        for row in (3, 4):
            parts = largest_contributions(features, 8, row)
            assert {part.name for part in parts} <= {"colour", "age"}
            total = sum(part.amount for part in parts)
            assert total == pytest.approx(scores[row] - scores.mean(), rel=1e-2)
            assert features.values[row]["colour"] == X["colour"].iloc[row]

    def test_of_arrays_and_of_steps_that_mix_columns(self, coloured):
        X, y = coloured
        encoded = make_pipeline(OneHotEncoder(), TopPush(0.01, top=0.5))
        texts = X[["colour"]].to_numpy()
        assert "column 1 = " in alarm_table(report.from_estimator(encoded.fit(texts, y), texts, y))
        mixed = make_pipeline(SimpleImputer(), PCA(1), MaxAbsScaler(), TopPush(0.01, top=0.5))
        ages = X[["age"]]
        assert sources(mixed[:-1].fit(ages), 1) is None
        assert "pca0 = " in alarm_table(report.from_estimator(mixed.fit(ages, y), ages, y))


class Page(HTMLParser):
    """Elements of a page with their attributes, and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.text, self._open = [], "", []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, data):
        if not self._open:
            self.text += data

    def all(self, *tags):
        return [attrs for tag, attrs in self.elements if tag in tags]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    y = np.where(y == 0, "malignant", "benign")
    return X.iloc[::2], y[::2], X.iloc[1::2], y[1::2]


@pytest.fixture(scope="module")
def ranker(cancer):
    final = TopPush(lam=0.01, positive="malignant")
    return make_pipeline(MaxAbsScaler(), final).fit(*cancer[:2])


@pytest.fixture(scope="module")
def full_page(cancer, ranker):
    X_train, y_train, X, y = cancer
    return report.from_estimator(ranker, X, y, X_train, y_train, facts={"Data": "breast cancer"})


class TestPage:
    def test_sections(self, full_page):
        ids = [attrs["id"] for attrs in Page(full_page).all("section")]
        assert ids == [
            "length",
            "budget",
            "top",
            "reasons",
            "alarms",
            "roc",
            "measures",
            "scores",
            "calibration",
            "weights",
            "certificate",
            "made",
        ]

    def test_only_what_is_known_is_told(self, rng):
        page = Page(report.build(*made_list(rng)))
        ids = [attrs["id"] for attrs in page.all("section")]
        assert ids == [
            "length", "budget", "top", "roc", "measures", "scores", "calibration", "made",
        ]  # fmt: skip
        assert "logistic" not in page.text

    def test_says_what_the_library_says(self, full_page, cancer, ranker):
        text = Page(full_page).text
        X, y = cancer[2:]
        scores, positive = ranker.decision_function(X), y == "malignant"
        hits = 100 * metrics.precision_at_k(positive, scores, k=100)
        assert f"Of the first 100 rows, {hits:g} are positive." in text
        solution = ranker[-1].solution_
        for told in (f"{solution.upper:.6g}", f"{solution.lower:.6g}", solution.status.value):
            assert told in text
        best = int(np.argmax(scores))
        assert f"{X['mean radius'].iloc[best]:.6g}" in text
        for told in ("malignant", "lam=0.01", "MaxAbsScaler → TopPush", "285", "breast cancer"):
            assert told in text
        assert f"{metrics.average_precision(positive, scores):.3f}" in text

    def test_loads_nothing(self, full_page):
        for _, attrs in Page(full_page).elements:
            for name in ("src", "href", "xlink:href", "action", "srcset", "data"):
                link = attrs.get(name) or "#"
                assert link.startswith(("#", "data:,")), link
            assert not [name for name in attrs if name.startswith("on")]
        style = re.search(r"<style>(.*?)</style>", full_page, re.DOTALL)[1]
        assert "url(" not in style
        assert "@import" not in style

    def test_is_accessible_in_structure(self, full_page):
        page = Page(full_page)
        ids = Counter(attrs["id"] for _, attrs in page.elements if "id" in attrs)
        assert max(ids.values()) == 1
        assert page.all("html")[0]["lang"] == "en"
        for landmark in ("header", "nav", "main", "footer", "h1"):
            assert len(page.all(landmark)) == 1
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert all(after <= before + 1 for before, after in pairwise(levels))
        labelled = {attrs["for"] for attrs in page.all("label")}
        assert {attrs["id"] for attrs in page.all("input", "select")} == labelled
        assert all("scope" in attrs for attrs in page.all("th"))
        assert len(page.all("table")) == len(page.all("caption"))
        pictures = [attrs for _, attrs in page.elements if attrs.get("role") == "img"]
        assert len(pictures) == len(page.all("figure")) == 8
        assert all(attrs["aria-label"] for attrs in pictures)
        for attrs in page.all("section"):
            assert attrs["aria-labelledby"] in ids
        links = {attrs["href"][1:] for attrs in page.all("a")}
        assert links <= set(ids)

    def test_charts_are_drawn_without_scripts(self, full_page):
        page = Page(full_page)
        assert len([attrs for attrs in page.all("svg") if attrs.get("class") == "marks"]) == 8
        for told in ("length k (logarithmic)", "logistic regression", "lower bound"):
            assert told in page.text

    def test_hostile_text_stays_text(self):
        hostile = hostile_page()
        page = Page(hostile)
        assert len(page.all("script")) == 4
        assert not page.all("img")
        assert page.text.count("window.pwned=1</script>") > 40
        assert "{{7*7}}" in page.text
        assert "<script>window" not in hostile
        assert "onerror" not in {name for _, attrs in page.elements for name in attrs}

    def test_size_has_a_bound(self, rng, full_page):
        n_rows = 30_000
        positive = rng.random(n_rows) < 0.01
        page = report.build(positive, positive + rng.normal(size=n_rows))
        assert len(page) < 2_500_000
        assert "lengths about 0.8% apart" in page
        assert len(full_page) < 2_000_000

    @pytest.mark.parametrize(
        "table",
        [
            lambda rows: rows,
            pd.DataFrame,
            pl.DataFrame,
            lambda rows: pytest.importorskip("pyarrow").Table.from_pylist(rows),
        ],
        ids=["dictionaries", "pandas", "polars", "arrow"],
    )
    def test_previews_are_rows_of_any_table(self, table):
        rows = [{"who": f"name {i}", "how many": i, "gap": None} for i in range(3)]
        assert lists.table_records(table(rows)) == rows

    def test_a_preview_is_shown(self):
        rows = [{"who": f"name {i}", "how many": i, "gap": None} for i in range(3)]
        frame = pl.DataFrame(rows)
        page = Page(report.build([1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], preview=frame))
        assert "how many" in page.text
        assert "name 2" in page.text
        assert "nan" not in page.text.lower()

    def test_a_gap_leaves_a_column_of_numbers_one(self):
        rows = [{"income": None, "id": "2024-0001-AX"}, {"income": 5, "id": "2024-0002-AX"}]
        page = report.build([1, 0], [2.0, 1.0], preview=rows)
        assert '<th scope="col">income</th>' in page
        assert "<td>-</td>" in page
        assert "<td>5</td>" in page
        assert '<td class="text word">2024-0001-AX</td>' in page

    def test_long_names_may_be_broken_between_words(self):
        name = "RevolvingUtilizationOfUnsecuredLines"
        page = report.build([1, 0], [2.0, 1.0], preview=[{name: 1}])
        assert "Revolving<wbr>Utilization<wbr>OfUnsecured<wbr>Lines" in page
        assert name in Page(page).text

    def test_many_columns_are_left_out_and_counted(self):
        rows = [{f"column {j}": j for j in range(30)}]
        page = Page(report.build([1, 0], [2.0, 1.0], preview=rows))
        assert "18 further columns are not shown" in page.text
        assert "column 11" in page.text
        assert "column 12" not in page.text

    @pytest.mark.parametrize(
        "arguments, message",
        [
            ({"y_true": ["spam", "ham", "spam"]}, "y.*==.*'spam'"),
            ({"y_score": [np.inf, 1.0, 2.0]}, "infinite scores"),
            ({"y_score": [np.nan, 1.0, 2.0]}, "NaN"),
            ({"y_true": [1, 1, 1]}, "classes"),
            ({"y_true": [1, 0]}, "entry"),
            ({"k": 4}, "k must be from 1 to 3"),
            ({"k": 0}, "k must be from 1 to 3"),
        ],
    )
    def test_refusals(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            report.build(**{"y_true": [1, 0, 1], "y_score": [3.0, 2.0, 1.0]} | arguments)

    def test_a_preview_must_be_a_table(self):
        with pytest.raises(TypeError, match="frame"):
            report.build([1, 0], [2.0, 1.0], preview=object())

    def test_two_rows_and_equal_scores_are_enough(self):
        assert "Of the first row, 1 is positive." in report.build([1, 0], [2.0, 1.0])
        assert "Of the first row, 0.5 are positive." in report.build([1, 0], [1.0, 1.0])


class TestFromEstimator:
    @pytest.mark.parametrize(
        "estimator",
        [
            TopPush(lam=0.1, positive="malignant"),
            TopPushCV(lams=[0.1, 1.0], tops=[1, 0.1], cv=2, positive="malignant"),
            make_pipeline(
                StandardScaler(),
                TopPushCV(lams=[0.1, 1.0], tops=[1, 0.1], cv=2, positive="malignant"),
            ),
            GridSearchCV(
                make_pipeline(StandardScaler(), TopPush(positive="malignant")),
                {"toppush__lam": [0.1, 1]},
                cv=2,
            ),
            make_pipeline(StandardScaler(), LogisticRegression()),
        ],
        ids=["TopPush", "TopPushCV", "pipeline", "search", "another linear model"],
    )
    def test_kinds(self, cancer, estimator):
        X_train, y_train, X, y = cancer
        scale = X_train.abs().max()
        estimator.fit(X_train / scale, y_train)
        page = Page(report.from_estimator(estimator, X / scale, y, positive="malignant"))
        scores = estimator.decision_function(X / scale)
        hits = 100 * metrics.precision_at_k(y == "malignant", scores, k=100)
        assert f"Of the first 100 rows, {hits:g} are positive." in page.text
        assert page.text.count("mean radius") >= 2

    def test_contributions_are_of_the_prepared_features(self, cancer, ranker, full_page):
        X, y = cancer[2:]
        page = Page(full_page)
        scores, positive = ranker.decision_function(X), y == "malignant"
        first = report.first_false_alarms(positive, scores)[0]
        prepared = ranker[:-1].transform(X)
        parts = ranker[-1].coef_[0] * (prepared[first] - prepared.mean(axis=0))
        assert f"{np.sort(parts)[-1]:+.3g}" in page.text

    def test_sparse_rows_without_names(self, cancer):
        X_train, y_train, X, y = cancer
        scale = X_train.abs().max().to_numpy()
        ranker = make_pipeline(
            FunctionTransformer(accept_sparse=True), TopPush(positive="malignant")
        )
        ranker.fit(sparse.csr_array(X_train.to_numpy() / scale), y_train)
        rows = sparse.csr_array(X.to_numpy() / scale)
        page = Page(report.from_estimator(ranker, rows, y))
        assert "feature 1" in page.text
        named = report.from_estimator(
            ranker, rows, y, feature_names=[*"abcdefghijklmnopqrstuvwxyzABCD"]
        )
        assert "feature 1" not in Page(named).text

    def test_own_rows_are_shown(self, cancer, ranker):
        X, y = cancer[2:]
        rows = pl.DataFrame({"patient": [f"P{number:04}" for number in range(len(y))]})
        page = Page(report.from_estimator(ranker, X, y, rows=rows))
        order = report.list_order(y == "malignant", ranker.decision_function(X))
        assert re.findall(r"P\d{4}", page.text) == [f"P{number:04}" for number in order[:50]]

    def test_a_problem_without_solution_is_told(self, rng):
        X = rng.normal(size=(400, 2))
        y = rng.random(400) < 0.5
        with pytest.warns(UserWarning, match="zero"):
            ranker = TopPush(lam=1.0).fit(X, y)
        assert "weights of zero are as good as the fitted" in report.from_estimator(ranker, X, y)

    def test_no_caution_where_none_is_due(self, full_page):
        assert "Caution" not in Page(full_page).text


class TestWrite:
    def test_replaces_whole(self, tmp_path):
        path = tmp_path / "report.html"
        report.write(path, "old")
        report.write(str(path), "neue Seite: ä")
        assert path.read_text(encoding="utf-8") == "neue Seite: ä"
        assert [*tmp_path.iterdir()] == [path]
        plain = tmp_path / "plain"
        plain.touch()
        assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)

    def test_a_failure_leaves_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "report.html"
        report.write(path, "old")

        def fail(handle):
            raise OSError("disk full")

        monkeypatch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="disk full"):
            report.write(path, "new")
        assert path.read_text() == "old"
        assert [*tmp_path.iterdir()] == [path]


def luminance(colour):
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast(scheme):
    """Text at 4.5 to 1 on everything it stands on, lines and marks at 3 to 1 (WCAG AA)."""
    folder = Path(toppush.report.__file__).parent / "templates"
    blocks = re.findall(r":root \{(.*?)\}", (folder / "page.css").read_text(), re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", blocks[scheme]))
    for text in ("ink", "soft", "link"):
        for ground in ("paper", "panel", "alarm"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for mark in ("first", "second", "faint"):
        for ground in ("paper", "panel"):
            assert contrast(colours[mark], colours[ground]) >= 3, (mark, ground)


def test_names_are_found_on_first_use():
    for name in report.__all__:
        assert getattr(report, name).__module__.startswith("toppush.report.")
    with pytest.raises(AttributeError, match="'missing'"):
        report.missing  # noqa: B018


@pytest.mark.long
def test_expected_shares_stand_beside_what_is_found():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=500)
    positive = rng.random(500) < 1 / (1 + np.exp(2 - scores))
    page = report.build(
        positive, scores, model=report.ModelDetails(probabilities=np.full(500, 0.99))
    )
    assert "Predicted and observed precision" in page
    assert "too high" in page
    honest = report.ModelDetails(probabilities=1 / (1 + np.exp(2 - scores)))
    honest = report.build(positive, scores, model=honest)
    assert "within it" in honest
    assert "Predicted and observed precision" not in report.build(positive, scores)


@pytest.mark.parametrize(
    "value, text",
    [(1356924.0, "1356924"), (np.float64(2478), "2478"), (0.1234567, "0.123457"), (7, "7"),
     (np.nan, "-"), (None, "-"), (True, "true"), ("x", "x")],
)  # fmt: skip
def test_whole_numbers_keep_their_digits(value, text):
    """An id that is read as a number is no use as 1.35692e+06."""
    assert report_page._cell(value).text == text
