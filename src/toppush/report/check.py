"""The page of `toppush check`: drift since a model was fitted. It has no script at all."""

from dataclasses import dataclass

from markupsafe import Markup

from toppush.monitor.profile import Bin
from toppush.monitor.verdict import Checked, CheckedColumn, headline, sentences
from toppush.report.pages import made_now, templates

MOST_COLUMNS = 200
"""Columns in the table of all."""
MOST_SHOWN = 12
"""Columns of which the page shows how their values are spread."""


@dataclass(frozen=True)
class Bars:
    """A bin, and the lengths of its bars before and now in percent."""

    bin: Bin
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
    shown = [one for one in found.columns if one.drifted] or found.columns[:3]
    return environment.get_template("watch.html.jinja").render(
        title=f"{data} against {before or model}",
        before=before or "training rows, each scored by a fit that had not seen it",
        headline=headline(found),
        more=sentences(found),
        found=found,
        columns=found.columns[:MOST_COLUMNS],
        shown=[(one, bars(one.bins)) for one in shown[:MOST_SHOWN]],
        points=bars(found.bins),
        facts=_facts(found, {"Model": model, "Before": before, "Data": data}),
        share_text=share_text,
        style=Markup(style),
    )


def bars(bins: list[Bin]) -> list[Bars]:
    """The fractions of each bin, the longest bar being 100."""
    most = max((max(each.before, each.now) for each in bins), default=0.0) or 1.0
    return [Bars(each, 100 * each.before / most, 100 * each.now / most) for each in bins]


def share_text(column: CheckedColumn, what: str, when: str) -> str:
    """A fraction of missing values and the like, in percent."""
    change = column.change(what)
    share = None if change is None else getattr(change, when)
    return "-" if not share else f"{share:.1%}" if share >= 0.0005 else "< 0.1%"


def _facts(found: Checked, names: dict[str, str | None]) -> dict[str, str]:
    limits = found.limits
    return {
        **{what: name for what, name in names.items() if name},
        "Rows": f"{found.rows:,}",
        **made_now(),
        "What counts": f"an index (PSI) of {limits.psi:g}, a change of {limits.share:g} in the "
        "fraction of missing values, unknown categories or values beyond the range, "
        f"{limits.factor:g} times as many or as few rows at the top, a loss of "
        f"{limits.precision:.0%} of the precision there; and statistical significance: without "
        f"drift the probability of any change that counts is at most {limits.alpha:g}",
    }
