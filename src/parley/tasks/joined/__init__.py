"""Models from several tables about the same people, each with other columns."""
