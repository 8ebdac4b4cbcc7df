"""The rules of the prediction algorithms: what terms must say for each. `learning/algorithms/` has what they do."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from parley.terms.catalogue import MODELS
from parley.terms.participation import check_asynchronous
from parley.terms.rules import AlgorithmRules, OneRelease
from parley.terms.sections import CheckableTerms, Learning
from parley.terms.topology import EXPECTED_TOPOLOGY, Edges

LOCAL_STEPS = 5  # where the terms do not say
LOCAL_KEYS: Mapping[str, str] = {
    "learning.local_steps": "owners take this number of steps between two answers; other algorithms ask for gradients",
    "owners.local_steps": "other algorithms have no local steps",
    "owners.step": "other algorithms have no local steps",
}
PROXIMAL_KEYS: Mapping[str, str] = {"learning.proximal": "the weight of the pull towards the start of a local update"}
MAX_PEERS = 256
NO_BATCHES_NOTE = "other algorithms use all records in every round"
LOSSES: Mapping[str, str] = {"owners.availability": "Parley forecasts missing answers only for means of gradients"}


class AveragedSubgradientRules(AlgorithmRules):
    """Rules of averaged subgradient steps (Algorithm 2 of W)."""

    average: ClassVar[str | None] = "all"
    keys: ClassVar[Mapping[str, str]] = {
        "learning.average": "the choice of the iterates whose mean is the model",
        **LOSSES,
    }


class GradientDescentRules(AlgorithmRules):
    """Rules of gradient descent; its published step falls with the square of the horizon unless a `decay` is set."""

    average: ClassVar[str | None] = "last"
    keys: ClassVar[Mapping[str, str]] = {
        "learning.average": "the choice of the iterates whose mean is the model",
        "learning.decay": "steps shrink with this power of the round",
        "learning.momentum": "the share of the last step that is added to the next step",
        "learning.staleness": "only 'gradient-descent' uses answers as they arrive. Statistics are asked once, "
        "local updates and corrections need all answers to one question, and batches need a common round",
        **LOSSES,
    }

    def check(self, terms: CheckableTerms) -> None:
        if not terms.learning.waits:
            check_asynchronous(terms)

    def step_unit(self, learning: Learning, horizon: int) -> float:
        return 1.0 if learning.decay is not None else float(horizon**2)


class FederatedRules(AlgorithmRules):
    """Rules of local updates: steps within a box, on a loss with a known bound on how far a record moves them."""

    asks: ClassVar[str] = "update"
    keys: ClassVar[Mapping[str, str]] = LOCAL_KEYS

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        said = super().usual(content)
        return {**said, "local_steps": LOCAL_STEPS if said.get("local_steps") is None else said["local_steps"]}

    def check_learning(self, learning: Learning) -> None:
        if "learning.proximal" in self.keys and learning.proximal is None:
            raise ValueError(f"proximal|expected a number: {self.keys['learning.proximal']}")
        if learning.horizon % self.rounds_a_step(learning):
            raise ValueError(
                "horizon|expected an even number, because a step needs two answers, a gradient and a local update"
            )

    def clip_norm(self, norm: str) -> str:
        return "l2"

    def tells_heterogeneity(self, norm: str) -> bool:
        return norm == "l2"


class CorrectedRules(FederatedRules):
    """Rules of algorithms that ask each owner its own question, corrected by its earlier answers."""

    asks: ClassVar[str] = "corrected"
    corrects_drift: ClassVar[bool] = True

    def tells_heterogeneity(self, norm: str) -> bool:
        return False


class FedProxRules(FederatedRules):
    """Rules of FedProx, which has a proximal weight."""

    keys: ClassVar[Mapping[str, str]] = {**LOCAL_KEYS, **PROXIMAL_KEYS}


class ScaffoldRules(CorrectedRules):
    """Rules of SCAFFOLD; with gradients as control variates a step takes two answers."""

    keys: ClassVar[Mapping[str, str]] = {**LOCAL_KEYS, "learning.variates": "the origin of the control variates"}
    unsaid: ClassVar[Mapping[str, str]] = {"variates": "walks"}

    def rounds_a_step(self, learning: Learning) -> int:
        return 2 if learning.variates == "gradients" else 1


class FedLinRules(CorrectedRules):
    """Rules of FedLin: a step takes two answers, and more local steps are shorter, so all owners go equally far."""

    keys: ClassVar[Mapping[str, str]] = {
        **LOCAL_KEYS,
        "learning.top_k": "this number of coordinates of a released gradient is sent; answers of other algorithms "
        "cannot be shortened before noise is added",
    }

    def rounds_a_step(self, learning: Learning) -> int:
        return 2

    def local_step(self, step: float, steps: int, everybody: Iterable[int]) -> float:
        return step * (min(everybody) / steps)


class FedSplitRules(CorrectedRules):
    """Rules of FedSplit, whose proximal steps have a strong convexity."""

    keys: ClassVar[Mapping[str, str]] = {**LOCAL_KEYS, **PROXIMAL_KEYS}


class GossipRules(AlgorithmRules):
    """Rules of gossip: every owner has its own point, and a graph says who hears whom."""

    keys: ClassVar[Mapping[str, str]] = {"learning.topology": "other algorithms have a centre"}

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) sums of answers, and a graph that is missing, disconnected or has unknown owners.
        Messages do not quote the file of edges, which may be the wrong file."""
        topology, names = terms.learning.topology, [owner.name for owner in terms.owners]
        if topology is None:
            raise ValueError(f"learning.topology|required with algorithm = 'gossip'; expected {EXPECTED_TOPOLOGY}")
        if terms.noise.summed:
            raise ValueError(
                "privacy.noise|expected 'each-owner' with gossip, because owners combine separate answers, but shared "
                "noise reveals only their sum"
            )
        if len(names) > MAX_PEERS:
            raise ValueError(
                f"learning.algorithm|expected at most {MAX_PEERS} owners with gossip, because every owner keeps the "
                "parameters of every other owner"
            )
        if isinstance(topology, str):
            return
        if not {end for pair in topology for end in pair} <= {*names}:
            raise ValueError("learning.topology|expected pairs of owners; found a name that no owner has")
        reached = _reachable_owners(names[0], topology)
        away = [name for name in names if name not in reached]
        if away:
            raise ValueError(
                f"learning.topology|expected a connected graph, but no path leads from {names[0]!r} to {away[0]!r}; "
                "add a pair"
            )


class SufficientStatisticsRules(OneRelease):
    """Rules of one release of second moments, from which the learner solves for the model."""

    asks: ClassVar[str] = "statistics"


class FedInferRules(SufficientStatisticsRules):
    """Rules of federated inference: second moments in one round or several, with trust in owners."""

    keys: ClassVar[Mapping[str, str]] = {"owners.trust": "other algorithms weight owners by their records"}
    repeatable: ClassVar[bool] = True

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) terms that tell owners apart when only sums are seen."""
        super().check(terms)
        some = terms.learning.participation is not None or terms.learning.straggler == "skip"
        told_apart = any(owner.trust is not None or owner.stride is not None for owner in terms.owners)
        if terms.noise.summed and (some or told_apart):
            raise ValueError(
                "privacy.noise|expected 'each-owner' with trust, strides, participation or skip, because a sum does "
                "not show whose answers it contains"
            )


class PrivateSGDRules(AlgorithmRules):
    """Rules of private SGD: a round asks a batch, `batches` make an epoch, and the clip may have its own norm."""

    asks: ClassVar[str] = "minibatch"
    keys: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            (f"learning.{key}" for key in ("batches", "epochs", "sampling", "optimiser", "batch_seed")), NO_BATCHES_NOTE
        ),
        "privacy.clip_norm": "the norm in which records are clipped",
        **LOSSES,
    }

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        """Fill in keys that follow from others; errors are reported later."""
        section = super().usual({"horizon": None, **content})
        usual = {"sampling": "partition", "optimiser": "plain"}
        section |= {key: value for key, value in usual.items() if section.get(key) is None}
        seed = section.get("batch_seed")
        if type(seed) is int and seed == 0 and section["sampling"] == "partition":  # what is meant where it is left out
            del section["batch_seed"]
        batches, epochs, horizon = (section.get(key) for key in ("batches", "epochs", "horizon"))
        if horizon is None:
            del section["horizon"]
        if type(batches) is int and batches > 0:
            if type(epochs) is int and horizon is None:
                return {**section, "horizon": epochs * batches}
            if type(horizon) is int and epochs is None and horizon % batches == 0:
                return {**section, "epochs": horizon // batches}
        return section

    def check_learning(self, learning: Learning) -> None:
        """Refuse epochs that do not add up, automatic steps with Adam, and a seed for secret draws."""
        if learning.batches is None:
            raise ValueError("batches|expected a whole number with private-sgd, the number of batches per epoch")
        if learning.epochs is None:
            raise ValueError(
                "epochs|expected a whole number with private-sgd, or a horizon that is a multiple of batches"
            )
        if learning.horizon != learning.epochs * learning.batches:
            raise ValueError(
                f"horizon|expected epochs x batches = {learning.epochs * learning.batches}; write this number, or "
                "remove the key"
            )
        if learning.optimiser == "adam" and learning.step == "auto":
            raise ValueError(
                "step|expected a number with optimiser = 'adam'; 'auto' is available only for other optimisers"
            )
        if learning.poisson and learning.batch_seed is not None:
            raise ValueError(
                "batch_seed|not allowed with sampling = 'poisson', because owners draw their records in secret"
            )

    def tells_heterogeneity(self, norm: str) -> bool:
        return True


class ObjectivePerturbationRules(OneRelease):
    """Rules of objective perturbation: one owner, its own noise, and a loss for which privacy is proved."""

    asks: ClassVar[str] = "minimum"
    clips_gradients: ClassVar[bool] = True
    one_owner: ClassVar[bool] = True

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) several owners, and models or noise without a proof."""
        super().check(terms)
        if not MODELS[terms.model.kind].perturbs:
            able = " or ".join(kind for kind, facts in MODELS.items() if facts.perturbs)
            raise ValueError(
                f"learning.algorithm|objective-perturbation is not available for {terms.model.kind}, only for {able}"
            )
        if len(terms.owners) > 1:
            raise ValueError(
                "learning.algorithm|objective-perturbation is available only for a single owner, which minimises its "
                "own cost"
            )
        if terms.privacy.mechanism != "laplace" or terms.noise.summed:
            raise ValueError(
                "privacy.mechanism|expected 'laplace' and no shared noise with objective-perturbation, whose "
                "guarantee has no delta"
            )


def _reachable_owners(first: str, joined: Edges) -> set[str]:
    near: dict[str, list[str]] = {}
    for one, other in joined:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    reached, ahead = {first}, [first]
    while ahead:
        new = {*near.get(ahead.pop(), ())} - reached
        reached |= new
        ahead += new
    return reached


RULES: Mapping[str, AlgorithmRules] = {
    "averaged-subgradient": AveragedSubgradientRules(),
    "gradient-descent": GradientDescentRules(),
    "federated-averaging": FederatedRules(),
    "fedprox": FedProxRules(),
    "fednova": FederatedRules(),
    "scaffold": ScaffoldRules(),
    "fedlin": FedLinRules(),
    "fedsplit": FedSplitRules(),
    "gossip": GossipRules(),
    "sufficient-statistics": SufficientStatisticsRules(),
    "fedinfer": FedInferRules(),
    "private-sgd": PrivateSGDRules(),
    "objective-perturbation": ObjectivePerturbationRules(),
}
