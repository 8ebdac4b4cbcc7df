"""Figures: plain numbers in, a `Picture` with a description in words out; and their common look."""
