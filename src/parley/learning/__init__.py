"""Algorithms, one a file, and the loop around them."""

from parley.learning.train import train

__all__ = ["train"]
