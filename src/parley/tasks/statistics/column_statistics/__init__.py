"""How columns are spread, where nobody has a public sample."""
