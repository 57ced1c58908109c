"""The page of `toppush check`: what moved since a model was fitted. It has no script at all."""

from dataclasses import dataclass

from markupsafe import Markup

from toppush.monitor.profile import Cell
from toppush.monitor.verdict import Checked, CheckedColumn, headline, sentences
from toppush.report.pages import made_now, templates

MOST_COLUMNS = 200
"""Columns in the table of all."""
MOST_SHOWN = 12
"""Columns of which the page shows how their values are spread."""


@dataclass(frozen=True)
class Bars:
    """A share before and a share now, and how long their bars are in percent."""

    cell: Cell
    before: float
    now: float


def watch_page(found: Checked, *, data: str, model: str | None = None, before: str = "") -> str:
    """A self-contained HTML page about what `files.check` found.

    Parameters
    ----------
    found : Checked
    data : str
        Name of the file that was checked.
    model : str, optional
        Name of the model's file.
    before : str
        Name of the file that it was held against, if that is not what the model was fitted to.

    Returns
    -------
    str
    """
    environment = templates()
    loader = environment.loader
    assert loader is not None
    style = loader.get_source(environment, "page.css")[0]
    shown = [one for one in found.columns if one.moved] or found.columns[:3]
    return environment.get_template("watch.html.jinja").render(
        title=f"{data} against {before or model}",
        before=before or "training rows, each scored by a fit that had not seen it",
        headline=headline(found),
        more=sentences(found),
        found=found,
        columns=found.columns[:MOST_COLUMNS],
        shown=[(one, bars(one.cells)) for one in shown[:MOST_SHOWN]],
        points=bars(found.cells),
        facts=_facts(found, {"Model": model, "Before": before, "Data": data}),
        share_text=share_text,
        style=Markup(style),
    )


def bars(cells: list[Cell]) -> list[Bars]:
    """Both shares of each cell, the longest bar being 100."""
    most = max((max(cell.before, cell.now) for cell in cells), default=0.0) or 1.0
    return [Bars(cell, 100 * cell.before / most, 100 * cell.now / most) for cell in cells]


def share_text(column: CheckedColumn, what: str, when: str) -> str:
    """A share of gaps and the like, in percent; nothing where there is none."""
    change = column.change(what)
    share = None if change is None else getattr(change, when)
    return "-" if not share else f"{share:.1%}" if share >= 0.0005 else "< 0.1%"


def _facts(found: Checked, names: dict[str, str | None]) -> dict[str, str]:
    limits = found.limits
    return {
        **{what: name for what, name in names.items() if name},
        "Rows": f"{found.rows:,}",
        **made_now(),
        "What counts": f"an index (PSI) of {limits.psi:g}, a change of {limits.share:g} in a "
        f"share of gaps, unknown texts or values beyond the range, {limits.factor:g} times as many "
        f"or as few rows at the top, a loss of {limits.precision:.0%} of the precision there; and "
        f"no luck: the chance of any alarm if nothing moved is at most {limits.alpha:g}",
    }
