"""Tables of every format give the same model; what is wrong in them is refused, and placed."""

import bz2
import cProfile
import csv
import gzip
import lzma
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from files import DROP, as_text, made_rows, write, write_csv
from toppush import files
from toppush.files import readers
from toppush.files.readers.csv import MISSING
from toppush.files.scoring import ScoringNotes
from toppush.metrics import positive_class as rule
from toppush.system import errors
from toppush.system.reading import DataError
from toppush.tables.ids import id_like
from toppush.tables.labels import NAMED

FORMATS = (".csv", ".tsv", ".parquet", ".feather", ".arrow")
pytestmark = pytest.mark.filterwarnings("ignore::toppush.DegenerateWarning")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("train") / "train.csv", made_rows(400))
    return files.fit(path, label="fraud", drop=DROP, lam=0.1, top=0.3)


@pytest.mark.parametrize("ending", FORMATS)
def test_formats_agree(ending, model, tmp_path):
    rows = made_rows(400)
    other = files.fit(
        write(tmp_path / f"train{ending}", rows), label="fraud", drop=DROP, lam=0.1, top=0.3
    )
    np.testing.assert_allclose(other.ranker.coef_, model.ranker.coef_, rtol=1e-9)
    new = write(tmp_path / f"new{ending}", made_rows(300, seed=1))
    expected = model.pipeline.decision_function(pa.table(made_rows(300, seed=1)))
    positive, scores = files.labelled(model, new)
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-15)
    assert positive.tolist() == [label == "yes" for label in made_rows(300, seed=1)["fraud"]]


@pytest.mark.parametrize("opener, ending", [(gzip, ".gz"), (bz2, ".bz2"), (lzma, ".xz")])
def test_compressed_csv(opener, ending, model, tmp_path):
    plain = write(tmp_path / "new.csv", made_rows(50, seed=2))
    packed = tmp_path / f"new.csv{ending}"
    packed.write_bytes(opener.compress(plain.read_bytes()))
    assert files.rank(model, packed).equals(files.rank(model, plain))
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        files.rank(model, packed)


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_delimiter_is_found(delimiter, model, tmp_path):
    path = write_csv(tmp_path / "new.csv", made_rows(60, seed=3), delimiter)
    plain = write_csv(tmp_path / "plain.csv", made_rows(60, seed=3))
    assert files.rank(model, path).equals(files.rank(model, plain))


def edited(tmp_path, line, old, new):
    """A good file of 30 rows with one change in one line."""
    path = write_csv(tmp_path / "new.csv", made_rows(30, seed=4, gaps=0.0))
    lines = path.read_bytes().split(b"\n")
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    path.write_bytes(b"\n".join(lines))
    return path


@pytest.mark.parametrize(
    "line, old, new, said",
    [
        (9, b"client 7,", b"client 7,extra,", "line 9, column 7: 6 values are expected"),
        (9, b"client 7,", b"", "line 9, column 6: 6 values are expected"),
        (12, b"client 10,", b"client 10,abc", "line 12, column 2 (age): 'abc"),
        (5, b"client 3,", b"client 3,1_", "line 5, column 2 (age): '1_"),
        (7, b"client 5", b"client \xff", "line 7, column 1 (id): the text is not UTF-8"),
        (
            20,
            b"client 18",
            b'"client 18',
            "line 20, column 1: unexpected end of data; close its quotes",
        ),
        (6, b"client 4,", b"client 4,inf,", "line 6, column 7"),
    ],
)
def test_malformed_lines_are_placed(line, old, new, said, model, tmp_path):
    path = edited(tmp_path, line, old, new)
    with pytest.raises(DataError) as caught:
        files.rank(model, path, columns=("id",))
    assert str(caught.value).startswith(f"{path}, {said}")


def test_infinite_number_is_refused(model, tmp_path):
    rows = made_rows(30, seed=4)
    rows["age"][11] = float("inf")
    with pytest.raises(DataError, match=r"line 13.*column age.*infinite"):
        files.rank(model, write(tmp_path / "new.csv", rows))


def test_a_flag_that_is_not_one(model, tmp_path):
    path = edited(tmp_path, 3, b",true" if b",true" in _line(tmp_path, 3) else b",false", b",maybe")
    with pytest.raises(DataError, match=r"line 3.*column 5.*\(member\): 'maybe'"):
        files.rank(model, path)


def _line(tmp_path, line):
    path = write_csv(tmp_path / "look.csv", made_rows(30, seed=4, gaps=0.0))
    return path.read_bytes().split(b"\n")[line - 1]


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "line 1"),
        (b"a,b,a\n1,2,3\n", "line 1.*column 3.*'a'"),
        (b"1.5,2\n1,2\n", "line 1"),
        (b"a,b\n1,2\n", "column 'label'.*'a'.*'b'"),
        (b"a,label\n", "holds no rows"),
        (b"a,label\n1,0\n2,\n3,1\n", "line 3.*column label.*missing"),
        (b"a,label\n1,0\n2,1\n3,2\n", r"3 different labels, 0\.0, 1\.0, 2\.0"),
        (b"a,label\n1,0\n2,0\n", r"0\.0"),
        (b"a,when,label\n1,10:30:00,0\n2,11:30:00,1\n", "column when"),
        (b"a,when,label\n1,5/1/2024,0\n2,6/2/2024,1\n", "column when"),
        (b"a,label\n1,0\n2,1\n3,0\nx,1\n", "line 5.*column 1.*'x'"),
        (b"a,label\n,0\n,1\n", "no column is left"),
        (
            b"a,label\n1,0\n\xff,1\n",
            "line 3.*column 1.*UTF-8.*UTF-8",
        ),
    ],
)
def test_what_cannot_be_fitted(content, said, tmp_path):
    path = tmp_path / "train.csv"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        files.fit(path, lam=1.0, top=0.3)
    assert str(caught.value).startswith(str(path))
    assert re.search(said, str(caught.value))


def test_many_texts_are_names_unless_asked_for(tmp_path):
    rows = made_rows(1300)
    rows["id"][1200:] = rows["id"][:100]
    path = write(tmp_path / "train.csv", rows)
    with pytest.raises(DataError, match=r"column id.*1200"):
        files.fit(path, label="fraud", lam=1.0, top=0.3)
    asked = files.fit(path, label="fraud", lam=1.0, top=0.3, categorical=["id"])
    assert asked.columns.sparse_
    assert asked.about["columns"]["named"][0]["categories"] == 1200


@pytest.mark.filterwarnings("ignore::toppush.LeakageWarning")
def test_numbers_as_categories_keep_their_digits(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text("zip,label\n" + "007,1\n7,0\n" * 20)
    found = files.fit(path, lam=0.1, top=0.3, categorical=["zip"])
    assert found.columns.columns_[0].categories == ["007", "7"]
    assert found.about["training"]["positives_at_top"] == 1.0


def test_unseen_texts_and_gaps_are_counted(model, tmp_path):
    rows = made_rows(20, seed=5, gaps=0.0)
    rows["city"][:3] = ["Atlantis", None, "Utopia"]
    rows["age"][5] = None
    rows["member"][6] = None
    for ending in FORMATS:
        seen = ScoringNotes()
        files.rank(model, write(tmp_path / f"new{ending}", rows), seen=seen)
        assert dict(seen.counts.unseen) == {"city": 2}
        assert dict(seen.counts.missing) == {"city": 1, "age": 1, "member": 1}


@pytest.mark.parametrize("ending", FORMATS)
def test_missing_error(ending, tmp_path):
    rows = made_rows(50, gaps=0.0)
    whole = files.fit(write(tmp_path / f"a{ending}", rows), label="fraud", drop=DROP, lam=1.0,
                      top=0.3, missing="error")  # fmt: skip
    rows["city"][7] = None
    path = write(tmp_path / f"b{ending}", rows)
    place = "line 9" if ending in (".csv", ".tsv") else "row 8"
    with pytest.raises(DataError, match=f"{place}, column city: 1 values are missing"):
        files.fit(path, label="fraud", drop=DROP, lam=1.0, top=0.3, missing="error")
    with pytest.raises(DataError, match=f"{place}, column city: 1 values are missing"):
        files.rank(whole, path)


def test_columns_that_are_empty_in_new_rows_are_gaps(model, tmp_path):
    rows = made_rows(20, seed=6, gaps=0.0)
    rows["age"], rows["city"] = [None] * 20, [None] * 20
    for ending in FORMATS:
        seen = ScoringNotes()
        files.rank(model, write(tmp_path / f"new{ending}", rows), seen=seen)
        assert dict(seen.counts.missing) == {"age": 20, "city": 20}


def test_a_category_without_a_text(tmp_path):
    rows = made_rows(60) | {"note": [""] * 60}
    found = files.fit(
        write(tmp_path / "t.parquet", rows), label="fraud", drop=DROP, lam=1.0, top=0.3
    )
    files.save(found, tmp_path / "m")
    assert files.load(tmp_path / "m").columns.columns_[-1].categories == []


def test_a_model_of_named_columns_needs_them(model, tmp_path):
    rows = made_rows(20)
    del rows["age"]
    with pytest.raises(DataError, match="column 'age'"):
        files.rank(model, write(tmp_path / "new.csv", rows))
    np.save(tmp_path / "new.npy", np.ones((4, 3)))
    with pytest.raises(DataError, match="'age'"):
        files.rank(model, tmp_path / "new.npy")


def test_labels_other_than_the_two(model, tmp_path):
    rows = made_rows(20)
    rows["fraud"][13] = "maybe"
    with pytest.raises(DataError, match=r"line 15.*column fraud.*'maybe'"):
        files.labelled(model, write(tmp_path / "new.csv", rows))


def test_one_label_against_the_rest(tmp_path):
    rows = made_rows(90)
    rows["fraud"] = ["a", "b", "c"] * 30
    path = write(tmp_path / "train.parquet", rows)
    found = files.fit(path, label="fraud", positive="b", drop=DROP, lam=1.0, top=0.3)
    assert (found.label.positive, found.label.others) == ("b", ("a", "c"))
    rows["fraud"][0] = "d"
    positive, _ = files.labelled(found, write(tmp_path / "new.parquet", rows))
    assert positive.sum() == 30
    with pytest.raises(DataError, match="'z'"):
        files.fit(path, label="fraud", positive="z", drop=DROP, lam=1.0, top=0.3)


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".arrow"])
def test_damaged_files_are_refused(ending, model, tmp_path, rng):
    good = write(tmp_path / f"new{ending}", made_rows(200)).read_bytes()
    path = tmp_path / f"bad{ending}"
    for size in rng.integers(0, len(good) - 1, 20):
        path.write_bytes(good[:size])
        with pytest.raises(DataError, match="bad"):
            files.rank(model, path)


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\x00"), max_size=6),
)


def csv_table(path, texts=()):
    with readers.reading(path) as file:
        return file.table((), texts)


@given(
    st.lists(st.tuples(values, values, values), min_size=1, max_size=8), st.sampled_from(",;\t|")
)
def test_csv_cells_are_read_as_they_were_written(tmp_path_factory, rows, delimiter):
    path = tmp_path_factory.mktemp("cells") / "cells.csv"
    table = dict(zip("abc", zip(*rows, strict=True), strict=True))
    write_csv(path, table, delimiter)
    read = csv_table(path, texts="abc").to_pydict()
    short = max(len(as_text(value)) for row in rows for value in row) < 16
    with readers.reading(path) as file:
        file.block = 64 if short else file.block
        streamed = pa.Table.from_batches(file.stream(dict.fromkeys("abc", pa.string())))
    expected = {
        name: [None if as_text(value) in MISSING else as_text(value) for value in column]
        for name, column in table.items()
    }
    assert read == expected
    assert streamed.to_pydict() == expected


@pytest.mark.parametrize(
    "content, said",
    [
        (b'a;b"C,"x \n",\xa2[;2\n', "line 2, column 1: unexpected end of data; close its quotes"),
        (b'"a,label\n1,0\n2,1\n', "line 1"),
        (b'"a,label\n' + b"1,0\n2,1\n" * 50_000, "line 1: the names of the columns do not end"),
    ],
)
def test_a_header_whose_quotes_stay_open_is_refused(content, said, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        csv_table(path)
    assert str(caught.value).startswith(f"{path}, {said}")


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_a_name_may_go_on_in_the_next_line(delimiter, tmp_path):
    path = tmp_path / "rows.csv"
    names = ['"age\nin years"', '"a ""b"", c"', "label"]
    rows = [f"{i}{delimiter}{-i % 7}{delimiter}{i % 2}" for i in range(40)]
    path.write_text("\n".join([delimiter.join(names), *rows]) + "\n")
    model = files.fit(path, lam=1.0, top=0.3)
    assert [one.name for one in model.columns.columns_] == ["age\nin years", 'a "b", c']
    assert len(files.rank(model, path)) == 40


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_commas_are_numbers(delimiter, tmp_path):
    rows = made_rows(60, seed=7)
    points = write_csv(tmp_path / "points.csv", rows, delimiter)
    for name in ("age", "income"):
        rows[name] = [None if x is None else str(x).replace(".", ",") for x in rows[name]]
    commas = write_csv(tmp_path / "commas.csv", rows, delimiter)
    model = files.fit(commas, label="fraud", drop=DROP, lam=0.1, top=0.3)
    other = files.fit(points, label="fraud", drop=DROP, lam=0.1, top=0.3)
    np.testing.assert_array_equal(model.ranker.coef_, other.ranker.coef_)
    assert files.rank(model, commas).equals(files.rank(model, points))
    commas.write_text(commas.read_text().replace("client 11", "client 11x,x", 1))
    files.rank(model, commas)
    broken = commas.read_text().replace(f"client 20{delimiter}", f"client 20{delimiter}x")
    commas.write_text(broken)
    with pytest.raises(DataError, match=r"line 22.*column 2.*'x[\d,]+'"):
        files.rank(model, commas)


def test_commas_in_numbers_that_may_mean_either_are_refused(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + '"1,234",1\n2,0\n' * 20)
    with pytest.raises(DataError, match=r"column a.*'1,234'"):
        files.fit(path, lam=1.0, top=0.3)


@pytest.mark.filterwarnings("ignore::toppush.LeakageWarning")
@pytest.mark.parametrize(("text", "value"), [("1,5", 1.5), ("-1,234,567.25", -1234567.25)])
def test_commas_in_numbers_that_mean_one_thing_are_read(text, value, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,label\n" + f'"{text}",1\n2,0\n' * 20)
    (column,) = files.fit(path, lam=1.0, top=1).columns.columns_
    assert {column.low, column.high} == {value, 2.0}


@pytest.mark.filterwarnings("ignore::toppush.LeakageWarning")
def test_points_and_commas_in_one_file_are_read_by_column(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b;label\n" + "1.5;2,5;1\n2.5;3,5;0\n" * 20)
    columns = files.fit(path, lam=1.0, top=1).columns.columns_
    assert [(one.low, one.high) for one in columns] == [(1.5, 2.5), (2.5, 3.5)]


@pytest.mark.parametrize("value", ["0x10", "0XfF", "-0x1"])
def test_hexadecimal_numbers_are_refused_or_texts(value, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(
        "a,b,label\n" + "".join(f"{i},{i},{i % 2}\n" for i in range(9)) + f"{value},1,1\n"
    )
    with pytest.raises(DataError) as caught:
        files.fit(path, lam=1.0, top=0.3)
    said = str(caught.value)
    assert said.startswith(f"{path}, line 11, column 1 (a): ")
    assert value in said
    texts = files.fit(path, lam=1.0, top=0.3, categorical=["a"]).columns.columns_[0].categories
    assert value in texts
    files.fit(path, lam=1.0, top=0.3, drop=["a"])


def test_latin_1_is_refused_with_its_place_and_a_way_out(tmp_path):
    rows = made_rows(40) | {"land": ["Österreich", "Schweiz"] * 20}
    path = write(tmp_path / "rows.csv", rows)
    text = path.read_text(encoding="utf-8")
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(DataError, match=r"line \d+.*column \d.*UTF-8.*iconv.*latin1"):
        files.fit(path, label="fraud", drop=DROP, lam=1.0, top=0.3)
    files.fit(path, label="fraud", drop=[*DROP, "city", "land"], lam=1.0, top=0.3)
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(DataError, match=r"line 1.*column 1.*iconv.*utf-16"):
        files.fit(path, label="fraud", drop=DROP, lam=1.0, top=0.3)


# Labels.


@pytest.mark.parametrize(
    "labels, positive, why",
    [
        (["legit"] * 9 + ["fraud"] * 3, "fraud", rule.RARER),
        (["fraud"] * 9 + ["legit"] * 3, "legit", rule.RARER),
        (["a"] * 6 + ["b"] * 6, "b", rule.LATER),
        (["0"] * 3 + ["1"] * 9, "1", rule.GREATER),
        (["10"] * 9 + ["9"] * 3, "10", rule.GREATER),
        (["False"] * 3 + ["True"] * 9, "True", rule.GREATER),
        ([0] * 3 + [1] * 9, 1.0, rule.GREATER),
        ([True] * 9 + [False] * 3, 1.0, rule.GREATER),
        ([-1.0] * 3 + [1.0] * 9, 1.0, rule.GREATER),
    ],
)
def test_which_of_two_labels_is_positive(labels, positive, why, tmp_path):
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"a": np.arange(12) % 5, "label": labels}), path)
    found = files.fit(path, lam=1.0, top=1)
    assert (found.label.positive, found.label.why) == (positive, why)
    files.save(found, tmp_path / "m")
    assert files.load(tmp_path / "m").label == found.label
    named = files.fit(path, lam=1.0, top=1, positive=str(labels[0]))
    assert named.label.why == NAMED
    assert named.about["data"]["positives"] == labels.count(labels[0])


# Cautions.


def ids_of(**columns):
    return id_like(pa.table(columns))


def test_columns_that_look_like_ids(rng):
    n = 200
    mixed = rng.permutation(n)
    for ids in (np.arange(n), -np.arange(n), mixed, mixed[:100], [f"{one}" for one in mixed]):
        assert ids_of(x=ids) == ("x",)
    assert ids_of(x=[f"name {i}" for i in mixed]) == ("x",)
    assert ids_of(x=[f"name {i // 2}" for i in mixed]) == ()
    assert ids_of(x=[f"2024-01-{1 + i // 24:02d} {i % 24}:00" for i in mixed]) == ()
    assert ids_of(x=[f"${i + 0.25}" for i in mixed]) == ()
    assert ids_of(id=mixed // 2) == ()
    assert ids_of(id=mixed + 0.5) == ()
    assert ids_of(id=1000 * mixed) == ()
    assert ids_of(id=np.arange(20)) == ()
    assert id_like(pa.table({"x": [f"{i}" for i in mixed]}), ["x"]) == ()


def test_ids_are_warned_of_and_remembered(tmp_path):
    rows = made_rows(80)
    path = write(tmp_path / "rows.csv", rows)
    with pytest.warns(UserWarning, match="--drop"):
        found = files.fit(path, label="fraud", lam=1.0, top=0.3)
    assert "--drop id" in found.about["warnings"][0]


def test_constant_columns_are_left_out(tmp_path):
    rows = made_rows(80) | {"year": [2024] * 80, "land": ["F"] * 80, "flag": [True] * 80}
    rows["gappy"] = [1.0, None] * 40
    found = files.fit(
        write(tmp_path / "rows.csv", rows), label="fraud", drop=DROP, lam=1.0, top=0.3
    )
    assert found.about["columns"]["constant"] == ["year", "land", "flag"]
    assert [one.name for one in found.columns.columns_] == [
        "age",
        "income",
        "city",
        "member",
        "gappy",
    ]
    same = write(tmp_path / "one.csv", {"year": [1] * 9, "label": [0, 1, 0] * 3})
    with pytest.raises(DataError, match="value"):
        files.fit(same, lam=1.0, top=0.3)


@pytest.mark.parametrize("scale", ["maxabs", "standard"])
@pytest.mark.parametrize("ending", [".csv", ".npy", ".npz", ".svm"])
def test_far_larger_values_are_warned_of(ending, scale, tmp_path, rng):
    X, y = rng.normal(size=(60, 3)).round(3), np.arange(60) % 2

    def saved(name, X):
        path = tmp_path / f"{name}{ending}"
        if ending == ".csv":
            return write(path, dict(zip("abc", X.T.tolist(), strict=True)) | {"label": y.tolist()})
        if ending == ".svm":
            lines = (
                " ".join([str(label), *(f"{j}:{x!r}" for j, x in enumerate(row.tolist(), 1))])
                for row, label in zip(X, y, strict=True)
            )
            path.write_text("\n".join(lines))
        elif ending == ".npz":
            np.savez(path, X=X, y=y)
        else:
            np.save(path, np.column_stack([X, y]))
        return path

    path = saved("train", X)
    model = files.fit(path, lam=0.1, top=0.3, scale=scale)
    files.rank(model, path)  # no warning
    X[7, 1] *= 1e6
    name = {".csv": "b", ".svm": "number 2"}.get(ending, "number 1")
    with pytest.warns(
        UserWarning, match=rf"far larger .* in column {name} \(.*Is the unit another"
    ):
        files.rank(model, saved("new", X))


# Folds.


@pytest.mark.parametrize("positive", ["yes", "no"])
def test_more_folds_than_rows_of_a_class_are_refused(positive, tmp_path):
    path = write(tmp_path / "rows.csv", made_rows(80))
    said = r"13 folds are asked for with --cv, and there are (12|68) positives"
    with pytest.raises(DataError, match=said):
        files.fit(path, label="fraud", positive=positive, drop=DROP, cv=13)


@pytest.mark.parametrize("content", [b'a,b\n0x1,2\nx","', b'a,b\n0x1,2\n""x,0x1xx0x1'])
def test_quotes_that_only_one_reader_takes_are_no_crash(content, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    assert csv_table(path).num_rows == 2


@pytest.mark.parametrize("others", [[], ["x"], ["1.5\n"], ["2024-01-01", "true"]])
def test_a_string_among_numbers_is_placed_where_it_stands(others, tmp_path):
    """The one that the message names, also if another stands before it."""
    rows = [[f"{row}.5", row % 2] for row in range(40)]
    strings = [*others, "#REF!"]
    for at, string in enumerate(strings):
        rows[5 + 3 * at][0] = string
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["a", "label"], *rows])
    with pytest.raises(DataError) as caught:
        files.fit(path)
    error = caught.value
    with path.open(newline="") as file:
        reader = csv.reader(file)
        starts, line = {}, 1
        for cells in reader:
            starts.setdefault(cells[0], line)
            line = reader.line_num + 1
    named = next(string for string in sorted(strings) if repr(string) in error.message)
    assert (error.line, error.column) == (starts[named], "1 (a)")


class Compared(str):
    """A column name that counts how often one is compared with another."""

    times = 0

    def __eq__(self, other):
        Compared.times += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_the_work_on_names_grows_with_their_number(tmp_path, monkeypatch):
    """Each name is compared a few times, not with each other."""
    width = 2000
    names = [Compared(f"column {number}") for number in range(width)]
    found = errors.repeated([*names, Compared("column 7")])
    assert found == (width + 1, "column 7")
    assert errors.repeated(names) is None
    others = [Compared(f"other {number}") for number in range(width)]
    asked = []
    monkeypatch.setattr(errors, "like", lambda name, known: asked.append(name) or "")
    assert errors.absent(names, names) is None
    assert "and 1,980 more" in errors.absent(others, names)
    assert len(asked) == errors.MOST_ABSENT
    assert Compared.times < 20 * width


@pytest.mark.long
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_columns_of_a_wide_table_are_each_looked_at_a_few_times(ending, tmp_path):
    """Calls of Python functions: quadratic work would be 25 times as much, not 5 times."""

    def calls(width):
        path = tmp_path / f"{width}{ending}"
        table = {f"column {number}": [1.0, 1.0] for number in range(width)}
        write(path, table | {"label": [0, 1]})
        profile = cProfile.Profile()
        for options in ({}, {"drop": list(table)}, {"label": "none"}):
            with pytest.raises(DataError):
                profile.runcall(files.fit, path, **options)
        return sum(one.callcount for one in profile.getstats())

    assert calls(5000) < 7 * calls(1000)
