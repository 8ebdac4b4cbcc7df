"""Noise of a known law, what it costs, and numbers in shares."""
