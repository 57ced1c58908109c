"""The command group: repeated options, exit codes, and messages instead of tracebacks."""

import errno
import os
import platform
import shlex
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from toppush.system.extras import EXTRAS, not_installed, versions_of
from toppush.system.interrupts import INTERRUPTED, report_stopped, was_interrupted

BAD_INPUT = 1
"""Exit code when the data or the model cannot be used. Click exits with 2 on wrong usage."""
INTERNAL_ERROR = 4
"""Exit code after an unexpected error."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk. For a file of ours, `WriteError` names the file."""
PACKAGES = ("toppush", "numpy", "scipy", "scikit-learn", "pyarrow", "skops", "click", "dask")


class Failure(click.ClickException):
    """A message on the standard error stream, and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]


class FullSentence(click.Command):
    """A command whose line in the help of its group is its whole first sentence."""

    def get_short_help_str(self, limit: int = 45) -> str:
        return super().get_short_help_str(limit=1000)


class Command(FullSentence):
    """A command that refuses a repeated option if the option takes one value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        _, _, parsed = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(parsed).items():
            if isinstance(option, click.Option) and times > 1 and not option.multiple:
                flag = option.opts[-1]
                raise click.UsageError(
                    f"{flag} is given {times} times and takes one value; give it once.", ctx
                )
        return super().parse_args(ctx, args)


class Commands(FullSentence, click.Group):
    """A group whose commands end with a message and an exit code instead of a traceback."""

    command_class = Command

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run a command; a full disk behind the standard output is reported, a closed pipe is not.

        The last output is written only when the process ends, so it is flushed here.
        """
        try:
            try:
                return super().main(*arguments, **options)
            finally:
                if sys.stdout is not None:
                    sys.stdout.flush()
        except OSError as error:
            with suppress(OSError):  # Python writes the remaining output when it exits
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                failure(error).show()
            sys.exit(BAD_INPUT)

    def invoke(self, ctx: click.Context) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            try:
                return super().invoke(ctx)
            except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
                raise
            except (Exception, KeyboardInterrupt) as error:
                if was_interrupted() or isinstance(error, KeyboardInterrupt):
                    report_stopped()
                    ctx.exit(INTERRUPTED)
                raise failure(error) from error
            finally:
                for message in dict.fromkeys(str(warning.message) for warning in caught):
                    click.echo(f"Warning: {message}", err=True)


def failure(error: Exception) -> Failure:
    """The message of an expected error, or for an unexpected one the path of a crash file.

    Expected are errors of files and packages, and a `ValueError` raised by this package.
    """
    if isinstance(error, MemoryError):
        return Failure(f"there is not enough memory: {error or 'no more is free'}.", BAD_INPUT)
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return Failure(not_installed(error.name), BAD_INPUT)
    if type(error) is OSError and error.errno in DISK_FULL and error.filename is None:
        return Failure(f"the output cannot be written: {error.strerror}.", BAD_INPUT)
    if isinstance(error, (OSError, ImportError)) or _is_ours(error):
        return Failure(str(error), getattr(error, "exit_code", BAD_INPUT))
    return Failure(
        f"this should not have happened ({type(error).__name__}: {error}). It is an error in "
        f"toppush, not in what you typed. Please send {_write_crash(error)}: it holds the command "
        "line, the versions and the traceback, and no rows.",
        INTERNAL_ERROR,
    )


def _is_ours(error: Exception) -> bool:
    """Whether the error class belongs to this package, or it is a `ValueError` raised here."""
    if type(error).__module__.startswith("toppush."):
        return True
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    name = frame.f_globals.get("__name__", "")
    return isinstance(error, ValueError) and name.startswith("toppush.")


def _write_crash(error: Exception) -> Path:
    """Write command line, versions and traceback, without values of variables, to a new file.

    The file is in the current folder or, if that is read-only, in the temporary folder.
    """
    python, *versions = map(" ".join, versions_of(PACKAGES, "not installed").items())
    report = (
        f"Command: {shlex.join(sys.argv)}\n"
        f"{python.capitalize()} on {platform.platform()}\n"
        f"Packages: {', '.join(versions)}\n\n"
    ) + "".join(traceback.format_exception(error))
    name = f"toppush-error-{datetime.now():%Y%m%d-%H%M%S}-"
    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            with tempfile.NamedTemporaryFile(
                "w", prefix=name, suffix=".txt", dir=folder, delete=False, encoding="utf-8"
            ) as file:
                file.write(report)
        except OSError:
            continue
        return Path(file.name)
    return Path("the text above")
