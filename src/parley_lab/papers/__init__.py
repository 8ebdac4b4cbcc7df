"""The source documents again: a folder per document with its studies, games and pictures; one runner for all of
them."""
