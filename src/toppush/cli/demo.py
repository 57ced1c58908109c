"""`toppush demo`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toppush.cli.common import Command, OutputFile, json_option, show

if TYPE_CHECKING:
    from rich.table import Table

    from toppush.experiments.demo import Demo


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

    Example: toppush demo --picture top.png
    """
    from toppush.experiments.demo import N_SPLITS, draw, run

    result = run(seed)
    draw(result, picture)
    solution = result.ranker.solution_
    show(
        as_json,
        _as_json(result, picture),
        f"Task: rank {result.n_test} handwritten digits so that the eights come first, after "
        f"training on {result.n_train} others ({result.n_features} features). "
        f"Mean and deviation over {N_SPLITS} random splits:",
        None if as_json else _measures_table(result),
        "Pos@Top: share of the eights above every other digit. AP: average precision. Last "
        "column: splits in which TopPush did better and worse.",
        f"Certificate of the last fit: objective {solution.upper:.5f}, optimum at least "
        f"{solution.lower:.5f}, so it is within {solution.relative_gap:.2%} of the best "
        f"({solution.n_iter} iterations). {solution.status.value}",
        f"Picture of the top of both lists: {picture}",
    )


def _as_json(result: "Demo", picture: Path) -> dict[str, Any]:
    splits = {
        ranker: {name: list(map(float, values)) for name, values in measures.items()}
        for ranker, measures in result.measures.items()
    }
    solution = result.ranker.solution_
    bounds = {"upper": solution.upper, "lower": solution.lower, "status": solution.status.name}
    return {"splits": splits, "certificate": bounds, "picture": str(picture)}


def _measures_table(result: "Demo") -> "Table":
    from rich.table import Table

    table = Table("held-out", *result.measures, "better : worse")
    ours, theirs = result.measures.values()
    for name, values in ours.items():
        cells = [f"{v.mean():.3f} ± {v.std(ddof=1):.3f}" for v in (values, theirs[name])]
        wins, losses = (values > theirs[name]).sum(), (values < theirs[name]).sum()
        table.add_row(name, *cells, f"{wins} : {losses}")
    return table
