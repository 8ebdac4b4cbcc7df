"""What terms must say for FedProx: how strongly local updates are held back."""

from collections.abc import Mapping
from typing import ClassVar

from parley.terms.algorithms.federated import LOCAL_KEYS, PROXIMAL, FederatedRules


class FedProxRules(FederatedRules):
    keys: ClassVar[Mapping[str, str]] = {**LOCAL_KEYS, **PROXIMAL}


ALGORITHM = FedProxRules()
