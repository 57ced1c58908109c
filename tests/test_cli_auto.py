"""The default: a combination of rankers from a file, its table, its file, its exports."""

import copy

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline

from files import DROP, made_rows, odd_rows, write
from test_cli import result, run
from toppush import TopPush, TopRanker, files
from toppush.auto import members
from toppush.auto.members import Member
from toppush.cli.info import leaderboard_parts, leaderboard_table
from toppush.files import ModelError
from toppush.modelfile import saving
from toppush.modelfile.saving import export_onnx
from toppush.modeltypes import MODEL_TYPES, model_type_of, select_model_type
from toppush.modeltypes import base as kinds_base
from toppush.modeltypes.base import FitRows

QUICK = {"label": "fraud", "drop": DROP, "effort": "quick", "threads": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("auto")
    write(folder / "train.csv", made_rows(300))
    write(folder / "new.csv", odd_rows())
    return folder


@pytest.fixture(scope="module")
def model(folder):
    pytest.importorskip("lightgbm")
    return files.fit(folder / "train.csv", members=["logistic", "trees", "forest"], **QUICK)


@pytest.fixture(scope="module")
def whole(folder):
    """Members of every kind that takes gaps and texts, each with a weight."""
    pytest.importorskip("lightgbm")
    names = ["logistic", "linear", "boosted", "trees", "forest", "kernel", "additive"]
    found = files.fit(folder / "train.csv", members=names, **QUICK)
    ranker = TopRanker(names, effort="quick", categorical_features=[2], n_jobs=1)
    X = found.pipeline[:-1].transform(pa.table(made_rows(300)))
    with pytest.MonkeyPatch.context() as patch:
        equal = lambda lists, *_: np.full(len(lists.scores), 1.0 / len(lists.scores))  # noqa: E731
        patch.setattr("toppush.auto.ranker.choose_weights", equal)
        ranker.fit(X, np.array(made_rows(300)["fraud"]) == "yes")
    assert set(ranker.members_) == set(names)
    return files.Model(Pipeline([*found.pipeline.steps[:-1], ("ranker", ranker)]), found.about)


def batch():
    return pa.table(odd_rows()).to_batches()[0]


# ---- which kind is fitted


def test_without_a_kind_it_is_auto_or_linear_by_its_options():
    assert select_model_type(None).name == "auto"
    assert select_model_type(None, cv=3, lam=None).name == "auto"
    for option in ("lam", "top", "loss", "scale", "tol"):
        assert select_model_type(None, **{option: 1}).name == "linear"
        assert select_model_type("trees", **{option: 1}).name == "trees"


def test_options_reach_the_ranker(folder):
    made = MODEL_TYPES["auto"].options(
        effort="thorough", seconds=5.0, members=("logistic",), scoring="ndcg", cv=3, threads=2
    )
    rows = FitRows(np.array([True, False] * 9), None, folder, None)
    ranker = MODEL_TYPES["auto"].ranker(made, rows, 7)
    assert ranker.get_params() == {
        "members": ["logistic"], "effort": "thorough", "seconds": 5.0, "scoring": "ndcg", "cv": 3,
        "categorical_features": None, "text_features": None, "n_jobs": 2, "positive": None,
        "random_state": 7, "verbose": 0,
    }  # fmt: skip


# ---- what is said


@pytest.fixture(scope="module")
def printed(folder):
    given = ("fit", folder / "train.csv", "-o", folder / "m", "--label", "fraud", "--drop", "id",
             "--effort", "quick", "--threads", 1)  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        return run(*given)


def test_fit_prints_the_leaderboard(printed, folder):
    about = result("info", folder / "m")
    lines = [line.split() for line in printed.stdout.splitlines()]
    start = next(at for at, line in enumerate(lines) if line[:1] == ["member"])
    assert [line[0] for line in lines[start + 2 : start + 2 + len(about["leaderboard"])]] == [
        row["name"] for row in about["leaderboard"]
    ]
    assert max(map(len, printed.stdout.splitlines()[start : start + 6])) <= 80
    scores = [row["score"] for row in about["leaderboard"]]
    assert scores == sorted(scores, reverse=True)
    assert [f"{score:.3f}" in line for score, line in zip(scores, lines[start + 2 :], strict=False)]
    assert "against logistic regression (" in printed.stdout
    told = run("info", folder / "m").stdout
    assert (
        printed.stdout.splitlines()[start + 3].split()
        == told.splitlines()[
            next(at for at, line in enumerate(told.splitlines()) if line.split()[:1] == ["member"])
            + 3
        ].split()
    )


def test_nobody_is_warned_of_degenerate_members(printed):
    assert printed.stderr.count("Warning") == 0


def entry(name, **more):
    row = {"name": name, "weight": 0.5, "score": 0.5, "positives_at_top": 0.1,
           "average_precision": 0.5, "average_precision_low": 0.4, "average_precision_high": 0.6,
           "seconds": 1.0}  # fmt: skip
    return row | more


def told(first, against, weights=("trees", "logistic"), **more):
    about = {
        "leaderboard": [entry(first), entry("others"), entry("more")],
        "fit": {"weights": dict.fromkeys(weights, 1 / len(weights))},
        "against": against,
    } | more
    table, *sentences = leaderboard_parts(about)
    assert len(table.rows) == 3
    return " ".join(sentences)


def test_the_verdict_says_whether_it_is_noise():
    ahead = {"name": "logistic", "difference": 0.05, "low": 0.01, "high": 0.09}
    near = {"name": "boosted", "difference": -0.01, "low": -0.03, "high": 0.02}
    said = told("combination", [ahead, near])
    assert "the combination ranks best by score" in said
    assert "+0.050 against logistic regression (significant)" in said
    assert "-0.010 against boosted (not significant)" in said
    behind = {"name": "trees", "difference": -0.05, "low": -0.09, "high": -0.01}
    said = told("trees", [behind], left_out={"net": "torch is not installed"})
    assert "trees ranks best by score" in said
    assert "-0.050 against trees (significant)." in said
    assert "Caution: trees alone is significantly better; use it with --members trees." in said
    assert said.endswith("Left out: net (torch is not installed).")
    said = told("combination", [ahead | {"name": "trees"}, ahead], weights=["trees"])
    assert "Average precision of trees: +0.050 against logistic regression" in said
    unknown = ahead | {"low": None, "high": None}
    assert told("combination", [unknown]).endswith("+0.050 against logistic regression.")


def test_the_verdict_and_the_table_name_the_same_winner():
    rows = [
        entry("combination", score=0.7, average_precision=0.5),
        entry("trees", score=0.6, average_precision=0.544),
    ]
    about = {"leaderboard": [*rows, entry("forest")], "against": []}
    about["fit"] = {"weights": {"trees": 0.5, "forest": 0.5}, "scoring": None}
    table, *sentences = leaderboard_parts(about)
    scores = [row[table.columns.index("score")] for row in table.rows[:2]]
    assert scores == ["0.700", "0.600"]
    said = " ".join(sentences)
    assert "the combination ranks best by score" in said
    assert "By average precision, trees ranks best" in said


@pytest.mark.parametrize(("low", "is_said"), [(-0.01, True), (0.01, False)])
def test_a_quick_fit_that_would_do_is_said(low, is_said):
    quick = {"extra": ["linear", "trees"], "difference": 0.02, "low": low, "high": 0.04,
             "seconds": 1.5, "all_seconds": 9.0}  # fmt: skip
    said = told("combination", [], quick=quick)
    assert ("--effort quick" in said) is is_said
    assert ("1.5 s of 9.0 s" in said) is is_said


def test_one_row_of_a_class_is_too_few(tmp_path):
    path = write(tmp_path / "t.csv", {"x": [1, 2, 3], "label": [0, 0, 1]})
    with pytest.raises(files.DataError, match=r"t\.csv.*1 positives.*\(1\.0\).*2 neg"):
        files.fit(path)


def test_without_lightgbm_the_others_do_it(folder, tmp_path, monkeypatch):
    find = "toppush.auto.members.find_spec"
    monkeypatch.setattr(find, lambda name: None if name == "lightgbm" else name)
    ran = run("fit", folder / "train.csv", "-o", tmp_path / "m", "--label", "fraud", "--drop", "id",
              "--effort", "quick", "--threads", 1)  # fmt: skip
    assert (
        "Left out: boosted (lightgbm is not installed: pip install 'toppush[trees]')" in ran.stdout
    )
    assert "lightgbm" not in result("info", tmp_path / "m")["versions"]


def test_weights_and_groups_reach_the_combination(folder, tmp_path):
    rows = made_rows(300)
    rows["w"], rows["who"] = [1.0, 2.0] * 150, [f"c{place % 40}" for place in range(300)]
    path = write(tmp_path / "t.csv", rows)
    found = files.fit(path, **QUICK, members=["logistic"], sample_weight="w", groups="who")
    assert found.about["data"]["groups"] == "who"
    assert [one["low"] for one in found.about["against"]] == [None]
    assert found.ranker.cv == 3


def test_few_groups_make_few_folds_and_weights_may_be_sums_of_money(tmp_path):
    rows = made_rows(300)
    rows["w"], rows["who"] = [1e9, 2e9] * 150, ["a", "b"] * 150
    path = write(tmp_path / "t.csv", rows)
    given = QUICK | {"members": ["logistic"], "sample_weight": "w"}
    found = files.fit(path, **given, groups="who")
    assert 0.0 < found.about["out_of_fold"]["average_precision"] < 1.0
    table = leaderboard_table(found.about["leaderboard"])
    assert [row[5] for row in table.rows] == ["-", "-"]
    with pytest.raises(files.DataError, match="2 groups"):
        files.fit(path, **given, groups="who", cv=3)
    rows["who"] = ["a"] * 300
    with pytest.raises(files.DataError, match=r"1 groups.*--groups"):
        files.fit(write(tmp_path / "t.csv", rows), **given, groups="who")


def test_what_is_no_date_is_said_once(tmp_path):
    rows = made_rows(300)
    rows["when"] = [f"2024-{row % 12 + 1:02d}-{row % 28 + 1:02d}" for row in range(300)]
    model = files.fit(write(tmp_path / "t.csv", rows), **QUICK, members=["logistic"])
    rows["when"] = ["soon"] * 300
    with pytest.raises(files.DataError, match=r"column when.*'soon'") as found:
        files.rank(model, write(tmp_path / "new.csv", rows))
    assert str(found.value).count("soon") == 1


# ---- the file


def test_saved_and_opened_it_scores_the_same(whole, tmp_path):
    files.save(whole, tmp_path / "m")
    again = files.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.decision_function(batch()), whole.decision_function(batch())
    )
    assert again.ranker.leaderboard_ == whole.ranker.leaderboard_
    assert not hasattr(again.ranker, "out_of_fold_")
    for one in again.ranker.members_.values():
        assert not hasattr(one, "out_of_fold_")
        assert one.cv is None


def test_saving_leaves_the_model_as_it_was(model):
    before = model.decision_function(batch())
    saving.to_bytes(model)
    np.testing.assert_array_equal(model.decision_function(batch()), before)
    assert model.ranker._board is not None
    assert model.ranker.members_["trees"].texts_[0].startswith("tree")
    assert len(model.ranker.out_of_fold_) == 300


@pytest.mark.filterwarnings("ignore:base model:UserWarning")
def test_members_without_a_name_cannot_be_saved(rng, tmp_path):
    X, y = rng.normal(size=(80, 3)), rng.random(80) < 0.4
    ranker = TopRanker([LogisticRegression()], effort="quick").fit(X, y)
    with pytest.raises(ModelError, match="'logisticregression' is a LogisticRegression"):
        files.save(ranker, tmp_path / "m")


def test_rankers_of_toppush_that_are_given_can_be_saved(rng, tmp_path):
    X, y = rng.normal(size=(80, 3)), rng.random(80) < 0.4
    ranker = TopRanker([("mine", TopPush(0.1, top=0.1)), "logistic"]).fit(X, y)
    assert "mine" in ranker.raw_
    files.save(ranker, tmp_path / "m")
    assert_array_equal(files.load(tmp_path / "m").decision_function(X), ranker.decision_function(X))


def test_members_that_no_file_can_hold_are_refused_before_the_fit(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(members.MEMBERS, "own", Member(lambda data: GaussianNB()))
    monkeypatch.setattr(TopRanker, "fit", None)
    told = run("fit", folder / "train.csv", "-o", tmp_path / "m", "--label", "fraud", "--drop",
               "id", "--members", "logistic,own", code=2).stderr  # fmt: skip
    assert "'own'" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "missing", "named"),
    [
        (["--weights"], None, "--weights"),
        (["--onnx"], "onnx", "onnx"),
        (["--model", "trees", "--onnx"], "onnx", "onnx"),
        (["--model", "linear", "--weights"], "skops", "skops"),
    ],
)
def test_exports_that_cannot_be_are_refused_before_anything_is_read(
    options, missing, named, tmp_path, monkeypatch
):
    found = kinds_base.find_spec
    monkeypatch.setattr(
        kinds_base, "find_spec", lambda name: None if name == missing else found(name)
    )
    rows = tmp_path / "empty.csv"
    rows.touch()
    told = run(
        "fit", rows, "-o", tmp_path / "m", *options, tmp_path / "x", code=1 if missing else 2
    ).stderr
    assert named in told
    assert list(tmp_path.iterdir()) == [rows]


def test_an_export_that_fails_leaves_no_model(folder, tmp_path, monkeypatch):
    def fail(*given):
        raise ModelError("no")

    monkeypatch.setattr(type(MODEL_TYPES["linear"]), "add_to_graph", fail)
    run("fit", folder / "train.csv", "-o", tmp_path / "m", "--label", "fraud", "--drop", "id",
        "--lam", "1", "--top", "10%", "--onnx", tmp_path / "x", code=1)  # fmt: skip
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda ranker: ranker.weights_.pop("trees"), "together"),
        (lambda ranker: ranker.weights_.update(trees=float("nan")), "finite"),
        (lambda ranker: ranker.scales_.update(trees=0.0), "scale.*0"),
        (lambda ranker: setattr(ranker, "raw_", ["nobody"]), "together"),
        (lambda ranker: ranker.members_.update(trees=LogisticRegression()), "can hold"),
        (lambda ranker: ranker.members_.update(trees=ranker), "can hold"),
        (lambda ranker: ranker.members_["trees"].texts_.append("x"), "no LightGBM model"),
        (lambda ranker: setattr(ranker.members_["forest"], "right_", _ones(ranker)), "no tree"),
        (lambda ranker: _curves(ranker)["levels"].fill(60), "weights"),
        (lambda ranker: _curves(ranker).update(sizes=np.array([1])), "values"),
        (lambda ranker: _curves(ranker).pop("means"), "not described"),
    ],
)
def test_forged_members_are_refused(change, said, whole):
    ranker = copy.deepcopy(whole.ranker)
    change(ranker)
    made = files.Model(Pipeline([*whole.pipeline.steps[:-1], ("ranker", ranker)]), whole.about)
    with pytest.raises(ModelError, match=said):
        saving.to_bytes(made)


def _ones(ranker):
    return np.ones_like(ranker.members_["forest"].right_)


def _curves(ranker):
    return ranker.members_["logistic"].curves_


# ---- exports


def test_onnx_gives_the_same_scores(whole, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    export_onnx(whole, tmp_path / "m.onnx")
    rows = odd_rows()
    given = {
        "age": np.array([np.nan if one is None else one for one in rows["age"]])[:, None],
        "income": np.array([np.nan if one is None else one for one in rows["income"]])[:, None],
        "member": np.array([np.nan if one is None else float(one) for one in rows["member"]])[
            :, None
        ],
        "city": np.array(["" if one is None else one for one in rows["city"]], object)[:, None],
    }
    session = runtime.InferenceSession((tmp_path / "m.onnx").read_bytes())
    found = session.run(None, given)[0]
    np.testing.assert_allclose(found, whole.decision_function(batch()), atol=1e-5)


def test_matrices_are_ranked_too(rng, tmp_path):
    X, y = rng.normal(size=(120, 4)), rng.random(120) < 0.4
    X[:, 0] += y
    np.savez(tmp_path / "t.npz", X=X, y=y)
    model = files.fit(tmp_path / "t.npz", effort="quick", members=["logistic", "forest"], threads=1)
    files.save(model, tmp_path / "m")
    np.testing.assert_array_equal(
        files.load(tmp_path / "m").decision_function(X), model.decision_function(X)
    )
    assert model_type_of(model.ranker) is MODEL_TYPES["auto"]
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    export_onnx(model, tmp_path / "m.onnx")
    found = runtime.InferenceSession((tmp_path / "m.onnx").read_bytes()).run(None, {"X": X})[0]
    np.testing.assert_allclose(found, model.decision_function(X), atol=1e-6)


@pytest.mark.long
def test_sparse_rows_are_ranked_and_exported(rng, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    X, y = sparse.random_array((300, 30), density=0.1, rng=rng, format="csr"), rng.random(300) < 0.3
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"), zero_based=False)
    model = files.fit(tmp_path / "t.svm", effort="quick", members=["logistic", "forest"], threads=1)
    export_onnx(model, tmp_path / "m.onnx")
    dense = X.toarray()
    found = runtime.InferenceSession((tmp_path / "m.onnx").read_bytes()).run(None, {"X": dense})[0]
    np.testing.assert_allclose(found, model.decision_function(X), atol=1e-6)
    files.save(model, tmp_path / "m")
    again = files.load(tmp_path / "m")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_an_old_description_without_a_kind_is_linear(tmp_path, folder):
    model = files.fit(folder / "train.csv", label="fraud", drop=DROP, lam=0.1, top=0.3)
    del model.about["model"]
    files.save(model, tmp_path / "m")
    assert "lam 0.1, top" in run("info", tmp_path / "m").stdout
