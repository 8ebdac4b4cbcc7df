"""P: Pejó, Tang and Arriaga, "Together or Alone: The Price of Privacy in Joint Learning"."""
