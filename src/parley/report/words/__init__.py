"""What was found, as tables and in words: numbers in, rows and sentences out."""
