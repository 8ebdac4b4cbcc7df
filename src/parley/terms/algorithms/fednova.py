"""What terms must say for FedNova: no more than for all local updates."""

from parley.terms.algorithms.federated import FederatedRules

ALGORITHM = FederatedRules()
