"""How the owners' answers become one, where their noise is drawn, and how much of it the one carries."""

from parley.aggregation.mean import EachOwner, EachOwnerNoise, Members, weighted_mean
from parley.terms import Terms

__all__ = ["AGGREGATIONS", "Aggregation", "EachOwner", "EachOwnerNoise", "Members", "aggregation_of", "weighted_mean"]

Aggregation = EachOwner  # the only one so far

AGGREGATIONS: dict[str, Aggregation] = {"each-owner": EachOwner()}


def aggregation_of(terms: Terms) -> Aggregation:
    """The one that the terms name in `privacy.noise`."""
    return AGGREGATIONS[terms.privacy.noise]
