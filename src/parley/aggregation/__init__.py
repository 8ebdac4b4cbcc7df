"""How the owners' answers become one."""

from parley.aggregation.mean import weighted_mean

__all__ = ["weighted_mean"]
