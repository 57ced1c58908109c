"""`python -m reproduce`, from a clone."""

from toppush.system.interrupts import ended_by_interrupt

if __name__ == "__main__":
    with ended_by_interrupt():
        from reproduce.commands import main

        main(prog_name="python -m reproduce")
