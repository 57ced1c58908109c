"""Fits on a GPU compared with the processors of the same machine.

python -m benchmarks.gpu dense           # 10^7 x 256 float32, made on the GPU
python -m benchmarks.gpu dense --scale 0.001 --device cpu  # a rehearsal without a GPU
python -m benchmarks.gpu signal --rows 500000 --lams 1 0.01 0.0001    # rows with a signal
python -m benchmarks.gpu signal --rows 500000 --device cpu --threads 16 --limit 120

With --device cpu the part signal runs on the processors and stops after --limit seconds, which
then is a time that a fit takes more than; its rows are added to results/gpu-signal.csv. A part that
fails says why and the next one runs. Each part writes its table as soon as it ends.
"""

import argparse
import time
import traceback
import warnings
from pathlib import Path
from statistics import median

import torch

from benchmarks import common
from reproduce import datasets
from reproduce.datasets.made import MADE
from toppush import TopPush
from toppush.designs import place
from toppush.designs.torch import rows as gpu
from toppush.problem.losses import LOSSES
from toppush.problem.objective import TopPushProblem, count_top
from toppush.solvers import solve

BEGAN = time.perf_counter()
ENOUGH = 400.0
"""Seconds after which no further fit on the processors is begun."""
TABLES = {}


def say(*words):
    print(f"[{time.perf_counter() - BEGAN:6.1f} s]", *words, flush=True)


def wait():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(work, repeats=1):
    """Median seconds of a call that runs on the device, and its last answer."""
    times = []
    for _ in range(repeats):
        wait()
        began = time.perf_counter()
        answer = work()
        wait()
        times.append(time.perf_counter() - began)
    return median(times), answer


def about(device):
    """Facts about the device and the machine."""
    name = torch.cuda.get_device_name() if device == "cuda" else "none"
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "gpu": name}


# ---- products


def products(rows):
    """Milliseconds of X v and X' u by the design's rows and by torch alone, and the errors."""
    v = torch.randn(rows.shape[1], dtype=torch.float64, device=rows.values.device)
    u = torch.randn(rows.shape[0], dtype=torch.float64, device=rows.values.device)
    first, _ = timed(lambda: rows.combine(u))
    found = {"X'u, first": first * 1e3}
    for name, ours, vector in (("Xv", rows.scores, v), ("X'u", rows.combine, u)):
        ours(vector)
        found[name] = timed(lambda ours=ours, vector=vector: ours(vector), 20)[0] * 1e3
    matrix = rows.values if hasattr(rows, "gram") and rows.values.ndim == 2 else rows._matrix
    single_v, single_u = v.to(rows.dtype), u.to(rows.dtype)
    found["torch Xv"] = timed(lambda: matrix @ single_v, 20)[0] * 1e3
    if rows.values.ndim == 2:
        found["torch X'u"] = timed(lambda: matrix.T @ single_u, 20)[0] * 1e3
    else:
        transpose = rows._transpose
        found["torch X'u"] = timed(lambda: transpose @ single_u, 20)[0] * 1e3
    # X'u . v = u . Xv up to rounding
    one, other = float(rows.combine(u) @ v), float(u @ rows.scores(v))
    size = float(u.norm() * rows.scores(v).norm())
    found["adjoint error"] = abs(one - other) / size
    return found


# ---- fits


def fit(X, y, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TopPush(**given).fit(X, y).solution_


def compare(name, X, y, host, repeats, **given):
    """One row: the fit on the device, and on the processors if there is time."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    first, _ = timed(lambda: fit(X, y, **given))
    seconds, found = timed(lambda: fit(X, y, **given), repeats)
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    row = {
        "data": name,
        "type": str(X.dtype).rpartition(".")[2],
        "lam": given["lam"],
        "top": given["top"],
        "first s": first,
        "gpu s": seconds,
        "iterations": found.n_iter,
        "passes": found.history[-1].data_passes,
        "gap": found.relative_gap,
        "objective": found.upper,
        "peak GiB": peak,
        "cpu s": float("nan"),
        "cpu / gpu": float("nan"),
        "cpu objective": float("nan"),
    }
    say({key: f"{cell:.4g}" if isinstance(cell, float) else cell for key, cell in row.items()})
    if host is not None and time.perf_counter() - BEGAN < ENOUGH:
        copies = host()
        began = time.perf_counter()
        other = fit(*copies, **given)
        row["cpu s"] = time.perf_counter() - began
        row["cpu / gpu"] = row["cpu s"] / seconds
        row["cpu objective"] = other.upper
        say("processors:", f"{row['cpu s']:.2f} s", other.upper, other.relative_gap)
    return row


def tabulate(name, rows, device):
    """Save what there is so far; shown at the end."""
    columns = list(rows[0])
    TABLES[name] = columns, [[row[column] for column in columns] for row in rows]
    common.save(name, *TABLES[name], extra=about(device))


# ---- parts


def dense(options):
    """10^7 x 256: classes some standard deviations apart along a direction."""
    device, scale = options.device, options.scale
    n_rows, n_columns = int(10_000_000 * scale), 256
    generator = torch.Generator(device).manual_seed(0)
    X = torch.empty((n_rows, n_columns), dtype=torch.float32, device=device)
    for part in X.split(1 << 20):
        part.normal_(generator=generator)
    y = torch.rand(n_rows, generator=generator, device=device) < 0.1
    direction = torch.randn(n_columns, generator=generator, device=device)
    direction /= direction.norm()
    positives = y.nonzero().squeeze(1)
    fit(X[: n_rows // 50], y[: n_rows // 50], lam=1.0, top=0.01, tol=1e-3)  # libraries loaded
    found = products(gpu.place(X, None))
    say("products, ms:", {key: float(f"{value:.3g}") for key, value in found.items()})
    rows, apart = [], 0.0
    for shift, top in ((3.0, 0.01), (8.0, 1)):
        for part in positives.split(1 << 20):
            X[part] += (shift - apart) * direction
        apart = shift
        name = f"{n_rows} x {n_columns}, classes {shift:g} sd apart"
        given = {"lam": 1.0, "top": top, "tol": 1e-3}
        rows.append({**compare(name, X, y, lambda: on_host(X, y), 3, **given), **found})
        tabulate("gpu-dense", rows, device)


def on_host(X, y):
    """Copies for the processors."""
    copied, (X, y) = timed(lambda: (X.cpu().numpy(), y.cpu().numpy()))
    say(f"copied to the processors in {copied:.1f} s")
    return X, y


# ---- rows with a signal


def signal(options):
    """Time to a proven gap at each lam, on the device or on the processors."""
    X, y = datasets.made(options.data, n_rows=options.rows, n_columns=options.columns)
    X = X.astype(options.dtype)
    say(f"made {X.shape[0]} x {X.shape[1]}, {X.nnz} entries, {y.sum()} positive")
    device = options.device if options.device == "cuda" else None
    solved_by(place(X[:3000], device), y[:3000], options.lams[0], options)  # libraries loaded
    placing, rows = timed(lambda: place(X, device))
    about_rows = {
        "rows": X.shape[0], "columns": X.shape[1], "entries": X.nnz, "type": options.dtype,
        "where": about("cuda")["gpu"] if device else f"{options.threads} threads",
        "placing s": placing, "top": options.top,
    }  # fmt: skip
    for lam in options.lams:
        append(options.name, about_rows | {"lam": lam} | timed_fit(rows, y, lam, options))


def timed_fit(rows, y, lam, options):
    """Seconds of a fit with what it found; a fit that was stopped takes longer than that."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    seconds, found = timed(lambda: solved_by(rows, y, lam, options))
    peak = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0.0
    row = {
        "seconds": seconds, "status": found.status.name, "iterations": found.n_iter,
        "passes": found.history[-1].data_passes, "gap": found.relative_gap,
        "objective": found.upper, "peak GiB": peak,
    }  # fmt: skip
    say(f"lam {lam:g}:", {key: common._shown(cell) for key, cell in row.items()})
    return row


def solved_by(rows, y, lam, options):
    """A fit to placed rows; one on the processors ends when its time is over."""
    began = time.perf_counter()

    def late(history, weights, threshold):
        return time.perf_counter() - began > options.limit

    with rows.design(y, n_jobs=options.threads) as design:
        loss, k = LOSSES["truncated_quadratic"], count_top(options.top, design.n_neg)
        watch = late if options.device == "cpu" else None  # which is handed all weights
        problem = TopPushProblem(design, loss, lam, k)
        return solve(problem, tol=options.tol, max_iter=10_000, callback=watch)


def append(name, row):
    """Add a row to the table of an earlier run."""
    before = [line for line in common.saved(name) if list(line) == list(row)]
    columns, rows = list(row), [list(line.values()) for line in before] + [list(row.values())]
    TABLES[name] = columns, rows
    common.save(name, columns, rows, extra=about("cuda" if torch.cuda.is_available() else "cpu"))


PARTS = {"dense": dense, "signal": signal}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--results", type=Path, help="folder for the tables")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows to make")
    of_signal = parser.add_argument_group("signal")
    of_signal.add_argument("--data", default="made-url", choices=MADE)
    of_signal.add_argument("--rows", type=int, default=500_000)
    of_signal.add_argument("--columns", type=int, help="by default as many as the data have")
    of_signal.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    of_signal.add_argument("--lams", type=float, nargs="+", default=[1.0, 0.01, 0.0001])
    of_signal.add_argument("--top", type=top, default=1, help="a count, or a share below 1")
    of_signal.add_argument("--tol", type=float, default=1e-3)
    of_signal.add_argument("--threads", type=int, default=16)
    of_signal.add_argument("--limit", type=float, default=float("inf"), help="seconds of a fit")
    of_signal.add_argument("--name", default="gpu-signal", help="of the table")
    options = parser.parse_args()
    common.RESULTS = options.results or common.RESULTS
    say(about(options.device), common.machine())
    failed = [name for name in options.parts if not ran(PARTS[name], options)]
    for name, table in TABLES.items():
        print(f"\n{name}")
        common.show(*table)
    say("failed:", failed or "nothing")
    raise SystemExit(len(failed))


def top(text):
    """A count or a share."""
    return int(text) if float(text) >= 1.0 else float(text)


def ran(part, options):
    """Whether a part ran to its end."""
    say("part", part.__name__)
    try:
        part(options)
    except Exception:
        traceback.print_exc()
        return False
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return True


if __name__ == "__main__":
    main()
