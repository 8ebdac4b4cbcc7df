"""The three hosts that add up the owners' shares and one noise: what each promises, writes down, and lets go."""
