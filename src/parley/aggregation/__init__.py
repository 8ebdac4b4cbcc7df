"""How the owners' answers become one, and what noise the one carries."""

from parley.aggregation.mean import EachOwnerNoise, Members, mean_variance, weighted_mean

__all__ = ["EachOwnerNoise", "Members", "mean_variance", "weighted_mean"]
