"""`toppush compare`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from toppush.cli import common
from toppush.cli.compare_lists import are_wanted, compare_lists, lists_options, split_options
from toppush.cli.side_by_side import DECIDES, side_by_side
from toppush.cli.side_by_side import as_json as plain


@click.command(cls=common.Command)
@common.existing("data")
@common.list_option("--methods", "Which to compare, by name [all but the slow: net].")
@common.training_options
@lists_options
@click.pass_context
def compare(
    context: click.Context,
    /,
    data: Path,
    as_json: bool,
    kind: str | None,
    sample_weight: str | None,
    groups: str | None,
    time: str | None,
    **options: Any,
) -> None:
    """Cross-validate TopRanker and kinds of models beside the usual methods on DATA.

    TopRanker is what fit takes by default. The usual methods are logistic regression, a linear SVM
    and LightGBM. Every method chooses its settings on the training part of each fold. The last
    column counts the folds in which the first had the higher and the lower average precision.

    With --scores or --with nothing is fitted: lists that are there already stand side by side on
    the same rows, with paired differences and who is ahead.

    Example: toppush compare train.csv --label fraud --drop id --cv 5

    Example: toppush compare train.csv --label fraud --methods TopRanker,LightGBM

    Example: toppush compare scored.csv --label fraud --scores ours,lightgbm --with fraud.toppush
    """
    of_lists = split_options(options)
    if are_wanted(context):
        of_lists |= {name: options[name] for name in ("label", "positive", "seed")}
        return compare_lists(data, kind=kind, as_json=as_json, **of_lists)
    from toppush.cli.progress import steps
    from toppush.files.compare import compare
    from toppush.files.fitting import read_training_file
    from toppush.files.readers import reading
    from toppush.metrics.paired import warn_of_perfect
    from toppush.modeltypes.base import require_scoring
    from toppush.tables.roles import Roles

    with reading(data, kind) as file:
        for columns in ("drop", "categorical", "keep"):
            options[columns] = common.named_columns(file, options[columns])
        read = {
            name: options.pop(name) for name in ("label", "positive", "drop", "categorical", "keep")
        }
        given = read_training_file(file, roles=Roles(sample_weight, groups, time), **read)
    if options["scoring"] is not None:
        require_scoring(options["scoring"])
    with steps(quiet=as_json) as tell:
        found = compare(given, tell=tell, **options)
    warn_of_perfect({name: one[DECIDES].mean() for name, one in found.values.items()})
    label = asdict(given.rule)
    result = {
        "label": label,
        "rows": found.rows,
        "positives": found.positives,
        "folds": plain(found.values),
        "seconds": found.seconds,
        "left_out": found.left_out,
        "warnings": found.warned,
    }
    common.show(
        as_json,
        result,
        common.chosen_label_text(label),
        f"{found.rows:,} rows, {found.positives:,} positive. Held-out mean and deviation over "
        f"{options['cv']} folds:",
        None if as_json else side_by_side(found.values, found.seconds),
        *(f"Left out: {name}, {why}." for name, why in found.left_out.items()),
        *(
            f"{name}: {count} {kind} over the folds."
            for name, kinds in found.warned.items()
            for kind, count in kinds.items()
        ),
    )
