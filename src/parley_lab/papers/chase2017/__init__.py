"""Chase et al. (2017), as A section 2.1 reports it: private neural networks on handwritten digits."""
