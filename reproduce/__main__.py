"""`python -m reproduce`, from a clone."""

from toppush.system.interrupts import ended_by_interrupt


def run() -> None:
    """Run the command; Ctrl-C ends it with exit code 130, also while it imports."""
    with ended_by_interrupt():
        from reproduce.commands import main

        main(prog_name="python -m reproduce")


if __name__ == "__main__":
    run()
