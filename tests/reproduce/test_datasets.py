"""Data sets: found in directories, read, fetched, scaled."""

import bz2
import functools
import gzip
import http.server
import lzma
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.preprocessing import MinMaxScaler

from reproduce import datasets
from reproduce.datasets import CATALOGUE, FetchError, fetching, find, load, to_unit_range
from reproduce.datasets.catalogue import Entry, FileSet
from reproduce.datasets.reading import read_nslkdd, read_numbers
from toppush import TopPush, metrics

pytestmark = pytest.mark.sampled(2)

PACKERS = {"": lambda data: data, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def rows_like(name, n_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n_rows, CATALOGUE[name].size[1]), density=0.2, rng=rng).tocsr()
    return X, np.where(np.arange(n_rows) % 3 == 0, 1.0, -1.0)


def write_libsvm(path, X, y, packed=""):
    dump_svmlight_file(X, y, str(path), zero_based=False)
    if packed:
        path.with_name(path.name + packed).write_bytes(PACKERS[packed](path.read_bytes()))
        path.unlink()


@pytest.fixture
def no_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TOPPUSH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TOPPUSH_DATA", raising=False)
    return tmp_path / "cache"


# From a directory.


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("folder", ["", "w8a"])
def test_files_of_a_directory_are_read(packed, folder, tmp_path, no_cache):
    X, y = rows_like("w8a")
    (tmp_path / folder).mkdir(exist_ok=True)
    write_libsvm(tmp_path / folder / "w8a.svm", X, y, packed)
    found = load("w8a", tmp_path)
    assert_allclose(found.X.toarray(), X.toarray())
    assert_array_equal(found.y, y > 0)
    assert found.X.indices.dtype == np.int32
    assert (found.n_pos, found.n_neg) == (10, 20)


def test_parts_as_published_are_joined_in_order(tmp_path, no_cache):
    (X, y), (X_test, y_test) = rows_like("w8a"), rows_like("w8a", 12, seed=1)
    write_libsvm(tmp_path / "w8a", X, y)
    write_libsvm(tmp_path / "w8a.t", X_test, y_test, ".bz2")
    found = load("w8a", tmp_path)
    assert_allclose(found.X.toarray(), np.vstack([X.toarray(), X_test.toarray()]))
    assert_array_equal(found.y, np.concatenate([y, y_test]) > 0)


def test_a_part_is_called_a_part(tmp_path, no_cache):
    write_libsvm(tmp_path / "w8a.svm", *rows_like("w8a"))
    found = load("w8a", tmp_path)
    assert found.whole == 64_700
    assert found.title == "w8a (0.0% of it)"


def test_labels_of_one_class_against_the_rest(tmp_path, no_cache):
    X, _ = rows_like("news20-forsale")
    y = np.arange(30) % 20 + 1
    write_libsvm(tmp_path / "news20-train-multiclass.svm", X, y)
    assert_array_equal(load("news20-forsale", tmp_path).y, y == 7)
    assert_array_equal(load("news20-label10", tmp_path).y, y == 10)
    assert "label 10 are the real" in load("news20-forsale", tmp_path).note


def test_the_environment_names_the_directory(tmp_path, no_cache, monkeypatch):
    write_libsvm(tmp_path / "a9a.svm", *rows_like("a9a"))
    monkeypatch.setenv("TOPPUSH_DATA", str(tmp_path))
    assert find("a9a")[1] == [tmp_path / "a9a.svm"]
    assert find("w8a") is None


def test_refuses(tmp_path, no_cache):
    with pytest.raises(ValueError, match="'w9a'"):
        load("w9a")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load("w8a", tmp_path / "nowhere")
    with pytest.raises(FetchError, match=r"unb\.ca"):
        load("nslkdd", tmp_path)
    (tmp_path / "w8a.svm.xz").write_bytes(b"not packed at all")
    with pytest.raises(ValueError, match=r"w8a\.svm\.xz.*LIBSVM"):
        load("w8a", tmp_path)


def test_every_entry_can_be_named_and_read():
    assert len({entry.name for entry in CATALOGUE.values()}) == len(CATALOGUE)
    assert sum(entry.in_paper for entry in CATALOGUE.values()) == 7
    for entry in CATALOGUE.values():
        assert entry.published is not None or "put" in entry.note
        for source in entry.sources:
            assert len(source.urls) in (0, len(source.files))


WHOLE = {
    "diabetes": (500, 268),
    "nslkdd": (71_463, 77_054),
    "spambase": (1_813, 2_788),
    "w8a": (1_933, 62_767),
    "a9a": (11_687, 37_155),
    "hiv-ecfp4": (1_443, 39_677),
    "ijcnn1": (13_565, 128_126),
    "mammography": (260, 10_923),
}


@pytest.mark.parametrize("name", WHOLE)
def test_real_sets_have_their_published_counts(name, shared_file):
    found = load(name, shared_file("data"))
    assert (found.n_pos, found.n_neg) == WHOLE[name]
    assert found.whole is None
    assert found.title == name


@pytest.mark.parametrize("name", ["news20-forsale", "real-sim", "url"])
def test_real_parts_are_called_parts(name, shared_file):
    found = load(name, shared_file("data"))
    assert found.whole == CATALOGUE[name].size[0] > found.y.size
    assert "of it)" in found.title


# Other files of publishers.


def test_reads_nslkdd_as_published(tmp_path):
    numbers = [str(i) for i in range(38)]
    numbers[16] = "0"  # num_outbound_cmds

    def line(protocol, service, flag, attack):
        cells = [numbers[0], protocol, service, flag, *numbers[1:], attack, "21"]
        return ",".join(cells)

    train = [line("tcp", "http", "SF", "normal"), line("udp", "dns", "SF", "neptune")]
    test = [line("tcp", "dns", "REJ", "satan")]
    paths = [tmp_path / "KDDTrain+.txt", tmp_path / "KDDTest+.txt"]
    for path, lines in zip(paths, (train, test), strict=True):
        path.write_text("\n".join(lines) + "\n")
    X, y = read_nslkdd(paths, 121, ())
    assert_array_equal(y, [False, True, True])
    assert X.shape == (3, 37 + 2 + 2 + 2)
    kept = [float(i) for i in range(38) if i != 16]
    assert_allclose(X.toarray()[:, :37], [kept] * 3)
    assert_array_equal(X.toarray()[0, 37:], [1, 0, 0, 1, 0, 1])  # tcp udp, dns http, REJ SF


def test_reads_tables_with_the_label_last(tmp_path):
    path = tmp_path / "spambase.data"
    path.write_text("0,1.5,1\n2,0,0\n\n")
    X, y = read_numbers([path], 2, ())
    assert_allclose(X.toarray(), [[0, 1.5], [2, 0]])
    assert_array_equal(y, [True, False])
    path.write_text("0.5,-1,'-1'\n1,2,'1'\n")
    X, y = read_numbers([path], 2, ())
    assert_allclose(X.toarray(), [[0.5, -1], [1, 2]])
    assert_array_equal(y, [False, True])


# Scaling and made data.


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5))
def test_columns_in_the_unit_range_as_scikit_learn_has_them(seed, n_rows, n_cols):
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 4, (n_rows, n_cols)) * rng.random((n_rows, n_cols)) + rng.integers(0, 2)
    X = sparse.csr_array(dense)
    before = X.copy()
    assert_allclose(to_unit_range(X).toarray(), MinMaxScaler().fit_transform(dense), atol=1e-12)
    assert_array_equal(X.indptr, before.indptr)
    assert_array_equal(X.indices, before.indices)
    assert_array_equal(X.data, before.data)


def test_negative_columns_are_not_scaled_silently():
    with pytest.raises(ValueError, match="negative entries"):
        to_unit_range(sparse.csr_array([[1.0, -2.0], [0.0, 1.0]]))


def test_made_data_repeat_and_have_the_statistics_of_the_real_set():
    X, y = datasets.made("made-real-sim", n_rows=5000, seed=3)
    again = datasets.made("made-real-sim", n_rows=5000, seed=3)
    assert X.shape == (5000, 20_958)
    assert_array_equal(X.sum(axis=1), 51)
    assert_array_equal(X.indices, again.X.indices)
    assert_array_equal(y, again.y)
    assert_allclose(y.mean(), 22_238 / 72_309, atol=1e-3)
    assert X.has_canonical_format
    assert load("made-real-sim").title == "made-real-sim (made data)"


def test_made_data_hold_the_signal_that_was_asked_for():
    asked = {"n_rows": 3000, "n_columns": 300, "share": 0.2}
    for noise, least, most in [(0.0, 0.999, 1.0), (1.0, 0.8, 0.95)]:
        X, y = datasets.made("made-url", noise=noise, **asked)
        weights = np.random.default_rng(0).normal(size=300)  # what the rows were scored by
        assert X.shape == (3000, 300)
        assert y.sum() == 600
        assert least <= metrics.auc(y, X @ weights) <= most


def test_made_data_have_an_answer_unless_they_are_degenerate():
    asked = {"n_rows": 2000, "n_columns": 500}
    X, y = datasets.made("made-url", **asked)
    assert TopPush(1.0, tol=1e-3).fit(X, y).solution_.upper < 0.9
    X, y = datasets.made("degenerate-url", **asked)
    assert TopPush(1.0, tol=1e-3).fit(X, y).solution_.lower > 0.98  # of 1 at zero


# Fetching, from a server on this machine.


CONTENT = b"".join(b"+1 1:%d 2:0.5\n-1 2:%d\n" % (i, i) for i in range(1, 4000))


class Server(http.server.BaseHTTPRequestHandler):
    """Sends CONTENT, knows ranges, and breaks off while `breaks` are left."""

    breaks = 0
    ranges = True
    asked = ()

    def do_GET(self):
        begin = 0
        if self.ranges and "Range" in self.headers:
            begin = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
        type(self).asked.append(begin)
        if begin >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(CONTENT) - begin))
        self.end_headers()
        end = len(CONTENT)
        if self.breaks:
            type(self).breaks -= 1
            end = begin + len(CONTENT) // 3
        self.wfile.write(CONTENT[begin:end])

    def log_message(self, *_):
        pass


@contextmanager
def served(**how):
    handler = type("Handler", (Server,), {"asked": [], **how})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield handler, f"http://127.0.0.1:{server.server_port}/thing"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def entry(url):
    return Entry("thing", "", (7998, 2), (FileSet(("thing",), urls=(url,)),))


def test_fetches_once_and_shows_progress(no_cache):
    seen = []
    with served() as (server, url):
        (path,) = fetching.fetch_files(entry(url), lambda have, total: seen.append((have, total)))
        assert path.read_bytes() == CONTENT
        fetching.fetch_files(entry(url))
        assert server.asked == [0]
    assert path.parent == no_cache
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_goes_on_where_a_download_broke_off(no_cache):
    third = len(CONTENT) // 3
    with served(breaks=2) as (server, url):
        for _ in range(2):
            with pytest.raises(FetchError, match="broke"):
                fetching.fetch_files(entry(url))
        (path,) = fetching.fetch_files(entry(url))
        assert server.asked == [0, third, 2 * third]
    assert path.read_bytes() == CONTENT
    assert not list(no_cache.glob("*.part"))


def test_begins_anew_with_a_server_that_knows_no_ranges(no_cache):
    with served(breaks=1, ranges=False) as (server, url):
        with pytest.raises(FetchError):
            fetching.fetch_files(entry(url))
        (path,) = fetching.fetch_files(entry(url))
        assert server.asked == [0, 0]
    assert path.read_bytes() == CONTENT


def test_a_changed_file_is_fetched_again(no_cache):
    with served() as (server, url):
        (path,) = fetching.fetch_files(entry(url))
        path.write_bytes(b"altered")
        (path,) = fetching.fetch_files(entry(url))
        assert path.read_bytes() == CONTENT
        assert len(server.asked) == 2


def test_says_what_to_do_offline(no_cache):
    with served() as (_, url):
        pass
    with pytest.raises(FetchError, match="--data"):
        fetching.fetch_files(entry(url))


def test_load_fetches_what_is_not_there(no_cache, monkeypatch):
    with served() as (_, url):
        monkeypatch.setitem(CATALOGUE, "w8a", entry(url))
        found = functools.partial(load, "w8a")()
    assert found.X.shape == (7998, 2)
    assert found.whole is None
    assert load("w8a").files == (no_cache / "thing",)
