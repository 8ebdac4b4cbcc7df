"""Games of the documents."""
