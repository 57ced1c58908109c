"""`toppush info`, and the description of a model in sentences and tables."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from toppush.cli.group import Command
from toppush.cli.options import input_argument, json_option
from toppush.cli.output import TextTable, counted, label_text, show

MAX_BEHIND = 0.01
"""Out-of-fold average precision by which a model may be below logistic regression without a
caution. With 0.01, a model without a caution is seldom behind by 0.02 on other rows."""
MISSING = {
    "filled": "Missing values imputed (numbers by the median) and marked by an indicator column",
    "nan": "Missing values kept in numbers, and a category of their own in categorical columns",
    "codes": "Missing values kept",
}
ROLES = {
    "sample_weight": "Sample weights",
    "groups": "Groups, never split across folds",
    "time": "Time column, folds hold out later rows",
}
QUALITY = {
    "training": "On the training rows (optimistic)",
    "out_of_fold": "Out-of-fold on {rows:,} training rows",
}
LEFT_OUT = {
    "dropped": "dropped",
    "ids": "ids",
    "empty": "empty",
    "constant": "the same in every row",
}
COMBINATION = "combination"
FULL_NAMES = {"logistic": "logistic regression"}
"""Base models whose usual name is longer."""


@click.command(cls=Command)
@input_argument("model")
@json_option
def info(model: Path, as_json: bool) -> None:
    """Describe MODEL: its data, columns, label, settings and certificate.

    Verifies the file's checksum and reads its description; the model itself is not loaded.

    Example: toppush info fraud.toppush --json
    """
    from toppush.modelfile.archive import read_about
    from toppush.system.errors import ModelError

    about = read_about(model)
    try:
        parts = _all_parts(about)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"its description is not one that this version knows ({error!r}).", file=model
        ) from None
    show(as_json, without_history(about), *parts)


def _all_parts(about: dict[str, Any]) -> list[str | TextTable]:
    versions = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
    label = about.get("label")
    first = [label_text(label, label.get("why", "as named"))] if label else []
    return [
        " ".join([*first, *baseline_caution(about)]),
        *sentences(about),
        *(f"Warning when fitted: {message}" for message in about.get("warnings", [])),
        f"Made {about.get('made', 'at an unknown time')} by {versions}.",
        *leaderboard_parts(about),
    ]


def without_history(about: dict[str, Any]) -> dict[str, Any]:
    """The description of a model without the history of its fit and without long tables."""
    short = {"scores": ("held_out",), "profile": ("left_out",)}
    for part, names in short.items():
        if isinstance(about.get(part), dict):
            about = about | {part: {name: about[part].get(name) for name in names}}
    if about.get("certificate") is None:
        return about
    certificate = {key: value for key, value in about["certificate"].items() if key != "history"}
    return about | {"certificate": certificate}


def baseline_caution(about: dict[str, Any]) -> list[str]:
    """A caution if logistic regression has a clearly higher average precision."""
    means = about.get("baseline", {"average_precision": 0.0, "logistic_regression": 0.0})
    own, baseline = means["average_precision"], means["logistic_regression"]
    if baseline - own <= MAX_BEHIND:
        return []
    return [
        "Caution: logistic regression ranks better over the whole ranking, with an average "
        f"precision of {baseline:.3f} against {own:.3f} on the same columns and folds."
    ]


def sentences(about: dict[str, Any]) -> list[str]:
    """The description of a model in sentences."""
    lines = []
    if data := about.get("data"):
        parts = f" in {data['parts']:,} parts" if "parts" in data else ""
        lines.append(
            f"Rows: {data['rows']:,} of {data['file']}{parts}, {data['positives']:,} positive."
        )
        lines += [f"{role}: {data[name]}." for name, role in ROLES.items() if name in data]
    if columns := about.get("columns"):
        lines += _column_sentences(columns)
    if description := about.get("description"):
        lines.append(description.strip())
    if certificate := about.get("certificate"):
        lines.append(_certificate_sentence(certificate))
    for name, where in QUALITY.items():
        if quality := about.get(name):
            at_top, mean = quality["positives_at_top"], quality["average_precision"]
            lines.append(
                f"{where.format(**quality)}: positives at the top {at_top:.1%}, average precision "
                f"{mean:.3f}, AUC {quality['auc']:.3f}."
            )
    if spent := about.get("seconds"):
        parts = ", ".join(f"{name} {seconds:.2f}" for name, seconds in spent.items())
        lines.append(f"Seconds: {parts}.")
    return lines


def _column_sentences(columns: dict[str, Any]) -> list[str]:
    if "named" not in columns:
        return [f"Columns: {columns['numbered']:,}, by number."]
    named = columns["named"]
    kinds = Counter(column["kind"] for column in named)
    dates = f"{kinds['date']} date, " if kinds["date"] else ""
    texts = {column["name"]: column["terms"] for column in named if column["kind"] == "text"}
    text = f", {len(texts)} free text" * bool(texts)
    lines = [f"Columns: {kinds['number']} numeric, {dates}{kinds['category']} categorical{text}."]
    if texts:
        lines.append(f"Words and parts of words of free text: {counted(texts)}.")
    parsed = [
        f"{column['name']}{_number_format(column)}" for column in named if "decimal" in column
    ]
    if parsed:
        lines.append(f"Strings read as numbers: {', '.join(parsed)}.")
    missing = {column["name"]: column["missing"] for column in named if column["missing"]}
    if missing:
        lines.append(f"{MISSING[columns.get('form', 'filled')]}: {counted(missing)}.")
    for name, why in LEFT_OUT.items():
        if columns.get(name):
            names = (repr(column) if "," in column else column for column in columns[name])
            lines.append(f"Left out, {why}: {', '.join(names)}.")
    return lines


def _number_format(column: dict[str, Any]) -> str:
    """The unit and the decimal comma of numbers that are written as strings."""
    parts = [column["unit"], "decimal comma" * (column["decimal"] == ",")]
    return f" ({', '.join(filter(None, parts))})" if any(parts) else ""


def _certificate_sentence(certificate: dict[str, Any]) -> str:
    if certificate["lower"] is None:
        return f"No lower bound was found. {certificate['sentence']}"
    return (
        f"Certificate of the training objective: {certificate['upper']:.6g}, optimum at least "
        f"{certificate['lower']:.6g}, relative gap {certificate['relative_gap']:.2%} "
        f"({certificate['n_iter']} iterations). {certificate['sentence']}"
    )


def leaderboard_parts(about: dict[str, Any]) -> list[str | TextTable]:
    """The base models of a combination, which ranks best and by how much, and those left out."""
    board = about.get("leaderboard")
    if not board:
        return []
    parts: list[str | TextTable] = [leaderboard_table(board)]
    if len(board) > 2:  # the combination of a single base model is that model
        parts.append(_best_sentence(board, about["fit"], about["against"]))
    if (quick := about.get("quick")) and quick["low"] <= 0.0:
        *first, last = quick["extra"]
        extra = " and ".join([", ".join(first)] * bool(first) + [last])
        parts.append(
            f"Without {extra}, as with --effort quick, the combination "
            f"ranks these rows as well: average precision differs by {quick['difference']:+.3f} "
            f"({quick['low']:+.3f} to {quick['high']:+.3f}). The other base models took "
            f"{quick['seconds']:.1f} s of {quick['all_seconds']:.1f} s."
        )
    left = [f"{name} ({why})" for name, why in about.get("left_out", {}).items()]
    return parts + [f"Left out: {', '.join(left)}."] * bool(left)


def leaderboard_table(board: list[dict[str, Any]]) -> TextTable:
    """The base models by their out-of-fold score, the best first."""
    rows = []
    for row in board:
        low, high = row["average_precision_low"], row["average_precision_high"]
        rows.append(
            [
                row["name"],
                "" if row["name"] == COMBINATION else f"{row['weight']:.0%}",
                f"{row['score']:.3f}",
                f"{row['positives_at_top']:.1%}",
                f"{row['average_precision']:.3f}",
                "-" if low is None else f"{low:.3f} to {high:.3f}",
                f"{row['seconds']:.1f}",
            ]
        )
    heads = ["member", "weight", "score", "Pos@Top", "AP", "95 % interval", "s"]
    return TextTable(heads, rows)


def _best_sentence(
    board: list[dict[str, Any]], fit: dict[str, Any], against: list[dict[str, Any]]
) -> str:
    """Which model ranks best by score and by average precision, and by how much."""
    weights = fit["weights"]
    model = "the combination"
    if len(weights) == 1:
        model = _full_name(next(iter(weights)))
        against = [entry for entry in against if entry["name"] not in weights]
        board = [entry for entry in board if entry["name"] != COMBINATION]
    first, most_precise = board[0]["name"], max(board, key=lambda entry: entry["average_precision"])
    score = fit.get("scoring") or "mean of average precision, NDCG and recall at 10 false positives"
    lines = [f"On held-out rows, {_full_name(first)} ranks best by score ({score})."]
    if most_precise["average_precision"] > board[0]["average_precision"]:
        lines.append(f"By average precision, {_full_name(most_precise['name'])} ranks best.")
    if against:
        parts = [
            f"{entry['difference']:+.3f} against {_full_name(entry['name'])}{_certainty(entry)}"
            for entry in against
        ]
        lines.append(f"Average precision of {model}: {', '.join(parts)}.")
    lines += [
        f"Caution: {_full_name(entry['name'])} alone is significantly better; "
        f"use it with --members {entry['name']}."
        for entry in against
        if entry["high"] is not None and entry["high"] < 0.0
    ]
    return " ".join(lines)


def _full_name(name: str) -> str:
    return "the combination" if name == COMBINATION else FULL_NAMES.get(name, name)


def _certainty(entry: dict[str, Any]) -> str:
    if entry["low"] is None:
        return ""
    by_chance = entry["low"] <= 0.0 <= entry["high"]
    return " (not significant)" if by_chance else " (significant)"
