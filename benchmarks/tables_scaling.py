"""The tables of docs/scaling.md."""

from collections.abc import Callable

from benchmarks.summary import Grid, Number, group, of, read, top_of


def machines() -> Grid:
    """Whole fits on a core, on 16 and on a GPU."""
    tenth, url = read("rows")[-1], read("url-size")[0]
    lines = [
        ["10^7 x 20, float32", "one core", f"{tenth['seconds']:.1f}", f"{tenth['passes']:.1f}"],
        ["degenerate, like url",
         "one core", f"{url['fit seconds']:.0f}", f"{url['passes']:.0f}"],
    ]  # fmt: skip
    for row in read("gpu-dense"):
        sizes = f"{row['data']}".replace("10000000", "10^7").replace("sd", "deviations")
        title = f"{sizes}, {row['type']}, lam {row['lam']:g}, top {top_of(row)}"
        if f"{row['cpu s']:.3g}":
            lines.append([title, "16 cores", f"{row['cpu s']:.3g}", ""])
            title = ""
        lines.append([title, "H200", f"{row['gpu s']:.2f}", f"{row['passes']:.0f}"])
    return [["rows", "where", "seconds", "reads"], *lines]


def gpu_signal() -> Grid:
    found = group(read("gpu-signal"), "rows", "lam", "where")
    lines = []
    for (rows, lam, where), (fit,) in found.items():
        if where != "NVIDIA H200":
            continue
        line = [
            f"{fit['rows']:,.0f} x {fit['columns']:,.0f}",
            f"{fit['lam']:g}",
            f"{fit['seconds']:.2f}",
        ]
        line.append(f"{fit['iterations']}")
        beside = found.get((rows, lam, "16 threads"))
        lines.append(line + (_stopped(beside[0], fit["seconds"]) if beside else ["", ""]))
    return [["rows", "lam", "H200, s", "iterations", "16 cores, s", "times"], *lines]


def _stopped(fit: dict[str, Number], seconds: float) -> list[str]:
    """Seconds and times the GPU's, at least so many if the fit was stopped."""
    times = f"{fit['seconds'] / seconds:.0f}"
    if fit["status"] == "CONVERGED":
        return [f"{fit['seconds']:.1f}", times]
    return [f"more than {fit['seconds']:.0f}, gap {fit['gap']:.2g}", f"{times}+"]


SCALING: dict[str, Callable[[], Grid]] = {
    "machines": machines,
    "gpu-signal": gpu_signal,
    "cluster": of("cluster_speed", {
        "rows on": "{side}", "seconds": "{seconds:.1f}", "rounds": "{rounds}",
        "driver's peak MB": "{driver MB:.0f}",
    }),
    "out-of-core": of("out-of-core", {
        "file, GiB": "{GiB:.0f}", "limit, GiB": "{limit GiB:.0f}", "a read, s": "{read s:.1f}",
        "X v, s": "{Xv s:.1f}", "X'u, s": "{X'u s:.1f}", "fit, s": "{fit s:.0f}",
        "iterations": "{iterations}", "reads": "{reads:.1f}", "gap": "{gap:.0e}",
        "peak, GiB": "{peak GiB:.2f}",
    }),
}  # fmt: skip
