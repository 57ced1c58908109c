"""Tables of docs/evidence.md from the files in benchmarks/results.

python -m benchmarks.summary speed          # or certify, degenerate, selection, ...
"""

import csv
import sys

from benchmarks.common import RESULTS


def read(name):
    with (RESULTS / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def number(text, form):
    return format(float(text), form) if text else ""


def show(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def speed():
    found = {}
    for row in read("speed"):
        method = row["method"].rstrip("+")
        found.setdefault(row["data"], {})[method] = row | {"late": row["method"].endswith("+")}
    table = []
    for name, by in found.items():
        ours, base = by["TopPush"], by["LogisticRegression (liblinear)"]
        seconds = float(ours["seconds"])
        paper = by["paper to our objective"]
        faster = f"{float(paper['seconds']) / seconds:.0f}x" + ("+" if paper["late"] else "")
        table.append([
            name, f"{1e3 * seconds:.1f} ms", f"{seconds / float(base['seconds']):.2f}", faster,
            number(ours["passes"], ".0f"), number(ours["relative gap"], ".1e"),
            *(f"{number(by[m]['Pos@Top'], '.3f')} / {number(by[m]['AP'], '.3f')}" if m in by else ""
              for m in ("TopPush", "paper", "LogisticRegression (liblinear)", "LinearSVC",
                        "XGBoost", "LightGBM")),
        ])  # fmt: skip
    head = [
        "data", "TopPush", "time / liblinear", "paper's method to the same objective", "passes",
        "gap", "Pos@Top / AP: TopPush", "paper's solver", "LR", "LinearSVC", "XGBoost", "LightGBM",
    ]  # fmt: skip
    show(head, table)


def certify(name="certify"):
    rows = read(name)
    groups = {}
    for row in rows:
        groups.setdefault(row["data"], []).append(row)
    table = [
        [
            data,
            str(len(group)),
            str(sum(float(row["relative gap"]) <= 1e-4 for row in group)),
            f"{max(int(row['iterations']) for row in group)}",
            " ".join(number(row["passes"], ".0f") for row in group[:7]),
        ]
        for data, group in groups.items()
    ]
    show(["data", "fits", "certified", "most iterations", "passes, lam 1e-3 to 1e3"], table)


def degenerate():
    table = [
        [
            row["data"], row["ranker"], row["measure"], number(row["mean"], ".4f"),
            f"{number(row['auto less this'], '+.4f')} ± {number(row['standard error'], '.4f')}",
        ]
        for row in read("degenerate")
    ]  # fmt: skip
    show(["data", "ranker", "measure", "mean", 'top="auto" less this'], table)


def selection():
    rows = read("selection")
    sets = list(dict.fromkeys(row["data"] for row in rows))
    rules = list(dict.fromkeys(row["rule"] for row in rows if row["data"] == sets[-1]))
    by = {(row["data"], row["rule"]): row for row in rows}
    table = [
        [rule, *(f"{number(by[s, rule]['Pos@Top'], '.3f')} / {number(by[s, rule]['AP'], '.3f')}"
                 for s in sets)]
        for rule in rules
    ]  # fmt: skip
    splits = {s: by[s, rules[0]]["splits"] for s in sets}
    show(["rule", *(f"{s} ({splits[s]})" if splits[s] else s for s in sets)], table)


def plain(name):
    rows = read(name)
    show(
        list(rows[0]), [[number(v, ".3g") if is_number(v) else v for v in r.values()] for r in rows]
    )


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    tables = {"speed": speed, "certify": certify, "degenerate": degenerate, "selection": selection}
    for name in sys.argv[1:]:
        tables.get(name, lambda name=name: plain(name))()
        print()
