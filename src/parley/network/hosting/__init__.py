"""The hosts that add up the owners' shares and one noise: what each of them promises, writes down, and lets go."""
