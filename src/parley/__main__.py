"""`python -m parley` is the command `parley`."""

from parley.cli import main as main

if __name__ == "__main__":
    main()
