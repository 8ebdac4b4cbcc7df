"""The average outcome of training by terms, by moments or by runs on a pilot."""
