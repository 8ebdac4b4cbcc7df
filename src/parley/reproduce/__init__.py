"""A file per source document: its figures and tables again, published beside recomputed."""
