"""The page of `toppush check`: drift since a model was fitted. It has no script at all."""

from markupsafe import Markup

from toppush.monitor.verdict import Checked, CheckedColumn, headline, sentences
from toppush.report.page import date_and_versions, source, templates

MAX_COLUMNS = 200
"""Columns in the table of all."""
MAX_SHOWN = 12
"""Columns of which the page shows the distribution of values."""


def drift_page(drift: Checked, *, data: str, model: str | None = None, before: str = "") -> str:
    """A self-contained HTML page about the result of `files.check`.

    Parameters
    ----------
    drift : Checked
    data : str
        Name of the file that was checked.
    model : str, optional
        Name of the model's file.
    before : str
        Name of the file that it was compared with, if that is not the training file.

    Returns
    -------
    str
    """
    environment, limits = templates(), drift.limits
    shown = [column for column in drift.columns if column.drifted] or drift.columns[:3]
    names = {"Model": model, "Before": before, "Data": data}
    facts = {role: name for role, name in names.items() if name}
    facts |= {"Rows": f"{drift.rows:,}", **date_and_versions()}
    facts["What counts as drift"] = (
        f"a population stability index (PSI) of {limits.psi:g}, a change of {limits.share:g} in "
        "the share of missing values, unknown categories or values outside the range, "
        f"{limits.factor:g} times as many or as few rows at the top, a loss of "
        f"{limits.precision:.0%} of the precision there; and statistical significance: without "
        f"drift, the probability of any alarm is at most {limits.alpha:g}"
    )
    return environment.get_template("drift.html.jinja").render(
        title=f"{data} compared with {before or model}",
        before=before or "training rows, with out-of-fold scores",
        headline=headline(drift),
        more=sentences(drift),
        drift=drift,
        columns=drift.columns[:MAX_COLUMNS],
        shown=shown[:MAX_SHOWN],
        facts=facts,
        share_text=share_text,
        style=Markup(source(environment, "page.css")),
    )


def share_text(column: CheckedColumn, what: str, when: str) -> str:
    """The share of missing values and the like, in percent; a dash for none."""
    change = column.change(what)
    share = None if change is None else getattr(change, when)
    return "-" if not share else f"{share:.1%}" if share >= 0.0005 else "< 0.1%"
