"""What several benchmarks share: real tables, and other people's private methods."""
