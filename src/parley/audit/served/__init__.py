"""What is deployed, under attack as it stands: an owner's daemon over its own interface, and one host of three."""
