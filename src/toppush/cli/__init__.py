"""The command `toppush`: one file a command, heavy imports inside, so that help is quick."""

import sys

from toppush.system.extras import needs

try:
    import click
except ImportError:
    sys.exit(needs("the command line", "click"))

from toppush import __version__
from toppush.cli.check import check
from toppush.cli.common import Commands
from toppush.cli.compare import compare
from toppush.cli.demo import demo
from toppush.cli.evaluate import evaluate
from toppush.cli.explain import explain
from toppush.cli.fit import fit
from toppush.cli.info import info
from toppush.cli.rank import rank
from toppush.cli.report import report
from toppush.cli.threshold import threshold


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Rank so that the top of the list is right.

    Exit codes: 0 done, 1 the data or the model cannot be used, 2 wrong usage, 3 the data cannot
    support what was asked for, 4 an error in toppush, with a file to send, 5 something has moved
    (check), 130 stopped by Ctrl-C, which leaves files as they were.
    """


COMMANDS = (
    fit,
    rank,
    explain,
    evaluate,
    compare,
    threshold,
    report,
    check,
    info,
    demo,
)
for command in COMMANDS:
    main.add_command(command)
