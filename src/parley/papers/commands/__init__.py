"""`parley reproduce`: one file a document."""
