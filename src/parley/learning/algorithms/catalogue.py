"""The algorithms that terms can name."""

from parley.learning.algorithms.algorithm import Algorithm
from parley.learning.algorithms.asynchronous import AsynchronousDescent
from parley.learning.algorithms.averaged_subgradient import AveragedSubgradient
from parley.learning.algorithms.federated_averaging import FederatedAveraging
from parley.learning.algorithms.fedinfer import FedInfer
from parley.learning.algorithms.fedlin import FedLin
from parley.learning.algorithms.fednova import FedNova
from parley.learning.algorithms.fedprox import FedProx
from parley.learning.algorithms.fedsplit import FedSplit
from parley.learning.algorithms.gossip import Gossip
from parley.learning.algorithms.gradient_descent import GradientDescent
from parley.learning.algorithms.objective_perturbation import ObjectivePerturbation
from parley.learning.algorithms.private_sgd import PrivateSGD
from parley.learning.algorithms.scaffold import Scaffold
from parley.learning.algorithms.sufficient_statistics import SufficientStatistics
from parley.protocol.setup import Setup
from parley.terms import Learning
from parley.terms.rules import AlgorithmRules, register_rules

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
}


def register(name: str, rules: AlgorithmRules, algorithm: type[Algorithm]) -> None:
    """Register an algorithm of a program's own: its rules for terms, and its class."""
    register_rules(name, rules)
    ALGORITHMS[name] = algorithm


def algorithm_of(learning: Learning) -> type[Algorithm]:
    """Return the algorithm of these terms, if rounds wait for every owner."""
    return ALGORITHMS[learning.algorithm]


def make_algorithm(setup: Setup) -> Algorithm:
    """Build the algorithm of these terms, with its settings fixed from public knowledge."""
    return setup.task.algorithm(setup)


def prediction_algorithm(setup: Setup) -> Algorithm:
    """Build the algorithm of terms that predict a column."""
    if not setup.schedule.waits:
        return AsynchronousDescent.make(setup)
    return algorithm_of(setup.terms.learning).make(setup)
