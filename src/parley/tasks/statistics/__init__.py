"""Statistics that owners release about their tables: counts, distributions of columns, heterogeneity."""
