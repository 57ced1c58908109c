"""The report as one HTML page: everything inside, nothing fetched, no script but its own."""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from toppush.explain.columns import as_string
from toppush.metrics.bootstrap import metric_at
from toppush.metrics.cautions import perfect_caution, warn_of_perfect
from toppush.metrics.paired import HEADLINE
from toppush.problem.solution import Solution
from toppush.report import driver_figures, drivers, figures
from toppush.report.budget import Budget, budget_part
from toppush.report.comparison import compare
from toppush.report.explained import Explained, largest_influences
from toppush.report.pages import made_now, templates
from toppush.report.ranking import (
    PER_DECADE,
    Indices,
    Ranking,
    Table,
    count,
    headlines,
    kept_counts,
    score_groups,
    table_records,
    usual_lengths,
)
from toppush.report.reasons import Reasons
from toppush.system.writing import write_text
from toppush.thresholds.calibration import Reliability, reliability

N_SHOWN = 50
N_ALARMS = 10
N_PARTS = 8
N_NAMED = 4
"""Features named for each false alarm in the table."""
N_WEIGHTS = 20
MAX_COLUMNS = 12
MAX_TEXT = 80
MAX_WORD = 40
"""Letters up to which a text without spaces, such as an id, is not broken."""
MISSING = "-"


@dataclass(frozen=True, eq=False)
class Rival:
    """Another ranking of the same rows to stand beside.

    Attributes
    ----------
    scores : array of shape (n_rows,)
    name : str
    note : str
        How it was made, said under the table.

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import report
    >>> y, scores = np.arange(200) % 5 == 0, -np.arange(200.0)
    >>> rival = report.Rival(scores[::-1], name="last year's model")
    >>> page = report.build(y, scores, rival=rival)
    >>> "last year" in page
    True
    """

    scores: ArrayLike
    name: str = "logistic regression"
    note: str = ""


POSITIVE_CLASS = "Positive class"
"""Under which the label that is ranked first stands among the facts of a page."""


def build(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    title: str = "Ranking report",
    name: str = "TopPush",
    k: int | None = None,
    preview: Table = None,
    features: drivers.Features | Explained | None = None,
    unexplained: str = "",
    reasons: Reasons | None = None,
    solution: Solution | None = None,
    rival: Rival | None = None,
    facts: Mapping[str, object] | None = None,
    cautions: Sequence[str] = (),
    budget: Budget | None = None,
    shares: ArrayLike | None = None,
) -> str:
    """A self-contained HTML page about a ranked list.

    O(n log n) for n rows, and the page's size has a bound that does not grow with n: about
    1.5 MB, most of it the library that draws in the browser.

    Parameters
    ----------
    y_true : array of shape (n_rows,)
        Which rows are positive.
    y_score : array of shape (n_rows,)
        Scores, the highest at the top of the list.
    title : str
    name : str
        What made the scores.
    k : int, optional
        Length of the list that the page opens with; by default 100, or the number of positives
        if that is less.
    preview : data frame, Arrow table or sequence of dict, optional
        Columns to show of the first rows, best first, in the order of `list_order`.
    features : Features or Explained, optional
        Weights and rows for a linear score, or what columns add to another; include the rows of
        `first_false_alarms`.
    unexplained : str
        Why there are none, if a reader might ask.
    reasons : Reasons, optional
        Which columns lift the first rows.
    solution : Solution, optional
        The fit's certificate.
    rival : Rival, optional
        Scores to compare with.
    facts : mapping, optional
        How it was made, shown after rows, date and versions.
    cautions : sequence of str
        What a reader must know before believing the page, shown at its head.
    budget : Budget, optional
        What a hit is worth and a look costs, rows that come and that can be looked at on a day.
    shares : array of shape (n_rows,), optional
        Share of positives that was expected for rows of such a score; shown beside what is found.

    Returns
    -------
    str

    Examples
    --------
    >>> import numpy as np
    >>> from toppush import report
    >>> y, scores = np.arange(200) < 40, -np.arange(200.0)
    >>> page = report.build(y, scores, title="Claims to look at", k=20)
    >>> report.write("report.html", page)
    """
    ranking = Ranking.of(y_true, y_score)
    k = min(100, ranking.n_pos) if k is None else k
    if not 1 <= k <= ranking.n_rows:
        raise ValueError(f"k must be from 1 to {ranking.n_rows}, the length of the list, got {k}.")
    lists, other = {name: ranking}, None
    if rival is not None:
        other = Ranking.of(y_true, rival.scores)
        lists[rival.name if rival.name != name else f"{rival.name} (2)"] = other
    precisions = {name: float(metric_at(HEADLINE).of(one.curve)) for name, one in lists.items()}
    if rival is not None:
        warn_of_perfect(precisions)
    records = table_records(preview) if preview is not None else []
    groups = score_groups(ranking)
    looking, looked = budget_part(ranking, budget or Budget())
    drawn = [*looked, figures.curve_figure(lists, k), figures.roc_figure(lists)]
    drawn += [figures.scores_figure(ranking), figures.calibration_figure(ranking, groups)]
    context: dict[str, object] = {
        "title": title,
        "cautions": [*cautions, perfect_caution(precisions)],
        "name": name,
        "rival": rival,
        "ranking": ranking,
        "k": k,
        "headlines": headlines(ranking, k),
        "lengths": usual_lengths(ranking.n_rows),
        "top": _top_table(ranking, records),
        "groups": groups,
        "compared": compare(ranking, other),
        "facts": _facts(ranking, facts or {}),
        "solution": solution,
        "counts": kept_counts(ranking),
        "per_decade": PER_DECADE,
        "alarms": [],
        "weights": [],
        "influences": [],
        "curves": [],
        "unexplained": unexplained,
        "budget": looking,
        "reliable": _reliability(ranking, shares),
        "reasons": reasons,
    }
    if features is not None:
        found, more = _drivers(ranking, features, records)
        context |= found
        drawn += more
    if solution is not None and len(solution.history) > 1:
        drawn.append(figures.history_figure(solution.history))
    return _render(context, drawn)


def _reliability(ranking: Ranking, shares: ArrayLike | None) -> list[Reliability]:
    if shares is None:
        return []
    return reliability(ranking.positive, ranking.score, np.asarray(shares, np.float64))


def list_order(y_true: ArrayLike, y_score: ArrayLike) -> Indices:
    """Row numbers by falling score, as the report lists them; negatives first among ties.

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
    """Write a page to a file, whole or not at all.

    Parameters
    ----------
    path : path
        An existing file is replaced in one step.
    page : str
        What `build` or `from_estimator` returned.

    Examples
    --------
    >>> from toppush import report
    >>> report.write("report.html", "<!doctype html><title>A page</title>")
    """
    write_text(path, page)


@dataclass(frozen=True)
class Row:
    """A row of the list as the page shows it."""

    rank: int
    number: int
    score: float
    positive: bool
    cells: list["Cell"]


@dataclass(frozen=True)
class Cell:
    """A value of the user's, as text."""

    text: str
    number: bool

    @property
    def word(self) -> bool:
        """Whether it is short enough, and without spaces, to stay on one line."""
        return len(self.text) <= MAX_WORD and " " not in self.text


@dataclass(frozen=True)
class TopTable:
    """The first rows, with the user's own columns, and whether each holds numbers."""

    columns: dict[str, bool]
    left_out: int
    rows: list[Row]


def _top_table(ranking: Ranking, records: Sequence[Mapping[str, object]]) -> TopTable:
    columns = list(dict.fromkeys(key for record in records for key in record))
    shown = columns[:MAX_COLUMNS]
    places = range(min(N_SHOWN, ranking.n_rows))
    rows = [_row(ranking, place, shown, records) for place in places]
    numbers = {
        name: all(row.cells[at].number or row.cells[at].text == MISSING for row in rows)
        for at, name in enumerate(shown)
    }
    return TopTable(numbers, len(columns) - len(shown), rows)


def _row(
    ranking: Ranking, place: int, columns: Sequence[str], records: Sequence[Mapping[str, object]]
) -> Row:
    number = int(ranking.order[place])
    record = records[place] if place < len(records) else {}
    cells = [_cell(record.get(column)) for column in columns]
    score, positive = float(ranking.score[number]), bool(ranking.positive[number])
    return Row(place + 1, number + 1, score, positive, cells)


def _cell(value: object) -> Cell:
    """A cell, cut where it would break the table; a dash where nothing is known."""
    if value is None or (isinstance(value, Real) and value != value):
        return Cell(MISSING, number=isinstance(value, Real))
    if isinstance(value, bool):
        return Cell(str(value).lower(), number=False)
    number = isinstance(value, Real)
    text = as_string(value) or MISSING
    return Cell(text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…", number)


@dataclass(frozen=True)
class Alarm:
    """A false alarm and the columns that raised its score most."""

    row: Row
    raised_by: list[drivers.Contribution]
    total: float
    """The row's score less that of the mean row."""


def _drivers(
    ranking: Ranking,
    features: drivers.Features | Explained,
    records: Sequence[Mapping[str, object]],
) -> tuple[dict[str, object], list[figures.Figure]]:
    """What drives the first false alarms, and what moves scores most."""
    alarms, parts = [], {}
    for place in ranking.false_alarms(N_ALARMS):
        row = _row(ranking, int(place), [], records)
        if row.number - 1 in features.rows:
            largest = drivers.largest_contributions(features, N_PARTS, row.number - 1)
            several = [replace(part, name=_told(part)) for part in largest]
            named = [part for part in several if part.amount > 0][:N_NAMED]
            total = float(features.contributions(row.number - 1).sum())
            alarms.append(Alarm(row, named, total))
            parts[f"rank {row.rank:,}"] = several
    drawn = []
    if alarms:
        numbers = [alarm.row.number - 1 for alarm in alarms]
        mean = drivers.largest_contributions(features, N_PARTS, *numbers)
        parts = {f"mean of these {len(alarms)}": mean} | parts
        drawn.append(driver_figures.parts_figure(parts))
    found = {"alarms": alarms, "choices": list(parts), "told": features.told}
    more, charts = _movers(features)
    return found | more | {"n_features": len(features.names)}, [*drawn, *charts]


def _movers(
    features: drivers.Features | Explained,
) -> tuple[dict[str, object], list[figures.Figure]]:
    """What moves scores most: weights, or what columns add as a rule, with their curves."""
    if isinstance(features, drivers.Features):
        weights = drivers.largest_weights(features, N_WEIGHTS)
        return {"weights": weights}, [driver_figures.weights_figure(weights)] if weights else []
    influences = largest_influences(features, N_WEIGHTS)
    drawn = [driver_figures.influences_figure(influences)] if influences else []
    curves = {f"curve-{place}": one for place, one in enumerate(features.curves)}
    drawn += [driver_figures.shape_figure(name, one) for name, one in curves.items()]
    return {"influences": influences, "curves": curves, "n_explained": features.n_rows}, drawn


def _told(part: drivers.Contribution) -> str:
    """A column and what the row holds there."""
    cell = _cell(part.value)
    return f"{part.name} is missing" if cell.text == MISSING else f"{part.name} = {cell.text}"


def _facts(ranking: Ranking, facts: Mapping[str, object]) -> dict[str, str]:
    own = {
        "Rows ranked": f"{ranking.n_rows:,} ({ranking.n_pos:,} positive, {ranking.n_neg:,} not)",
        **made_now(),
    }
    return own | {str(key): str(value) for key, value in facts.items()}


def _render(context: dict[str, object], drawn: Sequence[figures.Figure]) -> str:
    environment = templates()
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"count": count, "number": _number, "amount": _amount, "money": _money}
    read = environment.loader.get_source  # type: ignore[union-attr]
    scripts = [figures.browser_library(), read(environment, "page.js")[0]]
    scripts = [script.replace("</script", r"<\/script") for script in scripts]
    return environment.get_template("page.html.jinja").render(
        **context,
        figures={one.name: one for one in drawn},
        pictures={name: Markup(svg) for name, svg in figures.pictures(drawn).items()},
        specs={one.name: one.spec for one in drawn},
        style=Markup(read(environment, "page.css")[0]),
        scripts=[Markup(script) for script in scripts],
        hashes=" ".join(f"'sha256-{_sha256(script)}'" for script in scripts),
    )


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _amount(value: float) -> str:
    """With its sign, and three digits."""
    return f"{value:+.3g}".replace("e-0", "e-").replace("e+0", "e+")


def _money(value: float) -> str:
    """Whole numbers where cents do not matter."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:,.2f}"


def _number(value: float) -> str:
    """Four digits, as the page's script writes them."""
    if abs(value) >= 1e4:
        return f"{value:,.0f}"
    return f"{value:.4g}".replace("e-0", "e-")
