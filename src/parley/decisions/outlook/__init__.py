"""What joining means for each owner, and the verdicts."""
