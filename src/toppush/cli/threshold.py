"""`toppush threshold`."""

from dataclasses import asdict
from pathlib import Path

import click

from toppush.cli import common
from toppush.system.reading import DataError


@click.command(cls=common.Command)
@common.scoring_options
@click.option("--fpr", type=common.SHARE, required=True, help="False positive rate to stay within.")
def threshold(
    model: Path,
    data: Path,
    fpr: float,
    confidence: float,
    label: str | None,
    kind: str | None,
    as_json: bool,
) -> None:
    """Find the score above which the false positive rate is at most --fpr, with --confidence.

    DATA must hold labelled rows that the model was not fitted to. The negatives' scores are
    sorted and one of them is taken, by the Neyman-Pearson umbrella; if they are too few to promise
    anything, the command says how many are needed and ends with exit code 3.

    Example: toppush threshold fraud.toppush held-out.csv --fpr 0.001 --confidence 0.95
    """
    from toppush import files
    from toppush.metrics.thresholds import threshold_at_fpr

    with common.scoring(model, data, kind) as (ranker, rows, seen):
        if common.was_fitted_to(ranker, rows):
            raise DataError(
                "the model was fitted to this file, and its scores there are too good; take rows "
                "that it has not seen.",
                file=data,
            )
        positive, scores = files.labelled(ranker, rows, label=label, seen=seen)
    found = threshold_at_fpr(scores[~positive], max_fpr=fpr, confidence=confidence)
    above = scores > found.score
    recall = float(above[positive].mean()) if positive.any() else None
    observed = float(above[~positive].mean())
    result = asdict(found) | common.met(ranker, seen)
    result |= {"recall": recall, "observed_fpr": observed, "alarms": int(above.sum())}
    common.show(
        as_json,
        result,
        common.label_text(ranker.about["label"]),
        common.met_text(ranker, seen),
        f"Threshold: {found.score!r}. Rows with a score above it are alarms.",
        f"With confidence {confidence:.1%} at most {fpr:.3%} of new negatives score above it "
        f"(it is number {found.order:,} of {found.n_negatives:,} negatives from below).",
        f"On these rows: {observed:.3%} of the negatives"
        + (f" and {recall:.1%} of the positives" if recall is not None else "")
        + f" are above, {int(above.sum()):,} alarms.",
    )
