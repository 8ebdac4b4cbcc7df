"""Terms proposed from files."""
