"""How the owners' answers become one, where their noise is drawn, and how much noise the result carries."""

from parley.protocol.aggregation.mean import EachOwner, EachOwnerNoise, Members, NoiseGroup, noise_groups, weighted_mean
from parley.protocol.aggregation.one_noise import DistributedNoise, OneNoise, Shared
from parley.protocol.aggregation.robust import Robust
from parley.protocol.stages import Resolver
from parley.terms import Terms

__all__ = [
    "AGGREGATIONS",
    "Aggregation",
    "CoalitionNoise",
    "DistributedNoise",
    "EachOwner",
    "EachOwnerNoise",
    "Members",
    "NoiseGroup",
    "OneNoise",
    "Robust",
    "Shared",
    "aggregation_of",
    "noise_groups",
    "weighted_mean",
]

Aggregation = EachOwner | Shared
CoalitionNoise = EachOwnerNoise | OneNoise

AGGREGATIONS: dict[str, Aggregation] = {"each-owner": EachOwner(), "shared": Shared()}


def aggregation_of(terms: Terms, setup: Resolver | None = None) -> Aggregation:
    """Return the aggregation of these terms (`privacy.noise`, or `aggregation`); `setup` bounds honest answers."""
    section = terms.aggregation
    if section is None:
        return AGGREGATIONS[terms.privacy.noise]
    return Robust(section.rule, section.byzantine, setup)
