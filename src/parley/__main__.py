"""`python -m parley` is the command `parley`."""

from parley.cli import main

main()
