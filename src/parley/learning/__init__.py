"""Algorithms, one a file, and the loop around them."""
