"""Columns of free text: which are recognised, their terms, and what rankers learn from them."""

import base64
import hashlib
import io
import json
import pickle
import random
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score

from memory import CLEAR
from test_cli import run
from test_files_archive import array_bytes
from test_files_memory import forgeries, require_little_memory
from test_files_models import archive_of
from test_files_models import forged as sealed
from toppush import TopPushTrees, TopRanker, files
from toppush.auto.members import MEMBERS
from toppush.auto.text import Components, TermPlaces
from toppush.explain.reasons import explain, explain_pair
from toppush.files import fitting
from toppush.modelfile.saving import (
    as_model,
    export_json,
    export_onnx,
    from_bytes,
    to_bytes,
)
from toppush.modeltypes import model_type_named
from toppush.system.errors import ModelError
from toppush.system.reading import DataError
from toppush.tables.text import Terms, as_texts, is_free_text

CALM = ["thank", "you", "for", "the", "meeting", "and", "report", "about", "budget", "plan", "week"]
LOUD = ["free", "prize", "winner", "claim", "cash", "now", "urgent", "click", "offer", "bonus"]
pytestmark = pytest.mark.filterwarnings("ignore:free text is read", "ignore:there are")


def messages(n_rows, seed=0):
    """Sentences; some of the words of positive ones are loud."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < 0.25).astype(int)
    texts = []
    for positive in y:
        words = rng.choice(CALM, rng.integers(5, 12)).tolist()
        if positive:
            words[:2] = rng.choice(LOUD, 2).tolist()
        texts.append(" ".join(words) + f" {rng.integers(1000)}")
    return texts, y


def frame(n_rows=400, seed=0):
    """A table with text, numbers with missing values, and categories."""
    texts, y = messages(n_rows, seed)
    rng = np.random.default_rng(seed + 1)
    amount = rng.normal(size=n_rows) + 0.5 * y
    amount[::7] = np.nan
    place = rng.choice(["North America", "Latin America", "South East Asia"], n_rows)
    X = pd.DataFrame({"amount": amount, "message": texts, "place": place})
    X.loc[::11, "message"] = None
    return X, y


# ---- recognising text


def some(make, n=600, seed=0):
    rng = random.Random(seed)
    return [make(rng) for _ in range(n)]


TEXTS = {
    "messages": messages(300)[0],
    "smiles": some(
        lambda r: "".join(
            r.choice(["C", "CC", "O", "N", "c1ccccc1", "C(=O)", "Cl", "(C)", "S(=O)(=O)", "F"])
            for _ in range(r.randint(4, 15))
        )
    ),
    "requests": some(
        lambda r: (
            "/"
            + "/".join(
                r.choice(["admin", "img", "login.php", "cart"]) for _ in range(r.randint(1, 5))
            )
            + r.choice(["?id=1'+or+1=1", "?page=home", "", "?q=%3Cscript%3E", "?user=root"])
        )
    ),
}
OTHERS = {
    "uuids": some(lambda r: str(uuid.UUID(int=r.getrandbits(128)))),
    "hashes": some(lambda r: hashlib.md5(r.randbytes(9), usedforsecurity=False).hexdigest()),
    "tokens": some(lambda r: base64.b64encode(r.randbytes(r.randint(10, 40))).decode()),
    "codes": some(
        lambda r: f"INV-{r.randint(0, 10**6):07d}-{r.randint(2020, 2026)}-{r.choice('AB')}"
    ),
    "addresses of hosts": some(lambda r: ".".join(str(r.randint(1, 255)) for _ in range(4))),
    "places": some(lambda r: f"({r.uniform(-90, 90):.6f}, {r.uniform(-180, 180):.6f})"),
    "telephones": some(lambda r: f"+49 {r.randint(100, 999)} {r.randint(10**4, 10**5)}"),
    "regions": some(lambda r: r.choice(["North America", "the Middle East and North Africa"])),
    "few": ["a sentence of several words", "another one with other words"],
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_recognised(name):
    strings = TEXTS[name]
    assert is_free_text(set(strings), len(strings))


@pytest.mark.parametrize("name", OTHERS)
def test_ids_codes_and_categories_are_no_text(name):
    strings = OTHERS[name]
    assert not is_free_text(set(strings), len(strings))


def test_repeated_sentences_are_categories():
    """As answers of a questionnaire, of which each is given by many."""
    answers = [f"I rather agree with statement number {n} of them" for n in range(60)]
    assert is_free_text(answers, 100)
    assert not is_free_text(answers, 10_000)


# ---- terms


@given(st.lists(st.text(max_size=30), min_size=1, max_size=12))
def test_terms_are_those_of_scikit_learn(strings):
    terms = Terms.of(strings)
    assert terms.is_valid
    weights = terms.transform(strings)
    assert weights.shape == (len(strings), len(terms)) == (len(strings), len(terms.names))
    expected = []
    for options in ({"ngram_range": (1, 2)}, {"ngram_range": (2, 5), "analyzer": "char_wb"}):
        for least in (2, 1):
            vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=least, **options)
            try:
                expected.append(vectorizer.fit_transform(strings).toarray())
            except ValueError:
                continue
            break
    if expected:
        assert np.allclose(weights.toarray(), np.hstack(expected))
    else:
        assert len(terms) == 0


@given(st.lists(st.text("ab cd", max_size=20), min_size=2, max_size=8))
def test_what_words_add_sums_to_what_terms_add(strings):
    terms = Terms.of(strings)
    amounts = np.random.default_rng(0).normal(size=len(terms))
    weights = terms.transform(strings)
    for row, text in enumerate(strings):
        own = sparse.csr_array(weights[[row]].multiply(amounts))
        assert sum(terms.by_word(text, own).values()) == pytest.approx(own.sum(), abs=1e-9)


def test_missing_text_is_empty():
    assert as_texts([None, float("nan"), pd.NA, "", "a"]) == ["", "", "", "", "a"]
    assert Terms.of(["a b", "a b"]).transform([""]).nnz == 0


def test_unknown_words_are_as_rare_in_training_rows_as_in_new_ones():
    train, new = messages(2000)[0], messages(2000, seed=5)[0]
    terms = Terms.of(train)
    shares = terms.unseen(train, training=True).mean(), terms.unseen(new).mean()
    assert shares[0] == pytest.approx(shares[1], abs=1.0)
    assert terms.unseen(["qqqqq zzzzz", "the qqqqq", ""]).tolist() == [100.0, 50.0, 0.0]


# ---- components


def random_terms(rng, n_rows=30, n_terms=25):
    return sparse.csr_array(sparse.random_array((n_rows, n_terms), density=0.2, rng=rng))


def test_components_are_of_each_text():
    rng = np.random.default_rng(0)
    parts = [random_terms(rng), random_terms(rng, n_terms=60)]
    both = sparse.csr_array(sparse.hstack(parts))
    together = Components.of(both, [25, 60], seed=0)
    assert together.sizes == [25, 60]
    values = together.transform(both)
    for number, part in enumerate(parts):
        own = values[:, together.owners == number]
        assert np.allclose(own, part @ together.axes[number].T)
        assert own.shape[1] == 16


def test_contributions_of_components_are_divided_among_terms():
    rng = np.random.default_rng(1)
    terms = random_terms(rng, n_rows=700)
    terms[[3]] *= 0.0
    terms.eliminate_zeros()
    components = Components.of(terms, [10, 15], seed=0)
    added = rng.normal(size=(700, len(components.owners)))
    shared = components.shared_out(terms, added)
    for number, where in enumerate((slice(0, 10), slice(10, 25))):
        totals = added[:, components.owners == number].sum(axis=1)
        assert np.allclose(shared[:, where].sum(axis=1), totals)
    empty = np.diff(terms.indptr) == 0
    assert empty[3]
    assert set(shared[empty].indices.tolist()) <= {0, 10}
    row, axes = 5, components.axes[0]
    by_hand = np.zeros(10)
    values = terms[[row], :10].toarray()[0]
    for component, of_row in enumerate(added[row, : len(axes)]):
        sizes = np.abs(values * axes[component])
        by_hand += of_row * sizes / sizes.sum() if sizes.sum() else of_row * (np.arange(10) == 0)
    assert np.allclose(shared[[row], :10].toarray()[0], by_hand)


# ---- frames


def test_text_ranks_new_rows():
    X, y = frame()
    new, y_new = frame(seed=9)
    ranker = TopRanker(effort="quick", n_jobs=1).fit(X, y)
    assert list(ranker.text_terms_) == [1]
    assert "text" in [row["name"] for row in ranker.leaderboard_]
    without = TopRanker(effort="quick", n_jobs=1).fit(X[["amount", "place"]], y)
    assert "text" not in {*without.left_out_, *without.members_}
    ours = average_precision_score(y_new, ranker.decision_function(new))
    plain = average_precision_score(y_new, without.decision_function(new[["amount", "place"]]))
    assert ours > plain + 0.2


@pytest.fixture(scope="module")
def fitted():
    X, y = frame()
    weight = np.random.default_rng(3).random(len(y)) + (np.arange(len(y)) % 10 > 0)
    groups = np.arange(len(y)) // 3
    return TopRanker(effort="quick", n_jobs=1).fit(X, y, weight, groups), X, y


def test_a_notice_names_the_column():
    X, y = frame(200)
    with pytest.warns(UserWarning, match="'message'"):
        TopRanker(["text"], cv=2).fit(X, y)


def test_contributions_sum_to_the_score(fitted):
    ranker, X, _ = fitted
    scores = ranker.decision_function(X)
    added = ranker.contributions(X)
    assert added.shape == (len(X), 4)
    assert np.allclose(added.sum(axis=1), scores)
    assert ranker.unexplained_ == []
    by_term = ranker.text_contributions(X)[1]
    assert by_term.shape == (len(X), len(ranker.text_terms_[1]))
    positive = X["message"].str.contains("prize", na=False).to_numpy()
    assert added[positive, 1].mean() > added[~positive, 1].mean()


def test_explanations_name_words(fitted):
    ranker, X, _ = fitted
    best = int(np.argmax(ranker.decision_function(X)))
    why = explain(ranker, X.iloc[[best, *range(20)]])[0]
    reason = next(reason for reason in why.raised_by if reason.column == "message")
    assert any(word in reason.value for word in LOUD)
    pair = explain_pair(ranker, X.iloc[[best]], X.iloc[[0]])
    assert any(part.column == "message" for part in pair.differences)


def test_pickles_and_files_score_alike(fitted):
    ranker, X, _ = fitted
    scores = ranker.decision_function(X)
    assert np.array_equal(pickle.loads(pickle.dumps(ranker)).decision_function(X), scores)
    loaded = from_bytes(to_bytes(as_model(ranker)))
    assert np.allclose(loaded.ranker.decision_function(X), scores)
    assert np.allclose(loaded.ranker.contributions(X), ranker.contributions(X))


def test_arrow_tables_and_arrays_of_objects_are_read_alike(fitted):
    _, X, y = fitted
    quick = TopRanker(["text", "logistic"], cv=2)
    scores = clone(quick).fit(X, y).decision_function(X)
    table = pa.Table.from_pandas(X)
    assert np.allclose(clone(quick).fit(table, y).decision_function(table), scores)
    objects = X.to_numpy(object)
    assert np.allclose(clone(quick).fit(objects, y).decision_function(objects), scores)


def test_text_can_be_forced_or_forbidden():
    X, y = frame(200)
    forced = TopRanker(["text"], cv=2, text_features=["place"]).fit(X, y)
    assert list(forced.text_terms_) == [2]
    ranker = TopRanker(["logistic"], cv=2, text_features=None).fit(X, y)
    assert ranker.text_terms_ == {}
    as_category = TopRanker(["logistic"], cv=2, categorical_features=["message", "place"])
    assert as_category.fit(X, y).text_terms_ == {}
    with pytest.raises(ValueError, match="decide"):
        TopRanker(categorical_features=["place"], text_features=["place"]).fit(X, y)
    with pytest.raises(ValueError, match=r"text_features names 'nothing'"):
        TopRanker(text_features=["nothing"]).fit(X, y)
    with pytest.raises(ValueError, match="no column holds free text"):
        TopRanker(["text"]).fit(X[["amount"]], y)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("text", [None, np.nan, "", "! ? ..."])
def test_text_that_is_the_same_in_all_rows_is_no_failure(text):
    X, y = frame(200)
    X["message"] = text
    ranker = TopRanker(["logistic", "text"], cv=2, text_features=["message"]).fit(X, y)
    assert np.isfinite(ranker.decision_function(X)).all()
    if text != "! ? ...":
        assert "empty in all training rows" in ranker.left_out_["text"]
        assert list(ranker.members_) == ["logistic"]


def test_trees_keep_reading_strings_as_categories():
    X, y = frame(200)
    pytest.importorskip("lightgbm")
    ranker = TopPushTrees(n_members=2, n_jobs=1).fit(X, y)
    assert len(ranker.categories_[1]) > 100


# ---- matrices of weights of terms


def test_positions_of_terms_in_a_matrix():
    X, y = frame()
    texts = X["message"].fillna("")
    weights = TfidfVectorizer().fit_transform(texts)
    table = sparse.csr_matrix(X[["amount"]].to_numpy())
    both = sparse.csr_matrix(sparse.hstack([weights, table]))
    places = np.arange(weights.shape[1])
    ranker = TopRanker(effort="quick", n_jobs=1, text_features=places).fit(both, y)
    assert {"text", "forest", "logistic"} <= {row["name"] for row in ranker.leaderboard_}
    scores = ranker.decision_function(both)
    added = ranker.contributions(both)
    assert added.shape == (len(y), both.shape[1] + 1)
    assert np.allclose(added.sum(axis=1), scores)
    dense = both.toarray()
    alike = clone(ranker).fit(dense, y)
    assert np.allclose(alike.decision_function(dense), scores)
    parts = clone(ranker).set_params(text_features=[places[:10], places[10:]]).fit(both, y)
    assert parts.components_.sizes == [10, len(places) - 10]
    dense[0, 0] = np.nan
    with pytest.raises(ValueError, match="missing"):
        ranker.decision_function(dense)


@pytest.mark.parametrize("wrong", [[0, 0], [99], [-1], [0.5], [[0, 1], [1]], ["a"]])
def test_wrong_positions_are_refused(wrong):
    with pytest.raises(ValueError, match="text_features"):
        TermPlaces.of(wrong, np.zeros((3, 5)))


def test_a_column_is_a_category_or_a_term():
    X = np.random.default_rng(0).random((60, 4))
    y = np.arange(60) % 3 == 0
    with pytest.raises(ValueError, match="choose one"):
        TopRanker(text_features=[1, 2], categorical_features=[2]).fit(X, y)


def test_the_member_is_logistic_regression_of_the_terms():
    X, y = frame()
    ranker = TopRanker(["text"], cv=3).fit(X, y)
    member = ranker.members_["text"]
    terms = ranker.text_terms_[1].transform(as_texts(X["message"]))
    strength = member.penalty_[0]
    model = LogisticRegression(C=1 / strength, solver="liblinear", tol=1e-2).fit(terms, y)
    ours, theirs = ranker.decision_function(X), model.decision_function(terms)
    assert np.corrcoef(ours, theirs)[0, 1] == pytest.approx(1.0)
    assert MEMBERS["text"].on_terms


# ---- files


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X, y = frame(500)
    path = tmp_path_factory.mktemp("text") / "train.csv"
    X.assign(label=np.where(y, "yes", "no")).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(table):
    return files.fit(table, positive="yes", effort="quick", threads=1)


def test_files_need_no_option(model, table):
    kinds = {column["name"]: column["kind"] for column in model.about["columns"]["named"]}
    assert kinds == {"amount": "number", "message": "text", "place": "category"}
    positive, scores = files.labelled(model, table)
    assert average_precision_score(positive, scores) > 0.9
    assert len(json.dumps(model.about["profile"])) < 50_000
    assert {"message (characters)", "message (% unknown words)"} < set(
        model.about["profile"]["columns"]
    )


def test_drift_of_words_is_found(model, tmp_path):
    rows = frame(500, seed=9)[0]
    rows.to_csv(tmp_path / "new.csv", index=False)
    assert files.check(model, tmp_path / "new.csv").drifted() == []
    rows["message"] = rows["message"].str[::-1]
    rows.to_csv(tmp_path / "new.csv", index=False)
    changes = files.check(model, tmp_path / "new.csv").drifted()
    assert "message (% unknown words)" in {change.column for change in changes}


def test_model_files_score_and_explain_alike(model, table, tmp_path):
    files.save(model, tmp_path / "model.toppush")
    loaded = files.load(tmp_path / "model.toppush")
    scores = files.labelled(model, table)[1]
    assert np.allclose(files.labelled(loaded, table)[1], scores)
    best = int(np.argmax(scores)) + 1
    (row,), (pair,) = files.explain_rows(loaded, table, [best], [(best, 3)])
    reason = next(reason for reason in row.why.raised_by if reason.column == "message")
    assert any(word in reason.value for word in LOUD)
    assert any(part.column == "message" for part in pair.why.differences)


def test_linear_models_take_text(table):
    linear = files.fit(table, positive="yes", lam=0.01, top=0.1)
    positive, scores = files.labelled(linear, table)
    assert average_precision_score(positive, scores) > 0.9
    rows = pd.read_csv(table).drop(columns="label")
    by_pipeline = linear.pipeline.decision_function(pa.Table.from_pandas(rows))
    assert np.allclose(scores, by_pipeline)
    loaded = from_bytes(to_bytes(linear))
    assert np.allclose(files.labelled(loaded, table)[1], scores)
    with pytest.raises(ModelError, match="message"):
        export_json(linear, table.parent / "weights.json")


@pytest.mark.parametrize("model_type", ["trees", "additive", "net"])
def test_other_model_types_refuse_text(table, model_type):
    pytest.importorskip({"trees": "lightgbm", "net": "torch"}.get(model_type, "numpy"))
    with pytest.raises(DataError, match=r"message.*--drop message"):
        files.fit(table, positive="yes", model=model_type)


@pytest.mark.parametrize("export", ["onnx", "weights"])
def test_exports_refuse_text_before_the_fit(table, export, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "fit_and_warn", None)
    outputs = ["-o", tmp_path / "model.toppush", f"--{export}", tmp_path / "export"]
    error = run("fit", table, "--model", "linear", *outputs, code=1).stderr
    assert f"--{export} does not take free text, which column message holds" in error
    assert not list(tmp_path.iterdir())


def test_names_with_spaces_are_quoted():
    why = model_type_named("trees").refused_text(["title", "the review"])
    assert "columns title, the review hold" in why
    assert "--drop 'title,the review'" in why


def test_onnx_names_the_text(model, tmp_path):
    pytest.importorskip("onnx")
    with pytest.raises(ModelError, match="message"):
        export_onnx(model, tmp_path / "model.onnx")


def test_options_decide_for_a_column(table):
    forced = files.fit(table, positive="yes", text=["place"], lam=0.01, top=0.1)
    kinds = {column["name"]: column["kind"] for column in forced.about["columns"]["named"]}
    assert kinds["place"] == "text"
    category = files.fit(table, positive="yes", categorical=["message"], lam=0.01, top=0.1)
    kinds = {column["name"]: column["kind"] for column in category.about["columns"]["named"]}
    assert kinds["message"] == "category"
    with pytest.raises(ValueError, match="place"):
        files.fit(table, positive="yes", text=["place"], categorical=["place"])


@pytest.mark.parametrize("form", ["filled", "nan", "codes"])
def test_columns_with_and_without_text_are_alike(form):
    X, _ = frame()
    columns = files.Columns(form=form).fit(X)
    others = files.Columns(form=form).fit(X[["amount", "place"]])
    rows = columns.transform(X)
    names = columns.get_feature_names_out().tolist()
    plain = [names.index(name) for name in others.get_feature_names_out()]
    expected = others.transform(X[["amount", "place"]])
    expected = expected.toarray() if sparse.issparse(expected) else expected
    assert np.array_equal(rows[:, plain].toarray(), expected, equal_nan=True)
    (places,) = columns.term_places()
    texts = as_texts(X["message"])
    assert np.allclose(rows[:, places].toarray(), Terms.of(texts).transform(texts).toarray())
    lengths = rows[:, [names.index("message (characters)")]].toarray()[:, 0]
    assert lengths.tolist() == [len(text) for text in texts]


def forged(model, change):
    """A model file with other terms or components."""
    copied = pickle.loads(pickle.dumps(model))
    change(copied)
    return copied


@pytest.mark.parametrize(
    ("name", "value"),
    [("words", "a\na"), ("words", 7), ("weights", np.zeros(3)), ("pieces", "x")],
)
def test_forged_terms_are_refused(model, name, value):
    def change(copied):
        (text,) = copied.columns.texts
        object.__setattr__(text.terms, name, value)

    with pytest.raises(ModelError):
        to_bytes(forged(model, change))


@pytest.mark.parametrize(
    "axes",
    [
        [],
        [np.zeros((3, 10**6), np.float32)],
        [np.zeros((2, 2), np.float64)],
        [np.zeros((10**9, 0), np.float32)],
    ],
)
def test_forged_components_are_refused(model, axes):
    def change(copied):
        object.__setattr__(copied.ranker.components_, "axes", axes)

    with pytest.raises(ModelError):
        to_bytes(forged(model, change))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not CLEAR.exists(), reason="needs Linux, which tells the peak of memory")
def test_no_number_in_a_model_of_text_makes_it_large(model, fitted):
    for of in (model, as_model(fitted[0])):
        parts = archive_of(of)
        for data in forgeries(parts, most=12):
            require_little_memory(data)
        for name in [name for name in parts if name.endswith(".npy")]:
            array = np.load(io.BytesIO(parts[name]))
            if array.size:
                long = np.resize(array, (20_000, *[1] * (array.ndim - 1)))
                require_little_memory(sealed(parts | {name: array_bytes(long)}))


# ---- the command line


def test_commands_read_text(table, tmp_path):
    pytest.importorskip("click")
    path = tmp_path / "model.toppush"
    fixed = ("--positive", "yes", "--lam", 0.01, "--top", 0.1)
    printed = run("fit", table, "-o", path, *fixed).stdout
    assert "1 numeric, 1 categorical, 1 free text" in printed
    assert "message" in run("info", path).stdout
    ranked = json.loads(run("rank", path, table, "--explain", 3, "--json").stdout)
    assert any(word in json.dumps(ranked) for word in LOUD)
    printed = run("fit", table, "-o", path, *fixed, "--text", "place", "--drop", "message").stdout
    assert "1 numeric, 0 categorical, 1 free text" in printed
    refused = ("--positive", "yes", "--model", "additive")
    failed = run("fit", table, "-o", path, *refused, code=1)
    assert "--drop message" in failed.stderr


def test_folds_by_group_and_time(table, tmp_path):
    rows = pd.read_csv(table)
    rows["customer"], rows["when"] = np.arange(len(rows)) // 2, np.arange(len(rows)) // 5
    rows.to_csv(tmp_path / "roles.csv", index=False)
    for roles in ({"groups": "customer"}, {"time": "when"}, {"sample_weight": "when"}):
        fitted = files.fit(
            tmp_path / "roles.csv", positive="yes", members=["text", "logistic"], **roles,
            drop={"customer", "when"}.difference(roles.values()),
        )  # fmt: skip
        assert {row["name"] for row in fitted.about["leaderboard"]} >= {"text", "logistic"}
        assert fitted.about["out_of_fold"]["average_precision"] > 0.9


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_rows_of_dask_have_no_text(client):
    dask = pytest.importorskip("dask.dataframe")
    X, y = frame(300)
    rows = dask.from_pandas(X, npartitions=2)
    labels = dask.from_pandas(pd.Series(y), npartitions=2)
    with pytest.warns(UserWarning, match="'message'.*Dask"):
        ranker = TopRanker(["linear"]).fit(rows, labels)
    assert ranker.text_terms_ == {}
    with pytest.raises(ValueError, match="text_features"):
        TopRanker(["linear"], text_features=["message"]).fit(rows, labels)
