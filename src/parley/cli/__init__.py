"""The commands that people type."""

from parley.cli.app import main

__all__ = ["main"]
