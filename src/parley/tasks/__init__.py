"""Wings: whatever owners do together beside training a model of a table."""
