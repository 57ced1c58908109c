"""`toppush threshold`."""

from dataclasses import asdict
from typing import Any

import click

from toppush.cli import common
from toppush.cli.sources import Given, read_list, scoring_options
from toppush.system.reading import DataError


@click.command(cls=common.Command)
@scoring_options
@click.option("--fpr", type=common.SHARE, required=True, help="False positive rate to stay within.")
def threshold(fpr: float, confidence: float, as_json: bool, **source: Any) -> None:
    """Find the score above which the false positive rate is at most --fpr, with --confidence.

    DATA must hold labelled rows that the model was not fitted to. The negatives' scores are
    sorted and one of them is taken, by the Neyman-Pearson umbrella; if they are too few to promise
    anything, the command says how many are needed and ends with exit code 3.

    MODEL is a file of toppush or of skops; with --scores it is left out: the scores are in DATA.

    Example: toppush threshold fraud.toppush held-out.csv --fpr 0.001 --confidence 0.95

    Example: toppush threshold scored.csv --scores score --label fraud --fpr 0.001
    """
    from toppush.metrics.thresholds import threshold_at_fpr

    given = Given.of(**source)
    listed = read_list(given)
    if listed.flatters:
        raise DataError(
            "the model was fitted to this file, and its scores there are too good; take rows "
            "that it has not seen.",
            file=given.data,
        )
    listed.caution()
    positive, scores = listed.found.positive, listed.found.scores
    found = threshold_at_fpr(scores[~positive], max_fpr=fpr, confidence=confidence)
    above = scores > found.score
    recall = float(above[positive].mean()) if positive.any() else None
    observed = float(above[~positive].mean())
    score, beyond = (-found.score, "below") if given.lower_is_better else (found.score, "above")
    result = asdict(found) | {"score": score} | listed.met()
    result |= {"recall": recall, "observed_fpr": observed, "alarms": int(above.sum())}
    common.show(
        as_json,
        result,
        *listed.sentences(),
        f"Threshold: {score!r}. Rows with a score {beyond} it are alarms.",
        f"With confidence {confidence:.1%} at most {fpr:.3%} of new negatives score {beyond} it "
        f"(it is number {found.order:,} of {found.n_negatives:,} negatives from "
        f"{'above' if given.lower_is_better else 'below'}).",
        f"On these rows: {observed:.3%} of the negatives"
        + (f" and {recall:.1%} of the positives" if recall is not None else "")
        + f" are {beyond}, {int(above.sum()):,} alarms.",
    )
