"""Results in words: numbers in, table rows and sentences out."""
