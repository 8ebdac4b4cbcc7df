"""Figures: plain numbers in, a `Picture` with words that say what is seen out; and the look that all of them share."""
