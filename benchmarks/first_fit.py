"""The first fit of a process: CPU seconds from the start of Python to fitted weights of diabetes.

    python -m benchmarks.first_fit
    python -m benchmarks.first_fit --before ../before/src

Medians over processes, which take turns; with one thread, and with files of bytecode at hand.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.common import report
from benchmarks.data import ROOT, load

READ = "import sys, warnings, numpy; warnings.simplefilter('ignore'); "
READ += "X, y = numpy.load(sys.argv[1]).values(); "
WORK = {
    "TopPush": "from toppush import TopPush; TopPush(1.0, tol=1e-3, n_threads=1).fit(X, y)",
    "LogisticRegression (liblinear)": "from sklearn.linear_model import LogisticRegression; "
    "LogisticRegression(solver='liblinear').fit(X, y)",
    "import sklearn.base, no fit": "import sklearn.base",
}


def cpu_seconds(code, rows, source, kept):
    """Of a process that reads the rows and runs the code."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    env = os.environ | threads | {"PYTHONPATH": str(source), "PYTHONPYCACHEPREFIX": str(kept)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", READ + code, str(rows)], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(before, repeats):
    cases = {name: (code, ROOT / "src") for name, code in WORK.items()}
    if before is not None:
        cases["TopPush, before"] = WORK["TopPush"], before.resolve()
    seconds = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        rows, (X, y) = Path(folder) / "rows.npz", load("diabetes")
        np.savez(rows, X=X.toarray(), y=y)
        for turn in range(repeats + 1):
            for name, (code, source) in cases.items():
                found = cpu_seconds(code, rows, source, Path(folder) / "bytecode")
                seconds[name] += [found] * (turn > 0)  # the first one writes bytecode
    report("first-fit", ["process", "CPU seconds"], [[k, median(v)] for k, v in seconds.items()])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, help="the src folder of another tree")
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    main(given.before, given.repeats)
