"""A cross-validated path of 7 lams x 5 folds beside one fit at the hardest lam.

python -m benchmarks.path

CPU seconds of one thread, medians of three.
"""

import os
import time
import warnings
from statistics import median

from benchmarks.common import report
from benchmarks.data import load

LAMS = [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3]
DATA = [
    "diabetes",
    "spambase",
    "mammography",
    "w8a",
    "a9a",
    "ijcnn1",
    "nslkdd",
    "real-sim (sample)",
]


def timed(model, X, y, repeats=3):
    times = []
    for _ in range(repeats):
        began = time.process_time()
        model.fit(X, y)
        times.append(time.process_time() - began)
    return median(times)


def main():
    warnings.simplefilter("ignore")
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    import numpy as np
    from sklearn.model_selection import StratifiedKFold

    from toppush import TopPush, TopPushCV

    rows = []
    for name in DATA:
        X, y = load(name)
        train, _ = next(StratifiedKFold(5).split(np.zeros(len(y)), y))
        X_part, y_part = X[train], y[train]
        alone = {lam: timed(TopPush(lam, n_threads=1), X_part, y_part) for lam in LAMS}
        hardest = max(alone, key=alone.get)
        whole = timed(TopPushCV(LAMS, tops=(1,), n_threads=1), X, y)
        rows.append([name, hardest, alone[hardest], whole, whole / alone[hardest]])
        print(*rows[-1], flush=True)
    report("path", ["data", "hardest lam", "one fit", "7 x 5 fits and the last", "ratio"], rows)


if __name__ == "__main__":
    main()
