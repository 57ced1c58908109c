"""`python -m toppush`."""

from toppush.cli import main

main()
