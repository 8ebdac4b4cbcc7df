"""The distributions of columns, for terms without a public sample."""
