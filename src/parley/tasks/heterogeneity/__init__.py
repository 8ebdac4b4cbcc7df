"""How much owners differ."""
