"""The command `toppush` as a process, also `python -m toppush`."""

import os
import signal


def run() -> None:
    """Run the command; Ctrl-C ends it with exit code 130, also while it imports."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    from toppush.system.interrupts import ended_by_interrupt

    with ended_by_interrupt():
        from toppush.cli import main

        main()


if __name__ == "__main__":
    run()
