"""Counts and histograms of a column, asked once, with noise on whole numbers or by randomised response."""
