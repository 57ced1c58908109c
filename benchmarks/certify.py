"""Whether the solver proves its gap, on every data set and over the whole range of lam.

python -m benchmarks.certify                 # top 1, truncated quadratic loss, lam 1e-3..1e3
python -m benchmarks.certify --top 1 10 0.01 --loss logistic exponential
"""

import argparse
import time
import warnings

from benchmarks.common import report
from benchmarks.data import FILES, load

LAMS = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=list(FILES))
    parser.add_argument("--top", nargs="*", default=["1"])
    parser.add_argument("--loss", nargs="*", default=["truncated_quadratic"])
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--name", default="certify")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from toppush import TopPush

    rows = []
    for name in options.data:
        X, y = load(name)
        for loss in options.loss:
            for word in options.top:
                top = float(word) if "." in word else int(word)
                for lam in LAMS:
                    began = time.perf_counter()
                    model = TopPush(lam, top=top, loss=loss, tol=options.tol, n_jobs=1)
                    found = model.fit(X, y).solution_
                    seconds = time.perf_counter() - began
                    rows.append([
                        name, loss, word, lam, found.relative_gap, found.n_iter,
                        found.history[-1].data_passes, seconds, found.upper, found.status.name,
                    ])  # fmt: skip
                    print(*rows[-1], flush=True)
    columns = [
        "data", "loss", "top", "lam", "relative gap", "iterations", "passes", "seconds",
        "objective", "status",
    ]  # fmt: skip
    report(options.name, columns, rows)
    proven = sum(row[4] <= options.tol for row in rows)
    print(f"\ncertified: {proven} of {len(rows)}")


if __name__ == "__main__":
    main()
