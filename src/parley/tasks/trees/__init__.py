"""Boosted trees whose structures nobody's rows decided: leaves at declared cut points, filled by noisy sums."""
