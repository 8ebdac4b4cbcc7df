"""How to spend budgets: rounds, steps and clips looked for on a pilot."""
