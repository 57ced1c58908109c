"""Ctrl-C ends a process soon, even while compiled code runs that does not check for it."""

import atexit
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from toppush.system.writing import discard_unfinished

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""
GRACE = 0.5
"""Seconds in which a command may end by itself."""
STOPPED = "Stopped by Ctrl-C. What was not finished has not been written."
SHOW_CURSOR = "\x1b[?25h"
_messages = [STOPPED]
"""The last one is printed when the process ends."""
_pressed, _reported = threading.Event(), threading.Event()


@contextmanager
def message_when_stopped(message: str) -> Iterator[None]:
    """Print this message if Ctrl-C ends the code in this context."""
    _messages.append(message)
    try:
        yield
    finally:
        _messages.pop()


@contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Let Ctrl-C end this process with exit code 130.

    The first raises KeyboardInterrupt, which Python does between two steps of the main thread. If
    the process does not end within `GRACE` seconds, another thread ends it. Further interrupts are
    ignored, and so is one after the end of this context.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background process
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    threading.Thread(target=_watch, args=(receiver,), daemon=True).start()
    signal.signal(signal.SIGINT, _interrupt_once)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    try:
        yield
    except KeyboardInterrupt:
        report_stopped()
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sender.detach()  # signals may still be sent to it


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed, which then is the cause of any error."""
    return _pressed.is_set()


def report_stopped() -> None:
    """Print on a separate line that the process was stopped."""
    _reported.set()
    terminal = sys.stderr.isatty()  # which begins a line after its ^C
    sys.stderr.write(f"{SHOW_CURSOR}\n" * terminal + f"{_messages[-1]}\n")
    sys.stderr.flush()


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _pressed.set()
    # Taking all modules apart takes 0.3 s, and over 1 s on a busy machine.
    atexit.register(_leave)
    raise KeyboardInterrupt


def _watch(receiver: socket.socket) -> None:
    while receiver.recv(1)[0] != signal.SIGINT:
        pass
    time.sleep(GRACE)
    discard_unfinished()
    if not _reported.is_set():
        report_stopped()
    os._exit(INTERRUPTED)


def _leave() -> None:
    sys.stdout.flush()
    os._exit(INTERRUPTED)
