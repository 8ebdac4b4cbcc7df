"""How much owners differ, from one noisy answer of each."""
