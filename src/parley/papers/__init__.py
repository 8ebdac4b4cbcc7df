"""The source documents' figures and tables again, a file per document, on real data where they are at hand."""
