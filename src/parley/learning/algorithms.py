"""The algorithms that terms can name."""

from parley.learning.algorithm import Algorithm
from parley.learning.averaged_subgradient import AveragedSubgradient
from parley.learning.federated_averaging import FederatedAveraging
from parley.learning.fedinfer import FedInfer
from parley.learning.fedlin import FedLin
from parley.learning.fednova import FedNova
from parley.learning.fedprox import FedProx
from parley.learning.fedsplit import FedSplit
from parley.learning.gossip import Gossip
from parley.learning.gradient_descent import GradientDescent
from parley.learning.identification import Identification
from parley.learning.item_factors import ItemFactors
from parley.learning.objective_perturbation import ObjectivePerturbation
from parley.learning.private_sgd import PrivateSGD
from parley.learning.scaffold import Scaffold
from parley.learning.scales import Scales
from parley.learning.sufficient_statistics import SufficientStatistics
from parley.setup import Setup

ALGORITHMS: dict[str, type[Algorithm]] = {
    "averaged-subgradient": AveragedSubgradient,
    "gradient-descent": GradientDescent,
    "federated-averaging": FederatedAveraging,
    "fedprox": FedProx,
    "fednova": FedNova,
    "scaffold": Scaffold,
    "fedlin": FedLin,
    "fedsplit": FedSplit,
    "gossip": Gossip,
    "sufficient-statistics": SufficientStatistics,
    "fedinfer": FedInfer,
    "private-sgd": PrivateSGD,
    "objective-perturbation": ObjectivePerturbation,
    "scales": Scales,
    "identification": Identification,
    "item-factors": ItemFactors,
}


def make_algorithm(setup: Setup) -> Algorithm:
    """The algorithm of these terms, its settings fixed from public knowledge."""
    return ALGORITHMS[setup.terms.learning.algorithm].make(setup)
