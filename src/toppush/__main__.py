"""The command `toppush` as a process, also `python -m toppush`."""

from toppush.system.interrupts import ended_by_interrupt


def run() -> None:
    """Run the command; Ctrl-C ends it with exit code 130, also while it imports."""
    with ended_by_interrupt():
        from toppush.cli import main

        main()


if __name__ == "__main__":
    run()
