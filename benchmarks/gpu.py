"""Fits on a GPU beside the processors of the same machine; the data are made on the GPU.

python -m benchmarks.gpu                 # both parts
python -m benchmarks.gpu dense           # 10^7 x 256 float32
python -m benchmarks.gpu url             # 2,396,130 x 3,231,961, 116 entries a row
python -m benchmarks.gpu --scale 0.001 --device cpu     # a rehearsal without a GPU

A part that fails says why and the next one runs. Each part writes its table as soon as it ends.
"""

import argparse
import time
import traceback
import warnings
from pathlib import Path
from statistics import median

import numpy as np
import torch
from scipy import sparse

from benchmarks import common
from toppush import TopPush
from toppush.datasets.made import MADE
from toppush.designs.torch import rows as gpu

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
    """What the files say of the device beside what they say of the machine."""
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
        "passes": found.history[-1].passes,
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


def profile(work, title):
    """Where the time of one fit goes, by kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] * torch.cuda.is_available())]
    with record(activities=kinds) as recorded:
        seconds, _ = timed(work)
    events = recorded.key_averages()
    busy = sum(event.self_device_time_total for event in events) / 1e6
    say(f"{title}: {seconds:.3f} s with the profiler on, the device busy for {busy:.3f} s")
    calls = {event.key: event.count for event in events if event.key.startswith("cu")}
    say("calls", calls)
    for event in sorted(events, key=lambda event: -event.self_device_time_total)[:10]:
        print(f"  {event.self_device_time_total / 1e3:9.2f} ms {event.count:6d}  {event.key[:90]}")
    common.RESULTS.mkdir(exist_ok=True)
    with (common.RESULTS / "gpu-profile.txt").open("a") as file:
        by_kernel = events.table(sort_by="self_device_time_total", row_limit=40)
        by_host = events.table(sort_by="self_cpu_time_total", row_limit=40)
        file.write(f"{title}\n{by_kernel}\n{by_host}\n")


def tabulate(name, rows, device):
    """Save what there is so far; shown at the end."""
    columns = list(rows[0])
    TABLES[name] = columns, [[row[column] for column in columns] for row in rows]
    common.save(name, *TABLES[name], extra=about(device))


# ---- parts


def dense(device, scale):
    """10^7 x 256: classes some standard deviations apart along a direction."""
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
        profile(lambda: fit(X, y, **given), name)  # noqa: B023


def on_host(X, y):
    """Copies for the processors."""
    copied, (X, y) = timed(lambda: (X.cpu().numpy(), y.cpu().numpy()))
    say(f"copied to the processors in {copied:.1f} s")
    return X, y


def url_rows(device, scale):
    """`benchmarks.data.made("made like url")` by the same recipe on the device, as CSR parts."""
    full, n_columns, per_row, share = MADE["made-url"]
    n_rows = int(full * scale)
    generator = torch.Generator(device).manual_seed(0)

    def random(*shape):
        return torch.rand(*shape, generator=generator, device=device)

    y = random(n_rows) < share
    indices, values, lengths = [], [], []
    for told in y.split(200_000):
        columns = (n_columns * random(len(told), per_row) ** 3).to(torch.int32)
        part = columns[:, : per_row // 4]
        part[:] = torch.where(told[:, None], part | 1, part & ~1)
        flips = (random(len(told)) < 0.1) & (random(len(told)) < 0.5)
        part[flips] ^= 1
        columns = columns.clamp(max=n_columns - 1).sort(dim=1).values
        new = torch.ones_like(columns, dtype=torch.bool)
        new[:, 1:] = columns[:, 1:] != columns[:, :-1]
        at = new.flatten().nonzero().squeeze(1)
        ends = torch.cat([at[1:], torch.tensor([columns.numel()], device=device)])
        indices.append(columns.flatten()[at])
        values.append((ends - at).double() / per_row**0.5)
        lengths.append(new.sum(dim=1))
    pointers = torch.zeros(n_rows + 1, dtype=torch.int32, device=device)
    pointers[1:] = torch.cat(lengths).cumsum(0)
    return pointers, torch.cat(indices), torch.cat(values), n_columns, y


def url(device, scale):
    """Url's sizes and density, float32 and float64."""
    pointers, indices, values, n_columns, y = url_rows(device, scale)
    shape = (len(y), n_columns)
    say(f"url: {shape[0]} x {shape[1]}, {len(indices)} entries")
    rows, copied = [], []

    def host():
        if not copied:
            parts = [part.cpu().numpy() for part in (values, indices, pointers)]
            X = sparse.csr_array(shape, dtype=np.float64)
            X.data, X.indices, X.indptr = parts
            copied.extend([X, y.cpu().numpy()])
        return copied

    for kind in (torch.float32, torch.float64):
        X = torch.sparse_csr_tensor(pointers, indices, values.to(kind), size=shape)
        placed = gpu.place(X, None)
        found = products(placed)
        say("products, ms:", {key: float(f"{value:.3g}") for key, value in found.items()})
        del placed
        for lam, top in ((1.0, 1), (0.01, 0.01)):
            given = {"lam": lam, "top": top, "tol": 1e-3}
            beside = host if kind == torch.float64 else None
            rows.append({**compare("made like url", X, y, beside, 3, **given), **found})
            tabulate("gpu-url", rows, device)
        if kind == torch.float32:
            profile(lambda: fit(X, y, lam=1.0, top=1, tol=1e-3), "made like url")  # noqa: B023


PARTS = {"dense": dense, "url": url}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the rows to make")
    parser.add_argument("--results", type=Path, help="folder for the tables")
    options = parser.parse_args()
    common.RESULTS = options.results or common.RESULTS
    say(about(options.device), common.machine())
    failed = []
    for name in options.parts or PARTS:
        say("part", name)
        try:
            PARTS[name](options.device, options.scale)
        except Exception:
            traceback.print_exc()
            failed.append(name)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    for name, table in TABLES.items():
        print(f"\n{name}")
        common.show(*table)
    say("failed:", failed or "nothing")
    raise SystemExit(len(failed))


if __name__ == "__main__":
    main()
