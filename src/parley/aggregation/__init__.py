"""How the owners' answers become one."""

from parley.aggregation.mean import mean_variance, weighted_mean

__all__ = ["mean_variance", "weighted_mean"]
