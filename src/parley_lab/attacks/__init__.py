"""Attacks that studies and benchmarks try: likenesses of a class, series off sums, owners that lie."""
