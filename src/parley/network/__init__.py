"""Parties on different machines."""
