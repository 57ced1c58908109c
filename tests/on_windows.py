"""What somebody does with files, as Windows would have it; `tests/test_windows.py` runs it."""

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import SimpleNamespace

import click.testing
import numpy as np
import sklearn.linear_model  # noqa: F401

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # before tests/reproduce

import toppush
from as_windows import become_windows
from toppush.system.extras import EXTRAS


def load_others():
    """Packages that we use, before what they may ask this system for is gone."""
    for package in EXTRAS:
        with suppress(ImportError):
            import_module(package)


def import_everything():
    """Every module of the package, but for those that need what is not installed."""
    packages = walk_packages(toppush.__path__, "toppush.", onerror=lambda _: None)
    names = [one.name for one in packages if not one.name.endswith("__main__")]
    imported = [name for name in names if is_there(name)]
    assert len(imported) > 150, len(imported)


def is_there(name):
    try:
        import_module(name)
    except ImportError as error:
        if any(one in str(error) for one in EXTRAS):
            return False
        raise
    return True


def fit_from_a_file(folder):
    """Twice, so that the second writes over what the first left."""
    from toppush.cli import main

    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 3))
    lines = [f"{a},{b},{c},{int(a + b > 1.5)}" for a, b, c in rows]
    data, model, ranked = folder / "rows.csv", folder / "m.toppush", folder / "list.csv"
    data.write_text("\n".join(["a,b,c,label", *lines]) + "\n", encoding="utf-8")
    for _ in range(2):
        run(main, "fit", data, "--model", "linear", "--lam", "0.1", "--top", "5", "-o", model)
        run(main, "rank", model, data, "-o", ranked)
    assert b"\r" not in ranked.read_bytes()
    assert ranked.read_bytes().count(b"\n") == 201


def run(main, *arguments):
    ran = click.testing.CliRunner().invoke(main, [str(one) for one in arguments])
    assert ran.exit_code == 0, ran.output


def fit_from_disk(folder):
    """Rows that are mapped."""
    from toppush import TopPush, on_disk
    from toppush.system import memory

    memory.sys = SimpleNamespace(platform="win32")
    memory.ctypes = SimpleNamespace(windll=SimpleNamespace(kernel32=None))
    memory._on_windows = lambda kernel: 1 << 28
    X = np.random.default_rng(4).normal(size=(300, 4))
    np.save(folder / "rows.npy", X)
    rows = on_disk.open(folder / "rows.npy", memory_limit="1GiB")
    TopPush(0.1, top=5).fit(rows, X[:, 0] > 1.0)


def keep_records(folder):
    """A store that is claimed, written, closed and opened again, and its tables."""
    from reproduce.results import machine
    from reproduce.store import DONE, Record, Store
    from toppush.system.writing import write_text

    config = {"data": "a", "method": "b", "trial": 0, "size": [1, 2, 3]}
    store = Store(folder / "made here" / "records.sqlite")
    assert store.claim(config)
    assert not store.others_at_work([config])
    store.write(Record(config, DONE, {"auc": 1.0}, machine=machine()))
    store.path.replace(folder / "moved.sqlite")  # fails if a connection is open
    assert Store(folder / "moved.sqlite").records()[0].result == {"auc": 1.0}
    for text in ("one\n", "two\n"):
        write_text(folder / "table.md", text)
    assert (folder / "table.md").read_bytes() == b"two\n"


if __name__ == "__main__":
    where = Path(sys.argv[1])
    load_others()
    become_windows()
    import_everything()
    fit_from_a_file(where)
    fit_from_disk(where)
    keep_records(where)
    left = sorted(path.name for path in where.rglob("*") if ".toppush-" in path.name)
    assert not left, left
    print("done")
