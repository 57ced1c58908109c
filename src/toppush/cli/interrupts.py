"""Ctrl-C ends a command soon, also while compiled code runs that does not look up."""

import atexit
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from toppush.system.writing import discard_unfinished

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
GRACE = 0.5
"""Seconds in which a command may end by itself."""
SAID = "Stopped by Ctrl-C. What was not finished has not been written."
FINISHING = "Finishing with what is done. Ctrl-C again ends at once, and nothing is written."
SHOW_CURSOR = "\x1b[?25h"
_told = [SAID]
"""The last is what is said when a command is ended."""
_finishing = threading.Event()
"""Whether the next Ctrl-C lets what runs come to an end of its own."""


@contextmanager
def first_finishes(wanted: bool) -> Iterator[None]:
    """Let the first Ctrl-C end what runs inside in its own way, if it has one: no time is set."""
    if wanted:
        _finishing.set()
    try:
        yield
    finally:
        _finishing.clear()


@contextmanager
def saying(told: str) -> Iterator[None]:
    """Say this where an interrupt ends what runs inside."""
    _told.append(told)
    try:
        yield
    finally:
        _told.pop()


@contextmanager
def prompt_interrupts() -> Iterator[None]:
    """End the process if an interrupt does not end what runs inside within `GRACE` seconds.

    Python raises KeyboardInterrupt in the main thread between two of its own steps, which may be a
    long time from now. The system's handler tells a thread of ours at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(receiver, ended), daemon=True)
    before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        sender.close()
        watcher.join()
        receiver.close()


def _watch(receiver: socket.socket, ended: threading.Event) -> None:
    while number := receiver.recv(1):
        if number[0] == signal.SIGINT and _finishing.is_set():
            _finishing.clear()
            _say(FINISHING)
        elif number[0] == signal.SIGINT:
            # Taking all modules apart takes 0.3 s, and over 1 s on a busy machine.
            atexit.register(_leave)
            if not ended.wait(GRACE):
                discard_unfinished()
                say_stopped()
                os._exit(INTERRUPTED)


def _leave() -> None:
    sys.stdout.flush()
    os._exit(INTERRUPTED)


def say_stopped() -> None:
    """Tell that a command was ended."""
    _say(_told[-1])


def _say(told: str) -> None:
    """On a line of its own, which a terminal begins after its ^C."""
    terminal = sys.stderr.isatty()
    sys.stderr.write(f"{SHOW_CURSOR}\n" * terminal + f"{told}\n")
    sys.stderr.flush()
