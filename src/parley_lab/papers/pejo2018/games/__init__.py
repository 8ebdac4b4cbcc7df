"""The games that P plays on gains in accuracy, and what it leaves open of them."""
