"""Fits with many columns and a signal compared with LIBLINEAR's logistic regression, in one run.

    python -m benchmarks.wide                  # synthetic rows like url and real-sim, two real sets
    python -m benchmarks.wide --data real-sim --lams 1 --repeats 1
    python -m benchmarks.wide --certify        # all to a gap of 1e-4, without competitors

One thread, CPU seconds, medians; TopPush to a proven gap of 1e-3. LIBLINEAR has C = 1, its default,
for lam = 1, C = 6 for 1e-2, 60 for 1e-3 and 600 for 1e-4: a logistic loss summed over
all rows with weight C, where ours is a mean over the positives with weight 1/lam.
"""

import argparse
import time
import warnings
from statistics import median

from threadpoolctl import threadpool_limits

from benchmarks.common import report
from benchmarks.data import load, made

C_OF_LAM = {1.0: 1.0, 1e-2: 6.0, 1e-3: 60.0, 1e-4: 600.0}
TOPS = (1, 0.01)
TOL, CERTIFIED = 1e-3, 1e-4
SETS = {
    "url": lambda: made("made like url", n_rows=50_000, n_columns=200_000),
    "real-sim": lambda: made("made like real-sim"),
    "news20 (part)": lambda: load("news20 (part)"),
    "hiv-ecfp4": lambda: load("hiv-ecfp4"),
}
"""The first two are made, with planted weights."""
MADE_LAMS, REAL_LAMS = (1.0, 1e-2, 1e-4), (1e-3,)
COLUMNS = ["data", "rows", "columns", "lam", "top", "seconds", "liblinear, C", "its seconds",
           "ratio", "status", "iterations", "passes", "relative gap", "objective"]  # fmt: skip


def cpu_seconds(work, repeats):
    """Median CPU time of a call, and its last answer."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        answer = work()
        times.append(time.process_time() - began)
    return median(times), answer


def rows_of(name, lams, tol, repeats, competitor):
    """A row of the table for every lam and top."""
    from sklearn.linear_model import LogisticRegression

    from toppush import TopPush

    X, y = SETS[name]()
    for lam in lams:
        C, theirs = C_OF_LAM[lam], ""
        if competitor:
            model = LogisticRegression(C=C, solver="liblinear", max_iter=1000)
            theirs, _ = cpu_seconds(lambda: model.fit(X, y), repeats)  # noqa: B023
        for top in TOPS:
            ranker = TopPush(lam, top=top, tol=tol, n_jobs=1)
            ours, _ = cpu_seconds(lambda: ranker.fit(X, y), repeats)  # noqa: B023
            found = ranker.solution_
            ratio = ours / theirs if competitor else ""
            yield [name, *X.shape, lam, top, ours, C if competitor else "", theirs, ratio,
                   found.status.name, found.n_iter, found.history[-1].data_passes,
                   found.relative_gap, found.upper]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--lams", nargs="*", type=float)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--certify", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    tol, repeats = (CERTIFIED, 1) if options.certify else (TOL, options.repeats)
    rows = []
    with threadpool_limits(1):
        for name in options.data:
            lams = options.lams or (MADE_LAMS if name in ("url", "real-sim") else REAL_LAMS)
            for row in rows_of(name, lams, tol, repeats, not options.certify):
                rows.append(row)
                print(
                    *(f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row),
                    flush=True,
                )
    report("wide-certified" if options.certify else "wide", COLUMNS, rows)
    if not options.certify:
        ratios = [row[8] for row in rows]
        print(f"\nnot slower than liblinear: {sum(r <= 1 for r in ratios)} of {len(ratios)}")
    print(f"certified: {sum(row[12] <= tol for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
