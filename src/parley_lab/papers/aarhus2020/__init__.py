"""A: the Aarhus report of 2020 on private collaborative machine learning."""
