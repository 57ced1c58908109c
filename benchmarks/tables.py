"""How each table of the pages is made of its result files; `TABLES` names them."""

from collections.abc import Callable
from functools import partial
from statistics import mean

from benchmarks.summary import Empty, Grid, Number, Rows, as_is, grid, group, of, read, top_of
from benchmarks.tables_promised import PROMISED

BASE = "LogisticRegression (liblinear)"


def speed() -> Grid:
    lines = []
    for (name,), rows in group(read("speed"), "data").items():
        by = {f"{row['method']}".rstrip("+"): row for row in rows}
        late = any(row["method"] == "paper to our objective+" for row in rows)
        ours, base = by["TopPush"]["seconds"], by[BASE]["seconds"]
        times = by["paper to our objective"]["seconds"] / ours
        line = [name, f"{1e3 * ours:.1f} ms", f"{ours / base:.2f}", f"{times:.0f}x{'+' * late}"]
        line += [
            "{passes:.0f}".format_map(by["TopPush"]),
            "{relative gap:.1e}".format_map(by["TopPush"]),
        ]
        methods = ("TopPush", "paper", BASE, "LinearSVC", "XGBoost", "LightGBM")
        form = "{Pos@Top:.3f} / {AP:.3f}"
        lines.append(line + [form.format_map(by[one]) if one in by else "" for one in methods])
    head = ["data", "TopPush", "time / liblinear", "paper's method to the same objective", "passes"]
    rankers = ["Pos@Top / AP: TopPush", "paper's solver", "LR", "LinearSVC", "XGBoost", "LightGBM"]
    return [[*head, "gap", *rankers], *lines]


def speed_fits() -> Grid:
    lines = []
    for (name,), rows in group(read("speed-fits"), "data").items():
        ours, base = rows
        lines.append([name, f"{1e3 * ours['seconds']:.1f}", f"{1e3 * base['seconds']:.1f}"])
        lines[-1].append(f"{ours['ratio to liblinear']:.2f}")
    return [["data", "TopPush, ms", "LIBLINEAR, ms", "ratio"], *lines]


def certify() -> Grid:
    lines = []
    for (name,), rows in group(read("certify"), "data").items():
        certified = sum(row["relative gap"] <= 1e-4 for row in rows)
        passes = " ".join(f"{row['passes']:.0f}" for row in rows[:7])
        most = max(row["iterations"] for row in rows)
        lines.append([name, f"{len(rows)}", f"{certified}", f"{most:.0f}", passes])
    return [["data", "fits", "certified", "most iterations", "passes, lam 1e-3 to 1e3"], *lines]


def wide() -> Grid:
    forms = {
        "data": "{data}", "lam": "{lam:g}", "top": "{top}", "TopPush, s": "{seconds:.3g}",
        "LIBLINEAR, s (C)": "{its seconds:.3g} ({liblinear, C:g})", "ratio": "{ratio:.2f}",
        "gap 1e-4: s": "{certified:.3g}",
    }  # fmt: skip
    closer = [row["seconds"] for row in read("wide-certified")]
    rows = [
        row | {"certified": seconds, "top": top_of(row)}
        for row, seconds in zip(read("wide"), closer, strict=True)
    ]
    return grid(rows, forms)


def selection() -> Grid:
    by = {(f"{row['data']}", f"{row['rule']}"): row for row in read("selection")}
    sets, rules = (
        dict.fromkeys(data for data, _ in by),
        [rule for data, rule in by if "mean" in data],
    )
    form = "{Pos@Top:.3f} / {AP:.3f}"
    lines = [
        [
            f"**`{rule}`**" if rule == "by_the_top" else rule,
            *(form.format_map(by[one, rule]) for one in sets),
        ]
        for rule in rules
    ]
    splits = {one: "{splits}".format_map(by[one, rules[0]]) for one in sets}
    return [["rule", *(f"{one} ({splits[one]})" if splits[one] else one for one in sets)], *lines]


# Rankers beside each other, with a star where a difference is more than noise.


def contest(name: str, ours: str, methods: list[str]) -> Grid:
    """A line for each set and measure of a file of means and one of differences."""
    found = group(read(f"{name}-differences"), "set", "against", "measure")
    stars = {key for key, rows in found.items() if rows[0]["p"] < 0.05}
    lines = []
    for (data,), rows in group(read(name), "set").items():
        by = {f"{row['method']}": row for row in rows}
        splits = by[ours]["splits"]
        for measure in ("Pos@Top", "recall before 10", "AP"):
            cells = [
                _mean(by.get(one), measure, splits, (data, one, measure) in stars)
                for one in methods
            ]
            lines.append([data, f"{splits}", measure, *cells])
    return [["data", "splits", "measure", *methods], *lines]


def _mean(row: dict[str, Number] | None, measure: str, most: Number, star: bool) -> str:
    """A mean, a star, and the number of splits if there are fewer."""
    if row is None:
        return ""
    fewer = f" ({row['splits']})" if row["splits"] < most else ""
    return f"{row[measure]:.3s}" + "*" * star + fewer


TREES = [
    "TopPushTrees",
    "binary, as many members",
    "LightGBM",
    "XGBoost",
    "random forest",
    "extra trees",
]
NETS = {
    "TopPush": "TopPushLoss",
    "cross-entropy": "cross-entropy",
    "LibAUC, partial AUC": "LibAUC, partial AUC",
    "imbalanced-losses, AP": "imbalanced-losses, AP",
}


def net(fewest: int = 20) -> Grid:
    """The sets with enough splits to tell."""
    lines = []
    for (data,), rows in group(read("net"), "set").items():
        by = {f"{row['method']}": row for row in rows}
        if by["TopPush"]["splits"] < fewest:
            continue
        for measure in ("Pos@Top", "recall before 10", "AP"):
            starred = [
                f"{by[one][f'{measure} mean']:.3s}" + _star(by[one][f"{measure} p"]) for one in NETS
            ]
            lines.append([data, f"{by['TopPush']['splits']}", measure, *starred])
    return [["data", "splits", "measure", *NETS.values()], *lines]


def _star(p: Number | Empty) -> str:
    return "*" if isinstance(p, Number) and p < 0.05 else ""


def additive(rows: str) -> Grid:
    """Means over splits, of fits to so many rows (0: all)."""
    kept = [row for row in read("additive") if f"{row['rows']}" == rows]
    forms = {
        "data": "{data}", "splits": "{splits}", "ranker": "{method}", "AP": "{AP:.3s}",
        "Pos@Top": "{Pos@Top:.3s}", "recall before 10 negatives": "{recall before 10:.3s}",
        "precision of 1,000": "{precision of 1000:.3s}", "CPU s": "{CPU seconds:.1f}",
    }  # fmt: skip
    lines = [means(found) for found in group(kept, "data", "method").values()]
    for line in lines:
        if line["data"] == "diabetes":  # has fewer rows to hold out
            line["precision of 1000"] = Empty()
    return grid(lines, forms)


def means(rows: Rows) -> dict[str, object]:
    """The mean of every number over some rows, the first's texts, and how many there are."""
    found = {
        name: Number(str(mean(row[name] for row in rows))) if isinstance(one, Number) else one
        for name, one in rows[0].items()
    }
    return found | {"splits": Number(str(len(rows)))}


def explain() -> Grid:
    forms = {
        "data": "{data}", "model": "{kind}", "rows with a lift": "{rows}",
        "typical: named": "{typical:.0%}", "random": "{typical, random:.0%}",
        "drawn: named": "{drawn:.0%}", "random ": "{drawn, random:.0%}",
    }  # fmt: skip
    head, *lines = grid(read("explain"), forms)
    return [[title.strip() for title in head], *lines]


VENN = {"venn": "Venn and Abers, as usual", "venn, prior": "**Venn and Abers, with prior**"}


def shares() -> Grid:
    forms = {
        "positives": "{positives:,.0f}", "method": "{method}",
        "first 10": "{over 10:+.2f}, {error 10:.2f}",
        "first 100": "{over 100:+.2f}, {error 100:.2f}",
        "predicted / found, all rows": "{sum:.2f}",
    }  # fmt: skip
    rows = [row for row in read("shares") if row["set"] == "all" and "rank" not in row["method"]]
    return grid([row | {"method": VENN.get(row["method"], row["method"])} for row in rows], forms)


def check() -> Grid:
    """How many of the checks found a change, over all tables and models."""
    counts = {}
    for row in read("check"):
        found, checks = counts.get((row["change"], f"{row['rows']}"), (0.0, 0.0))
        counts[row["change"], f"{row['rows']}"] = (
            found + row["found"] * row["checks"],
            checks + row["checks"],
        )
    names = {"same": "**nothing changed** (false alarms)"}
    lines = []
    for change in dict.fromkeys(change for change, _ in counts):
        cells = ["{:.0f} of {:.0f}".format(*counts[change, rows]) for rows in ("1000", "5000")]
        lines.append([names.get(change, change), *cells])
    return [["rows as they are, or with", "found, 1,000 rows at a time", "5,000 rows"], *lines]


def percentile_scores() -> Grid:
    """New rows above the marks, probabilities at the top, and alarms, for each source and model."""
    lines = []
    for row in read("percentile_scores"):
        above = [f"{row[f'above {mark} %']:.2f}" for mark in ("10", "5", "1", "0.1")]
        top = [f"{row[f'{what} 1 %']:.2f}" for what in ("predicted", "found")]
        alarms = f"{row['alarms']:.0f} of {row['checks']:.0f}"
        lines.append([row["rows from"], row["model"], *above, *top, alarms])
    marks = (f"above {mark}" for mark in ("90", "95", "99", "99.9"))
    head = ["rows from", "model", *marks, "probability above 99", "positives above 99", "alarms"]
    return [head, *lines]


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


STEPS = ("reading", "preparing", "solving", "holding out", "measuring", "start and saving")
TABLES: dict[str, Callable[[], Grid]] = {
    "speed": speed,
    "speed-fits": speed_fits,
    "certify": certify,
    "wide": wide,
    "degenerate": of("degenerate", {
        "data": "{data}", "ranker": "{ranker}", "measure": "{measure}", "mean": "{mean:.4f}",
        'top="auto" less this': "{auto less this:+.4f} ± {standard error:.4f}",
    }),
    "selection": selection,
    "choice-speed": of("choice-speed", {
        "data": "{data}", "ours, CPU s": "{ours s:.3g}", "logistic, CPU s": "{logistic s:.3g}",
        "ratio": "{ratio:.2f}", "AP": "{AP ours:.3f} / {AP logistic:.3f}",
        "Pos@Top": "{Pos@Top ours:.3f} / {Pos@Top logistic:.3f}",
    }),
    "trees": partial(contest, "trees", "TopPushTrees", TREES),
    "rank-file": of("rank-file", {
        "what": "{what}", "GB": "{GB:.1f}", "rows": "{rows:,.0f}",
        "best seconds": "{best seconds:.1f}", "peak MiB": "{peak MiB:.0f}",
    }),
    "fit-file": lambda: grid(
        read("fit-file"),
        {"file": "{file}", "CPU seconds": "{CPU seconds:.1f}"}
        | {one: f"{{{one}:.1f}}" for one in STEPS}
        | {"outside of fits": "{share outside of fits:.0%}"},
    ),
    "net": net,
    "additive": partial(additive, "10000"),
    "additive-all": partial(additive, "0"),
    "table1": partial(as_is, "table1"),
    "explain": explain,
    "shares": shares,
    "check": check,
    "percentile-scores": percentile_scores,
    "demo": partial(as_is, "demo"),
    "demo-leaderboard": partial(as_is, "demo-leaderboard"),
    "pos-top": partial(as_is, "pos-top"),
    **PROMISED,
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
