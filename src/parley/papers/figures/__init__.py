"""Pictures of the documents' figures."""
