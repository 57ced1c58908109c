"""A fit that was broken off goes on from its checkpoint."""

import os
import signal
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from toppush import TopPush
from toppush.solvers import checkpoints


@pytest.fixture
def rows(rng):
    y = rng.random(3000) < 0.1
    X = rng.normal(size=(3000, 20))
    X[y, :4] += 2.0
    return X, y


@pytest.fixture(autouse=True)
def every_iteration(monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)


class Gone(BaseException):
    """What ends the process that fits."""


def broken_off(monkeypatch, ranker, rows, after):
    """A fit whose process ends after so many iterations."""
    note = checkpoints.Checkpoint.note

    def noted(self, history, weights, threshold):
        note(self, history, weights, threshold)
        if len(history) == after:
            raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints.Checkpoint, "note", noted)
        with pytest.raises(Gone):
            ranker.fit(*rows)


def test_a_fit_goes_on_where_another_ended(rows, tmp_path, monkeypatch):
    given = {"lam": 1e-3, "top": 20, "loss": "logistic", "tol": 1e-6}
    whole = TopPush(**given).fit(*rows)
    ranker = TopPush(**given, checkpoint=tmp_path / "fit.npz")
    n_done = whole.n_iter_ - 2
    broken_off(monkeypatch, ranker, rows, n_done)
    assert [file.name for file in tmp_path.iterdir()] == ["fit.npz"]
    ranker.fit(*rows)
    assert ranker.solution_.relative_gap <= 1e-6
    assert_allclose(ranker.solution_.upper, whole.solution_.upper, rtol=2e-6)
    n_more = ranker.n_iter_ - n_done
    assert n_more < n_done / 2
    history = ranker.solution_.history
    assert len(history) == ranker.n_iter_
    assert all(one.seconds <= other.seconds for one, other in pairwise(history))
    assert not list(tmp_path.iterdir())


def test_an_early_checkpoint_is_as_good_as_its_weights(rows, tmp_path, monkeypatch):
    ranker = TopPush(lam=1e-3, checkpoint=str(tmp_path / "fit.npz"))
    broken_off(monkeypatch, ranker, rows, 1)
    ranker.fit(*rows)
    assert ranker.solution_.relative_gap <= 1e-4


def test_a_checkpoint_of_another_fit_is_refused(rows, tmp_path, monkeypatch):
    ranker = TopPush(lam=1e-3, checkpoint=tmp_path / "fit.npz")
    broken_off(monkeypatch, ranker, rows, 2)
    with pytest.raises(ValueError, match=r"belongs to another fit.*lam=0\.001.*lam=0\.5"):
        ranker.set_params(lam=0.5).fit(*rows)
    assert (tmp_path / "fit.npz").exists()


def test_the_dual_method_has_no_checkpoint(rows, tmp_path):
    with pytest.raises(ValueError, match="needs solver='newton'"):
        TopPush(solver="paper", checkpoint=tmp_path / "fit.npz").fit(*rows)


def test_writes_are_not_too_many(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "EVERY", 1e6)
    written = []
    save = np.savez
    monkeypatch.setattr(np, "savez", lambda *given, **more: written.append(save(*given, **more)))
    TopPush(lam=1e-3, checkpoint=tmp_path / "fit.npz").fit(*rows)
    assert len(written) == 1
    assert TopPush(checkpoint=None).fit(*rows).n_iter_ > 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x05\x06" + bytes(18),
        b"rows,of,a,table\n1,2,3\n",
        b"\x93NUMPY\x01\x00v\x00{'descr'",
    ],
    ids=["empty", "empty archive", "text", "array"],
)
def test_what_is_not_a_checkpoint_is_refused_and_left(content, rows, tmp_path):
    path = tmp_path / "fit.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"fit\.npz is not the checkpoint .* or is damaged"):
        TopPush(lam=1e-3, checkpoint=path).fit(*rows)
    assert path.read_bytes() == content


def test_damage_is_told_with_the_name_of_the_file(rows, tmp_path, monkeypatch, rng):
    path = tmp_path / "fit.npz"
    ranker = TopPush(lam=1e-3, checkpoint=path)
    broken_off(monkeypatch, ranker, rows, 2)
    whole = path.read_bytes()

    def solve(*given, **more):
        raise Gone

    monkeypatch.setattr("toppush.estimators.toppush.solve", solve)
    said = []
    for trial in range(120):
        bad = bytearray(whole)
        if trial % 2:
            del bad[rng.integers(len(whole)) :]
        else:
            bad[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(bad))
        try:
            ranker.fit(*rows)
        except ValueError as error:
            said.append(str(error))
        except Gone:  # what was flipped means nothing
            pass
    assert len(said) > 80
    assert all(one.startswith(f"{path} ") for one in said)


def test_checkpoints_reach_the_disk_before_they_have_their_name(rows, tmp_path, monkeypatch):
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, n=name, r=real: done.append(n) or r(*given))
    broken_off(monkeypatch, TopPush(lam=1e-3, checkpoint=tmp_path / "fit.npz"), rows, 1)
    assert done[:2] == ["fsync", "replace"]


def test_a_checkpoint_that_cannot_be_written_is_named(rows, tmp_path):
    path = tmp_path / "none" / "fit.npz"
    with pytest.raises(OSError, match=r"none/fit\.npz: it cannot be written: there is no folder"):
        TopPush(lam=1e-3, checkpoint=path).fit(*rows)


def test_the_next_fit_removes_what_a_killed_one_left(rows, tmp_path):
    script = (
        "import numpy as np, os, signal\n"
        "from toppush import TopPush\nfrom toppush.solvers import checkpoints\n"
        "np.savez = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"TopPush(checkpoint={str(tmp_path / 'fit.npz')!r}).fit(np.eye(4), [0, 0, 1, 1])\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    TopPush(lam=1e-3, checkpoint=tmp_path / "fit.npz").fit(*rows)
    assert not list(tmp_path.iterdir())
