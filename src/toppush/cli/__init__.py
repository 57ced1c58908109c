"""The command `toppush`: one file a command, heavy imports inside, so that help is quick."""

import sys

try:
    import click
except ImportError:
    sys.exit("the command line needs more packages: pip install 'toppush[cli]'")

from toppush.cli.datasets import datasets
from toppush.cli.demo import demo
from toppush.cli.reproduce import reproduce


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="toppush")
def main() -> None:
    """Rank so that the top of the list is right."""


for command in (datasets, demo, reproduce):
    main.add_command(command)
