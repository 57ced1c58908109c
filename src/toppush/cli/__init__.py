"""The command `toppush`; heavy packages are imported inside the commands, so that help is quick."""

import sys

from toppush.system.extras import needs

try:
    import click
except ImportError:
    sys.exit(needs("the command line", "click"))

from toppush import __version__
from toppush.cli.check import check
from toppush.cli.compare import compare
from toppush.cli.demo import demo
from toppush.cli.evaluate import evaluate, threshold
from toppush.cli.fit import fit
from toppush.cli.group import Commands
from toppush.cli.info import info
from toppush.cli.rank import explain, rank
from toppush.cli.report import report


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """Rank rare positives so that the cases you review first contain few false alarms.

    Exit codes: 0 success, 1 the data or the model cannot be used, 2 wrong usage, 3 the data cannot
    support the requested guarantee, 4 an error in toppush, with a crash file to send, 5 drift
    (check), 130 stopped by Ctrl-C, which leaves existing files unchanged.
    """


COMMANDS = (fit, rank, explain, evaluate, compare, threshold, report, check, info, demo)
for command in COMMANDS:
    main.add_command(command)
