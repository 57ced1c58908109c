"""`toppush demo`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.experiments.demo import Demo


@click.command()
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("toppush-demo.png"),
    show_default=True,
    help="Where to save the picture.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random splits.")
def demo(picture: Path, seed: int) -> None:
    """Find the eights among scikit-learn's handwritten digits.

    Example: toppush demo --picture top.png
    """
    from rich.console import Console

    from toppush.experiments.demo import N_SPLITS, draw, run

    console = Console()
    result = run(seed)
    console.print(
        f"Task: rank {result.n_test} handwritten digits so that the eights come first, after "
        f"training on {result.n_train} others ({result.n_features} features). "
        f"Mean and deviation over {N_SPLITS} random splits:"
    )
    console.print(_measures_table(result))
    console.print(
        "Pos@Top: share of the eights above every other digit. AP: average precision. Last "
        "column: splits in which TopPush did better and worse."
    )
    solution = result.ranker.solution_
    console.print(
        f"Certificate of the last fit: objective {solution.upper:.5f}, optimum at least "
        f"{solution.lower:.5f}, so it is within {solution.relative_gap:.2%} of the best "
        f"({solution.n_iter} iterations). {solution.status.value}"
    )
    draw(result, picture)
    console.print(f"Picture of the top of both lists: {picture}")


def _measures_table(result: "Demo") -> "Table":
    from rich.table import Table

    table = Table("held-out", *result.measures, "better : worse")
    ours, theirs = result.measures.values()
    for name, values in ours.items():
        cells = [f"{v.mean():.3f} ± {v.std(ddof=1):.3f}" for v in (values, theirs[name])]
        wins, losses = (values > theirs[name]).sum(), (values < theirs[name]).sum()
        table.add_row(name, *cells, f"{wins} : {losses}")
    return table
