"""Neural networks from records' clipped gradients: PyTorch computes them, owners add the noise."""
