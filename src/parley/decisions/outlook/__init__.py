"""What joining would mean for each owner, and the verdicts that follow from it."""
