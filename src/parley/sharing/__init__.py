"""Sums of private numbers that three hosts compute without seeing them, with one noise that none of them knows."""
