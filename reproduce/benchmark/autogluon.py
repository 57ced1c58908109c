"""AutoGluon, in a Python environment of its own, as its requirements differ from ours.

TOPPUSH_AUTOGLUON names the interpreter of that environment (`python -m reproduce benchmark
--autogluon PYTHON` sets it). This module is also what that interpreter runs, so it imports only
what AutoGluon brings:

    python -I autogluon.py fit FOLDER      train.parquet and options.json -> the predictor
    python -I autogluon.py score FOLDER    test.parquet -> scores.npy
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

INTERPRETER = "TOPPUSH_AUTOGLUON"
MOST_COLUMNS = 5000
LABEL = "is_positive"


@cache
def _asked() -> tuple[str, str]:
    """The version of AutoGluon, or why it cannot run here."""
    python = os.environ.get(INTERPRETER, "")
    if not python:
        return "", f"{INTERPRETER} does not name the Python of an environment with AutoGluon"
    code = "from importlib.metadata import version; print(version('autogluon.tabular'))"
    try:
        finished = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    except OSError as error:
        return "", f"{INTERPRETER}: {error}"
    version = finished.stdout.strip()
    return version, "" if version else f"{python} has no autogluon.tabular"


def version() -> str:
    """The version that the interpreter has; empty if it has none."""
    return _asked()[0]


def missing() -> str:
    """Why AutoGluon cannot run here; empty if it can."""
    return _asked()[1]


def refuses(X: Any) -> str:
    """Why the rows are not given to AutoGluon, which takes data frames alone."""
    return f"more than {MOST_COLUMNS} columns" if X.shape[1] > MOST_COLUMNS else ""


def fit(X: Any, y: Any, seed: int, n_jobs: int, *, presets: str, seconds: int) -> Any:
    """Fit in the other environment; the seed plays no part, as AutoGluon sets its own."""
    folder = Path(tempfile.mkdtemp())

    def score(X: Any) -> Any:
        _frame(X).to_parquet(folder / "test.parquet")
        _run("score", folder)
        return np.load(folder / "scores.npy")

    weakref.finalize(score, shutil.rmtree, folder, ignore_errors=True)
    labelled = _frame(X).assign(**{LABEL: np.asarray(y).astype(int)})
    labelled.to_parquet(folder / "train.parquet")
    options = {"presets": presets, "time_limit": seconds, "num_cpus": n_jobs}
    (folder / "options.json").write_text(json.dumps(options))
    _run("fit", folder)
    return score


def _frame(X: Any) -> Any:
    import pandas

    if hasattr(X, "columns"):
        return X.reset_index(drop=True)
    rows = X if isinstance(X, np.ndarray) else X.toarray()
    return pandas.DataFrame(rows, columns=[f"c{i}" for i in range(rows.shape[1])])


def _run(step: str, folder: Path) -> None:
    # Isolated, it does not take the modules beside this file for others of the same names.
    command = [os.environ[INTERPRETER], "-I", str(Path(__file__).resolve()), step, str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if finished.returncode:
        lines = finished.stderr.strip().splitlines() or [f"exit status {finished.returncode}"]
        raise RuntimeError(f"AutoGluon: {lines[-1]}")


def _end_with_parent() -> None:
    """End this process when the one that started it is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _main(step: str, folder: Path) -> None:
    import pandas
    from autogluon.tabular import TabularPredictor

    if step == "fit":
        options = json.loads((folder / "options.json").read_text())
        predictor = TabularPredictor(
            LABEL, "binary", "average_precision", path=str(folder / "predictor"), verbosity=0
        )
        predictor.fit(pandas.read_parquet(folder / "train.parquet"), num_gpus=0, **options)
        return
    predictor = TabularPredictor.load(str(folder / "predictor"))
    scores = predictor.predict_proba(pandas.read_parquet(folder / "test.parquet"))[1]
    np.save(folder / "scores.npy", scores.to_numpy(np.float64))


if __name__ == "__main__":
    _end_with_parent()
    _main(sys.argv[1], Path(sys.argv[2]))
