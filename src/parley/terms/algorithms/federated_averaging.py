"""What terms must say for federated averaging: no more than for all local updates."""

from parley.terms.algorithms.federated import FederatedRules

ALGORITHM = FederatedRules()
