"""The commands."""

from parley.cli.app import main

__all__ = ["main"]
