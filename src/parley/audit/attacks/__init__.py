"""Attacks on trained models, and on rounds in which owners lie."""
