"""Exact instruments: the law of one answer, and searches over pairs of tables for one that tells too much."""
