"""Tables about the same people, matched by hosts who see neither the people nor which of them match."""
