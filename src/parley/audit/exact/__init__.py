"""What an answer costs, computed exactly, and the search for the tables for which it costs most."""
