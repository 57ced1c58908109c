"""LightGBM's texts: what it writes is read as it reads it; what would crash it is refused."""

import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from toppush.files import ModelError
from toppush.models import lightgbm_text
from toppush.models.lightgbm_text import CATEGORICAL, DEFAULT_LEFT, MISSING_AT, NANS

lightgbm = pytest.importorskip("lightgbm", reason="needs LightGBM, the extra [trees]")


def rows(n_rows, rng):
    """Numbers, a category, numbers with gaps, and a column of one value."""
    gaps = np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows))
    codes = rng.integers(0, 40, n_rows)
    return np.column_stack([rng.normal(size=(n_rows, 2)), codes, gaps, np.zeros(n_rows)])


@cache
def booster(objective="pushed", n_trees=8, **more):
    rng = np.random.default_rng(0)
    X = rows(400, rng)
    y = (X[:, 2] % 3 == 0) + np.nan_to_num(X[:, 3]) + rng.normal(size=400) > 1
    pushed = {"pushed": lambda scores, data: (scores - data.get_label(), np.ones(len(scores)))}
    options = {"objective": pushed.get(objective, objective), "verbose": -1, "num_leaves": 7,
               "min_data_in_leaf": 5, "min_data_per_group": 5, "cat_smooth": 1, "num_threads": 1,
               "max_cat_to_onehot": 1} | more  # fmt: skip
    data = lightgbm.Dataset(X, y.astype(float), categorical_feature=[2], params=options)
    return lightgbm.train(options, data, n_trees)


def text_of(made):
    return lightgbm_text.trimmed(made.model_to_string())


TEXT = text_of(booster())


def slow_score(trees, row):
    """Walk down every tree and add up its leaf."""
    total = 0.0
    for tree in trees:
        node = 0 if len(tree.left) else -1
        while node >= 0:
            value, decision = row[tree.feature[node]], tree.decision[node]
            if decision & CATEGORICAL:
                left = not np.isnan(value) and value in tree.sets[int(tree.threshold[node])]
            elif np.isnan(value) and decision >> MISSING_AT == NANS:
                left = bool(decision & DEFAULT_LEFT)
            else:
                left = np.nan_to_num(value) <= tree.threshold[node]
            node = int(tree.left[node] if left else tree.right[node])
        total += tree.value[~node]
    return total


def test_a_split_that_parts_gaps_from_all_values(rng):
    X = np.where(rng.random((300, 1)) < 0.4, np.nan, rng.normal(size=(300, 1)))
    y = np.isnan(X[:, 0]).astype(float)
    options = {"objective": "binary", "verbose": -1, "num_leaves": 4, "num_threads": 1}
    made = lightgbm.train(options, lightgbm.Dataset(X, y, params=options), 3)
    text = text_of(made)
    assert "threshold=inf" in text
    trees = lightgbm_text.parsed(text).trees
    assert all(np.isfinite(tree.threshold).all() for tree in trees)
    slow = [slow_score(trees, row) for row in X]
    np.testing.assert_allclose(slow, made.predict(X, raw_score=True))
    again = lightgbm.Booster(model_str=text)
    np.testing.assert_array_equal(again.predict(X), made.predict(X))


@pytest.mark.parametrize("objective", ["pushed", "binary"])
def test_trees_are_read_as_lightgbm_reads_them(objective, rng):
    made, X = booster(objective), rows(200, rng)
    X[:5, 2], X[5:9, 2], X[9, :2] = 77.0, np.nan, np.nan
    found = lightgbm_text.parsed(text_of(made))
    assert found.n_features == 5
    assert any(tree.sets for tree in found.trees)
    expected = made.predict(X, raw_score=True)
    np.testing.assert_allclose([slow_score(found.trees, row) for row in X], expected, rtol=1e-12)


def test_what_follows_the_trees_is_not_needed(rng):
    made, X = booster(), rows(200, rng)
    again = lightgbm.Booster(model_str=TEXT)
    np.testing.assert_array_equal(again.predict(X), made.predict(X))
    assert lightgbm_text.trimmed(TEXT) == TEXT


def test_a_tree_of_one_leaf():
    found = lightgbm_text.parsed(text_of(booster("binary", min_gain_to_split=1e9)))
    assert [len(tree.value) for tree in found.trees] == [1]


def changed(old, new):
    assert old in TEXT
    return TEXT.replace(old, new, 1)


def line(key):
    """The values of a line of the first tree."""
    return TEXT.split(f"\n{key}=")[1].split("\n")[0]


def with_line(key, *values):
    """The first values of a line changed, and the size of the tree with them."""
    told = line(key).split(" ")
    text = changed(
        f"\n{key}={line(key)}\n", f"\n{key}={' '.join([*values, *told[len(values) :]])}\n"
    )
    longer = len(text) - len(TEXT)
    size = int(TEXT.split("tree_sizes=")[1].split(" ")[0])
    return text.replace(f"tree_sizes={size} ", f"tree_sizes={size + longer} ")


N_SETS = int(line("num_cat"))


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "'tree'"),
        ("tree\n", "'version=v4'"),
        (TEXT[:-1], "early"),
        (TEXT[:300], ""),
        (TEXT + "more\n", "''"),
        (changed("version=v4", "version=v9"), "'version=v4'"),
        (changed("num_class=1", "num_class=2"), "num_class"),
        (changed("max_feature_idx=4", "max_feature_idx=99"), "100 words"),
        (changed("max_feature_idx=4", "max_feature_idx=-1"), "from 0 to"),
        (changed("label_index=0\n", "label_index=0\nmonotone_constraints=1\n"), "max_feature_idx"),
        (changed("feature_names", "objective=x\nfeature_names"), "'objective=x'"),
        (changed("Column_1", "Column=1"), "word"),
        (changed("Column_1", "Colümn_1"), "not ASCII"),
        (changed("[", "["[:0]), "'feature_infos'"),
        (changed("tree_sizes=", "tree_sizes=99999999 "), "bytes"),
        (changed("tree_sizes=", "tree_sizes=1"), "bytes"),
        (changed("Tree=0", "Tree=1"), "'Tree=0'"),
        (changed("split_gain=", "split_gain"), "'split_gain'"),
        (with_line("num_leaves", "1000000"), "from 1 to 131072"),
        (with_line("num_leaves", "6"), "instead of 5"),
        (with_line("num_leaves", "0"), "from 1 to"),
        (with_line("num_cat", "5"), "instead of 6"),
        (with_line("split_feature", "5"), "beyond 5"),
        (with_line("split_feature", "0x1"), "numbers"),
        (with_line("split_feature", "1  1"), "numbers"),
        (with_line("split_feature", "1 1"), "7 .* 6"),
        (with_line("threshold", "1e+999"), "finite numbers"),
        (with_line("leaf_value", "nan"), "no numbers"),
        (with_line("leaf_weight", "1 1"), "finite numbers"),
        (with_line("decision_type", "12"), "from 0 to 11"),
        (with_line("left_child", "0"), "tree"),
        (with_line("left_child", *line("right_child").split(" ")), "tree"),
        (with_line("left_child", "6"), "from -7 to 5"),
        (with_line("cat_boundaries", *"0" * N_SETS, "99"), "instead of 99"),
        (with_line("cat_boundaries", "1"), "rise from 0"),
        (with_line("cat_threshold", "4294967296"), "from 0 to 4294967295"),
        (with_line("is_linear", "1"), "'is_linear=0'"),
    ],
)  # fmt: skip
def test_what_lightgbm_does_not_write_is_refused(text, said):
    with pytest.raises(ModelError, match=f"LightGBM.*{said}"):
        lightgbm_text.parsed(text)


def chain(n_leaves):
    """A tree in which every node has a leaf on its left."""
    n_nodes = n_leaves - 1
    lines = {
        "split_feature": [0] * n_nodes, "split_gain": [1] * n_nodes, "threshold": [0] * n_nodes,
        "decision_type": [2] * n_nodes, "left_child": range(-1, -n_leaves, -1),
        "right_child": [*range(1, n_nodes), -n_leaves], "leaf_value": [0] * n_leaves,
        "leaf_weight": [1] * n_leaves, "leaf_count": [1] * n_leaves,
        "internal_value": [0] * n_nodes, "internal_weight": [1] * n_nodes,
        "internal_count": [1] * n_nodes, "is_linear": [0], "shrinkage": [1],
    }  # fmt: skip
    told = "".join(f"{key}={' '.join(map(str, values))}\n" for key, values in lines.items())
    tree = f"Tree=0\nnum_leaves={n_leaves}\nnum_cat=0\n{told}\n\n"
    head = TEXT.split("tree_sizes=")[0]
    return f"{head}tree_sizes={len(tree)}\n\n{tree}{lightgbm_text.END}"


def test_trees_have_a_greatest_depth():
    assert len(lightgbm_text.parsed(chain(500)).trees) == 1
    with pytest.raises(ModelError, match="tree"):
        lightgbm_text.parsed(chain(lightgbm_text.DEEPEST + 2))


@pytest.mark.long
def test_what_is_let_through_does_not_crash_lightgbm(tmp_path):
    """Texts with some letters changed, in a process of their own."""
    rng, passed, letters = np.random.default_rng(1), [], "0123456789-.e =\n"
    for _ in range(4000):
        text = list(TEXT)
        for place in rng.integers(TEXT.index("tree_sizes"), len(text), rng.integers(1, 4)):
            text[place] = letters[rng.integers(len(letters))]
        try:
            lightgbm_text.parsed(found := "".join(text))
        except ModelError:
            continue
        passed.append(found)
    assert len(passed) > 100
    script = (
        "import sys, lightgbm, numpy as np\n"
        "X = np.array([[0, 1, 2, 3, 4], [np.nan] * 5, [1e30] * 5, [-1e30] * 5])\n"
        "for text in open(sys.argv[1]).read().split('|'):\n"
        "    made = lightgbm.Booster(model_str=text)\n"
        "    assert np.isfinite(made.predict(X, raw_score=True)).all()\n"
        "    made.predict(X, pred_contrib=True)\n"
    )
    (tmp_path / "texts").write_text("|".join(passed))
    subprocess.run([sys.executable, "-c", script, tmp_path / "texts"], check=True)
