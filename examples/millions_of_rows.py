"""
Millions of rows
================

**The task.** The rows do not fit in memory, or are stored on several machines. The estimator stays the same; only
its input X changes. This example uses 200,000 rows to run in seconds; the code is the same for a hundred million.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from distributed import Client

from toppush import TopPush, cluster, on_disk

rng = np.random.default_rng(0)
y = rng.random(200_000) < 0.02
X = rng.normal(size=(200_000, 20)).astype(np.float32)
X[y] += 0.7
folder = Path(tempfile.mkdtemp())
path = folder / "rows.npy"
np.save(path, X)

ranker = TopPush(lam=0.01, top=0.01)
solutions = {"in memory": ranker.fit(X, y).solution_}

# %%
# **On disk.** ``memory_limit`` bounds the memory of the whole process; rows are read in blocks, one block ahead
# of the computation.

rows = on_disk.open(path, memory_limit="4GiB")
solutions["on disk"] = ranker.fit(rows, y).solution_
print(f"read {rows.bytes_read / path.stat().st_size:.0f} times the file")

# %%
# **On a cluster.** Only a running client is needed. The workers read the partitions and keep the rows. Here the
# workers are threads of this process; ``Client("tcp://scheduler:8786")`` connects to other machines.

columns = [f"column {number}" for number in range(20)]
for part in range(4):
    rows = pd.DataFrame(X[part::4], columns=columns).assign(y=y[part::4])
    rows.to_parquet(folder / f"part-{part}.parquet")

with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
    lazy_X, lazy_y = cluster.read_parquet(f"{folder}/part-*.parquet", label="y")
    solutions["on Dask"] = ranker.fit(lazy_X.persist(), lazy_y.persist()).solution_

# %%
# The solutions agree, and each has its certificate.

for name, solution in solutions.items():
    print(f"{name:10} between {solution.lower:.6f} and {solution.upper:.6f}")

axes = plt.figure(figsize=(7, 3.5), layout="constrained").gca()
for number, (name, solution) in enumerate(solutions.items()):
    places = np.arange(20) + 0.25 * number
    axes.bar(places, solution.weights, width=0.25, label=name)
axes.set(xlabel="column", ylabel="weight", xticks=range(20))
axes.legend()

# %%
# **What to conclude.** Use one machine as long as possible: a fit reads the rows ten to fifty times, which a disk
# can serve. :doc:`Scaling <../scaling>` compares the costs.
