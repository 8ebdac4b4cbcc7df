"""T: Wu's thesis of 2019 on privacy-preserving collaborative learning: its compensation games."""
