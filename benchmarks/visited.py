"""Files and functions of toppush that run in the four most frequent calls.

python -m benchmarks.visited
"""

import contextlib
import io
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

import toppush
from benchmarks import common
from toppush import TopPush, TopRanker
from toppush.cli import main as command

SOURCE = str(Path(toppush.__file__).parent)


def visited(function):
    """Files and functions of toppush that run during a second call, in all threads.

    The first call imports what is imported on demand.
    """
    function()
    codes = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            codes.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    names = {(file, name) for file, name in codes if "<" not in name.rpartition(".")[2]}
    return len({file for file, _ in names}), len(names)


def run(*arguments):
    """A command in this process, without its output."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        command.main(list(map(str, arguments)), standalone_mode=False)


def table_of_customers(n_rows=600):
    """Two numbers, a category and a date with missing values, and a label that depends on them."""
    rng = np.random.default_rng(0)
    amount, age = rng.lognormal(3.0, 1.0, n_rows), rng.integers(18, 80, n_rows).astype(float)
    region = rng.choice(["north", "south", "west"], n_rows)
    odds = np.log(amount) - 0.03 * age + (region == "north") + rng.logistic(size=n_rows)
    age[::17] = np.nan
    day = pd.Timestamp("2025-01-01") + pd.to_timedelta(rng.integers(0, 365, n_rows), "D")
    return pd.DataFrame(
        {"amount": amount, "age": age, "region": region, "day": day, "label": odds > 4.5}
    ).astype({"label": int})


def main():
    frame = table_of_customers()
    X, y = frame.drop(columns="label"), frame["label"]
    rows = [
        ["TopPush().fit", *visited(lambda: TopPush().fit(*load_breast_cancer(return_X_y=True)))],
        ["TopRanker().fit", *visited(lambda: TopRanker().fit(X, y))],
    ]
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder) / "train.csv", Path(folder) / "model.toppush"
        frame.to_csv(data, index=False)
        rows.append(["toppush fit", *visited(lambda: run("fit", data, "-o", model))])
        rows.append(["toppush rank", *visited(lambda: run("rank", model, data))])
    common.report("visited", ["call", "files", "functions"], rows)


if __name__ == "__main__":
    main()
