"""Items learned from ratings of different people."""
