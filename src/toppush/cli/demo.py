"""`toppush demo`."""

from pathlib import Path

import click

from toppush.cli.common import Command, OutputFile, json_option, show
from toppush.cli.leaderboard import leaderboard
from toppush.cli.side_by_side import as_json as plain
from toppush.cli.side_by_side import side_by_side


@click.command(cls=Command)
@click.option(
    "--picture",
    type=OutputFile(),
    default=Path("toppush-demo.png"),
    show_default=True,
    help="Where to save the picture.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random splits.")
@json_option
def demo(picture: Path, seed: int, as_json: bool) -> None:
    """Find the eights among scikit-learn's handwritten digits.

    TopRanker beside logistic regression with its penalty chosen, and LightGBM, if it is installed,
    with its leaves, rounds and rate chosen.

    Example: toppush demo --picture top.png
    """
    from toppush.cli.digits import N_SPLITS, draw, run

    result = run(seed)
    draw(result, picture)
    show(
        as_json,
        {
            "splits": plain(result.measures),
            "seconds": result.seconds,
            "leaderboard": result.leaderboard,
            "picture": str(picture),
        },
        f"Task: rank {result.n_test} handwritten digits so that the eights come first, after "
        f"training on {result.n_train} others ({result.n_features} features). "
        f"Mean and deviation over {N_SPLITS} random splits:",
        None if as_json else side_by_side(result.measures, result.seconds),
        "Pos@Top: share of the eights above every other digit. AP: average precision. The others "
        "choose their settings by folds of the training rows. Last column: splits in which "
        "TopRanker had the higher and the lower AP.",
        "What TopRanker combined on the first split, by training rows that were held out:",
        None if as_json else leaderboard({"leaderboard": result.leaderboard}),
        f"Picture of the top of the lists: {picture}",
    )
