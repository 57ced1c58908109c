"""The report as one self-contained HTML page, which loads nothing and runs only its own scripts."""

import base64
import hashlib
import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from numbers import Real

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import ArrayLike

from toppush.explain.columns import as_string
from toppush.metrics.bootstrap import metric_at
from toppush.metrics.cautions import perfect_caution, warn_of_perfect
from toppush.metrics.paired import HEADLINE
from toppush.problem.solution import Solution
from toppush.report import contributions, figures
from toppush.report.budget import Budget, budget_section
from toppush.report.contributions import Contribution, Explained, Features, Reasons
from toppush.report.ranking import (
    PER_DECADE,
    Indices,
    Ranking,
    Table,
    count,
    headlines,
    kept_counts,
    metric_rows,
    score_groups,
    table_records,
    usual_lengths,
)
from toppush.system.extras import UNKNOWN, version_of
from toppush.system.writing import write_text
from toppush.thresholds.calibration import reliability

N_SHOWN = 50
N_ALARMS = 10
N_PARTS = 8
N_NAMED = 4
"""Columns named for each false alarm in the table."""
N_WEIGHTS = 20
MAX_COLUMNS = 12
MAX_TEXT = 80
MAX_WORD = 40
"""Characters up to which a value without spaces, such as an id, is not broken."""
MAX_PIECE = 12
"""Characters up to which the words of a name stay together."""
MISSING = "-"
NAMED_VERSIONS = ("toppush", "numpy", "scipy", "scikit-learn", "altair")
POSITIVE_CLASS = "Positive class"
"""Name of the label that is ranked first, among the facts of a page."""


@dataclass(frozen=True, eq=False)
class Baseline:
    """Another ranking of the same rows to compare with.

    Attributes
    ----------
    scores : array of shape (n_rows,)
    name : str
    note : str
        How it was made, shown below the table.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import report
    >>> y, scores = np.arange(200) % 5 == 0, -np.arange(200.0)
    >>> baseline = report.Baseline(scores[::-1], name="last year's model")
    >>> page = report.build(y, scores, baseline=baseline)
    >>> "last year" in page
    True
    """

    scores: ArrayLike
    name: str = "logistic regression"
    note: str = ""


@dataclass(frozen=True, eq=False)
class ModelDetails:
    """What is known of the model beyond its scores.

    Attributes
    ----------
    features : Features or Explained, optional
        Weights and rows for a linear score, or contributions of columns to another; include the
        rows of `first_false_alarms`.
    unexplained : str
        Why there are none.
    reasons : Reasons, optional
        The columns that raise the scores of the first rows.
    solution : Solution, optional
        The certificate of the fit.
    probabilities : array of shape (n_rows,), optional
        Calibrated probabilities, which are compared with the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import report
    >>> y, scores = np.arange(200) < 40, -np.arange(200.0)
    >>> model = report.ModelDetails(probabilities=np.full(200, 0.2))
    >>> page = report.build(y, scores, model=model)
    >>> "Predicted and observed precision" in page
    True
    """

    features: Features | Explained | None = None
    unexplained: str = ""
    reasons: Reasons | None = None
    solution: Solution | None = None
    probabilities: ArrayLike | None = None


def build(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    title: str = "Ranking report",
    name: str = "TopPush",
    k: int | None = None,
    preview: Table = None,
    model: ModelDetails | None = None,
    baseline: Baseline | None = None,
    facts: Mapping[str, object] | None = None,
    cautions: Sequence[str] = (),
    budget: Budget | None = None,
) -> str:
    """A self-contained HTML page about a ranking.

    O(n log n) for n rows. The size of the page does not grow with n: about 1.5 MB, most of it the
    library that draws in the browser.

    Parameters
    ----------
    y_true : array of shape (n_rows,)
        Which rows are positive.
    y_score : array of shape (n_rows,)
        Scores, the highest ranked first.
    title : str
    name : str
        Name of the model or the scores.
    k : int, optional
        Length of the ranking that the page opens with; by default 100, or the number of positives
        if that is less.
    preview : data frame, Arrow table or sequence of dict, optional
        Columns to show for the first rows, best first, in the order of `list_order`.
    model : ModelDetails, optional
        Contributions of features, certificate and probabilities.
    baseline : Baseline, optional
        Scores to compare with.
    facts : mapping, optional
        How the ranking was made, shown after rows, date and versions.
    cautions : sequence of str
        Cautions shown at the head of the page.
    budget : Budget, optional
        Benefit of a true positive, cost of a review, new rows and reviews per day.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import report
    >>> y, scores = np.arange(200) < 40, -np.arange(200.0)
    >>> page = report.build(y, scores, title="Claims to review", k=20)
    >>> report.write("report.html", page)
    """
    model = model or ModelDetails()
    ranking = Ranking.of(y_true, y_score)
    k = min(100, ranking.n_pos) if k is None else k
    if not 1 <= k <= ranking.n_rows:
        raise ValueError(f"k must be from 1 to {ranking.n_rows}, the number of rows, got {k}.")
    rankings, other = {name: ranking}, None
    if baseline is not None:
        other = Ranking.of(y_true, baseline.scores)
        rankings[baseline.name if baseline.name != name else f"{baseline.name} (2)"] = other
    headline = metric_at(HEADLINE)
    precisions = {label: float(headline.of(each.curve)) for label, each in rankings.items()}
    if baseline is not None:
        warn_of_perfect(precisions)
    records = table_records(preview) if preview is not None else []
    groups = score_groups(ranking)
    section, drawn = budget_section(ranking, budget or Budget())
    drawn += [figures.curve_figure(rankings, k), figures.roc_figure(rankings)]
    drawn += [figures.scores_figure(ranking), figures.calibration_figure(ranking, groups)]
    probabilities = model.probabilities
    context: dict[str, object] = {
        "title": title,
        "cautions": [*cautions, perfect_caution(precisions)],
        "name": name,
        "baseline": baseline,
        "ranking": ranking,
        "k": k,
        "headlines": headlines(ranking, k),
        "lengths": usual_lengths(ranking.n_rows),
        "top": _top_table(ranking, records),
        "groups": groups,
        "metrics": metric_rows(ranking, other),
        "facts": _facts(ranking, facts or {}),
        "model": model,
        "counts": kept_counts(ranking),
        "per_decade": PER_DECADE,
        "alarms": [],
        "weights": [],
        "influences": [],
        "curves": [],
        "budget": section,
        "reliability": []
        if probabilities is None
        else reliability(ranking.positive, ranking.score, np.asarray(probabilities, np.float64)),
    }
    if model.features is not None:
        for part in (_alarms, _influences):
            more, charts = part(ranking, model.features)
            context |= more
            drawn += charts
    if model.solution is not None and len(model.solution.history) > 1:
        drawn.append(figures.history_figure(model.solution.history))
    return _render(context, drawn)


def list_order(y_true: ArrayLike, y_score: ArrayLike) -> Indices:
    """Row numbers by decreasing score, as in the report; negatives first among ties.

    Examples
    --------
    >>> from toppush import report
    >>> report.list_order([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    array([1, 2, 3, 0])
    """
    return Ranking.of(y_true, y_score).order


def first_false_alarms(y_true: ArrayLike, y_score: ArrayLike) -> Indices:
    """Row numbers of the false alarms that a report explains, best first.

    Examples
    --------
    >>> from toppush import report
    >>> report.first_false_alarms([0, 1, 0, 1], [0.1, 0.9, 0.5, 0.4])
    array([2, 0])
    """
    ranking = Ranking.of(y_true, y_score)
    return ranking.order[ranking.false_alarms(N_ALARMS)]


def write(path: str | os.PathLike[str], page: str) -> None:
    """Write a page to a file atomically.

    Parameters
    ----------
    path : path
        An existing file is replaced in one step.
    page : str
        The result of `build` or `from_estimator`.

    Examples
    --------
    >>> from toppush import report
    >>> report.write("report.html", "<!doctype html><title>A page</title>")
    """
    write_text(path, page)


@dataclass(frozen=True)
class TableCell:
    """A value of the data, as text."""

    text: str
    number: bool

    @property
    def word(self) -> bool:
        """Whether it is short enough, and without spaces, to stay on one line."""
        return len(self.text) <= MAX_WORD and " " not in self.text


@dataclass(frozen=True)
class RankedRow:
    """A row of the ranking as the page shows it."""

    rank: int
    number: int
    score: float
    positive: bool
    cells: list[TableCell]


@dataclass(frozen=True)
class TopTable:
    """The first rows, with columns of the data, and whether each holds numbers."""

    columns: dict[str, bool]
    left_out: int
    rows: list[RankedRow]


def _top_table(ranking: Ranking, records: Sequence[Mapping[str, object]]) -> TopTable:
    columns = list(dict.fromkeys(key for record in records for key in record))
    shown = columns[:MAX_COLUMNS]
    rows = []
    for place in range(min(N_SHOWN, ranking.n_rows)):
        record = records[place] if place < len(records) else {}
        rows.append(_row(ranking, place, [_cell(record.get(column)) for column in shown]))
    numbers = {
        name: all(row.cells[at].number or row.cells[at].text == MISSING for row in rows)
        for at, name in enumerate(shown)
    }
    return TopTable(numbers, len(columns) - len(shown), rows)


def _row(ranking: Ranking, place: int, cells: list[TableCell]) -> RankedRow:
    number = int(ranking.order[place])
    score, positive = float(ranking.score[number]), bool(ranking.positive[number])
    return RankedRow(place + 1, number + 1, score, positive, cells)


def _cell(value: object) -> TableCell:
    """A cell, cut if it would break the table; a dash for a missing value."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if value is None or (number and value != value):
        return TableCell(MISSING, number)
    if isinstance(value, bool):
        return TableCell(str(value).lower(), number=False)
    return TableCell(_shortened(as_string(value) or MISSING), number)


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


@dataclass(frozen=True)
class FalseAlarm:
    """A false alarm and the columns that raised its score most."""

    row: RankedRow
    raised_by: list[Contribution]
    total: float
    """The row's score minus that of the mean row."""


def _alarms(
    ranking: Ranking, features: Features | Explained
) -> tuple[dict[str, object], list[figures.Figure]]:
    """The first false alarms and the contributions to their scores."""
    alarms, parts = [], {}
    for place in ranking.false_alarms(N_ALARMS):
        row = _row(ranking, int(place), [])
        if row.number - 1 in features.rows:
            largest = contributions.largest_contributions(features, N_PARTS, row.number - 1)
            named = [replace(part, name=_with_value(part)) for part in largest]
            raised_by = [part for part in named if part.amount > 0][:N_NAMED]
            total = float(features.contributions(row.number - 1).sum())
            alarms.append(FalseAlarm(row, raised_by, total))
            parts[f"rank {row.rank:,}"] = named
    drawn = []
    if alarms:
        numbers = [alarm.row.number - 1 for alarm in alarms]
        mean = contributions.largest_contributions(features, N_PARTS, *numbers)
        parts = {f"mean of these {len(alarms)}": mean} | parts
        drawn.append(figures.parts_figure(parts))
    return {"alarms": alarms, "choices": list(parts), "note": features.note}, drawn


def _influences(
    ranking: Ranking, features: Features | Explained
) -> tuple[dict[str, object], list[figures.Figure]]:
    """The features with the largest weights, or the columns with the largest contributions."""
    n_features = {"n_features": len(features.names)}
    if isinstance(features, Features):
        weights = contributions.largest_weights(features, N_WEIGHTS)
        signed = [(each.name, math.copysign(each.influence, each.weight)) for each in weights]
        figure = figures.influence_figure("weight times standard deviation", signed)
        return n_features | {"weights": weights}, [figure] * bool(weights)
    influences = contributions.largest_influences(features, N_WEIGHTS)
    curves = {f"curve-{place}": curve for place, curve in enumerate(features.curves)}
    sizes = [(each.name, each.size) for each in influences]
    drawn = [figures.influence_figure("mean absolute contribution", sizes)] * bool(influences)
    drawn += [figures.shape_figure(name, curve) for name, curve in curves.items()]
    shown = {"influences": influences, "curves": curves, "n_explained": features.n_rows}
    return n_features | shown, drawn


def _with_value(part: Contribution) -> str:
    """A column and the row's value."""
    cell = _cell(part.value)
    return f"{part.name} is missing" if cell.text == MISSING else f"{part.name} = {cell.text}"


def _facts(ranking: Ranking, facts: Mapping[str, object]) -> dict[str, str]:
    own = {
        "Rows ranked": f"{ranking.n_rows:,} ({ranking.n_pos:,} positive, {ranking.n_neg:,} not)",
        **date_and_versions(),
    }
    return own | {str(key): str(value) for key, value in facts.items()}


def _render(context: dict[str, object], drawn: Sequence[figures.Figure]) -> str:
    environment = templates()
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"count": count, "number": _number, "amount": _amount, "money": _money}
    environment.filters["shortened"] = _shortened
    scripts = [figures.browser_library(), source(environment, "page.js")]
    scripts = [script.replace("</script", r"<\/script") for script in scripts]
    return environment.get_template("page.html.jinja").render(
        **context,
        figures={figure.name: figure for figure in drawn},
        pictures={name: Markup(svg) for name, svg in figures.pictures(drawn).items()},
        specs={figure.name: figure.spec for figure in drawn},
        style=Markup(source(environment, "page.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=" ".join(f"'sha256-{_sha256(script)}'" for script in scripts),
    )


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _amount(value: float) -> str:
    """With its sign, and three digits."""
    return f"{value:+.3g}".replace("e-0", "e-").replace("e+0", "e+")


def _money(value: float) -> str:
    """Two decimals, but none for whole numbers and from 1000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:,.2f}"


def _number(value: float) -> str:
    """Four digits, as the page's script writes them."""
    if abs(value) >= 1e4:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("e-0", "e-")


def templates() -> Environment:
    """The templates; every value is escaped, and a missing one is an error."""
    environment = Environment(
        loader=PackageLoader("toppush.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": "{:.1%}".format, "breakable": breakable}
    return environment


def source(environment: Environment, name: str) -> str:
    """The text of a template file."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def date_and_versions() -> dict[str, str]:
    """Date and versions."""
    versions = ", ".join(f"{name} {version_of(name) or UNKNOWN}" for name in NAMED_VERSIONS)
    return {
        "Date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "Versions": f"Python {platform.python_version()}, {versions}",
    }


def breakable(name: str) -> Markup:
    """A name that may be broken where its words begin."""
    pieces = [""]
    for word in re.split(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[_./-])(?=\w)", name):
        if len(pieces[-1] + word) <= MAX_PIECE:
            pieces[-1] += word
        else:
            pieces.append(word)
    return Markup("<wbr>").join(pieces)
