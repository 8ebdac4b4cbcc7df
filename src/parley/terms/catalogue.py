"""What terms can name (models, algorithms, mechanisms), with the facts that checks of terms need. A new entry is a line
here and a file in `losses/`, `learning/`, `privacy/mechanisms/` or `tasks/`; an algorithm also has rules in
`terms/algorithms.py`."""

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Predicts = Literal["number", "two classes", "classes", "count", "survival"]
Norm = Literal["l1", "l2"]


# what owners do together where terms name nothing else: learn to predict a column from others
PREDICTION = "prediction"


@dataclass(frozen=True)
class TaskFacts:
    """`home`: the module that registers it, loaded when terms name it. `kind` (one of several) and `algorithm`: its
    names in terms. `whole`: a record's parts are held out, never a whole record. `names`: it may release names, which
    needs a delta. `learning`: the module:class of its `[learning]`, if algorithms of predictions have rules of its own
    there."""

    home: str
    kind: str | None = None
    algorithm: str | None = None
    whole: bool = False
    names: bool = False
    learning: str | None = None


@dataclass(frozen=True)
class ModelFacts:
    """`predicts`: the type of target. `penalty`: the default weight of g1. `smooth`: its loss's slope has no jumps.
    `local_updates`: it is known how far one record moves local steps. `perturbs`: objective perturbation is proved
    private. `squared`: second moments determine its loss. `task`: its task. `algorithm`, `mechanism`: defaults.
    `section`: the module:class of its `[model]`, if it has keys of its own; loaded when terms name it."""

    predicts: Predicts
    penalty: float = 0.0
    smooth: bool = True
    local_updates: bool = True
    perturbs: bool = False
    squared: bool = False
    task: str = PREDICTION
    algorithm: str | None = None
    mechanism: str | None = None
    section: str | None = None


@dataclass(frozen=True)
class AlgorithmFacts:
    """`home`: the module with its rules, `ALGORITHM` or for prediction the table `RULES` (`terms.rules`), loaded when
    terms name it. `task`: its task. `also`: other tasks that it can do, each with the module of its `RULES` there."""

    home: str = "parley.terms.algorithms"
    task: str = PREDICTION
    also: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MechanismFacts:
    """`approximate`: its guarantee needs a delta above 0. `norm`: in which values are bounded. `grid`: another
    mechanism's law on whole numbers, so no plan gains by it. `task`: its only task, if any. `studied`: it has no exact
    sampler and no variance, so it is never released or forecast. `section`: the module:class of its `[privacy]`, if it
    has own keys."""

    approximate: bool
    norm: Norm = "l1"
    grid: bool = False
    task: str | None = None
    studied: bool = False
    section: str | None = None


@dataclass(frozen=True)
class NoiseFacts:
    """Where noise is drawn (`privacy.noise`). `summed`: nobody sees an owner's own answer, because exact sums leave in
    shares to `hosts`. `draws`: whole noises in the sum; `paired`: two hosts draw it together. `common`: the smallest
    epsilon holds for all owners. `aborts`: a round may end without an answer. `approximate`: it needs a delta whatever
    the mechanism."""

    summed: bool = False
    hosts: int = 0
    draws: int = 1
    paired: bool = False
    common: bool = False
    aborts: bool = False
    approximate: bool = False


@dataclass(frozen=True)
class SwitchFacts:
    """A key of `[privacy]` that is true or missing and needs three hosts: what it `does`, and its measured `cost`
    (benchmarks/RESULTS.md, sharing.py). The noise is the same."""

    does: str
    cost: str


NOISES = {
    "each-owner": NoiseFacts(),  # every owner adds its own
    # once, by three hosts of whom none knows it
    "shared": NoiseFacts(summed=True, hosts=3, common=True, aborts=True, approximate=True),
}
TWO_HOSTS = replace(NOISES["shared"], hosts=2, draws=2)  # each adds a whole noise of its own
PAIRED_HOSTS = replace(NOISES["shared"], hosts=2, paired=True)  # they draw one together: privacy.draw = "together"
THREE_HOST_SWITCHES = {
    "hosts_may_cheat": SwitchFacts(
        "the hosts verify each other's draws, so that one of them may do anything",
        "a draw sends 10 times the bytes and takes up to 8 times as long",
    ),
    "check_answers": SwitchFacts(
        "the hosts leave out owners whose answers exceed their bounds",
        "each host sends at least 60 more messages per round, and about 200 bytes per number of each owner (2,000 with "
        "both keys)",
    ),
}
UNNAMED_HOSTS = ("host-1", "host-2", "host-3")  # placeholders for who would have to be found
HOST_DELTAS = (1e-9, 1e-6)  # for the random bits of hosts, where the terms promise pure epsilon


def noise_facts(noise: str, hosts: int, paired: bool = False) -> NoiseFacts:
    """Return the facts about noise drawn by so many hosts."""
    facts = NOISES[noise]
    if facts.summed and paired:
        return PAIRED_HOSTS
    return TWO_HOSTS if facts.summed and hosts == TWO_HOSTS.hosts else facts


@dataclass(frozen=True)
class RuleFacts:
    """How answers are combined (`aggregation.rule`). `more`: owners a round must hear beyond twice those that may lie.
    `weighted`: owners count by records, else equally."""

    more: int = 1
    weighted: bool = True


AGGREGATION_RULES = {
    "mean": RuleFacts(),
    "median": RuleFacts(),
    "trimmed-mean": RuleFacts(),
    "krum": RuleFacts(more=3, weighted=False),
    "geometric-median": RuleFacts(),
}

TASKS = {
    PREDICTION: TaskFacts("parley.tasks.prediction"),
    "column-statistics": TaskFacts("parley.tasks.statistics.column_statistics.task", algorithm="scales", names=True),
    "dynamics": TaskFacts("parley.tasks.dynamics.task", "delayed-dynamics", "identification"),
    "ratings": TaskFacts("parley.tasks.ratings.task", "matrix-factorization", "item-factors", whole=True),
    "trees": TaskFacts("parley.tasks.trees.task", "boosted-classification", "boosted-trees"),
    "networks": TaskFacts(
        "parley.tasks.networks.task",
        "network-classification",
        "network-sgd",
        learning="parley.tasks.networks.federated_terms:NetworkLearning",
    ),
    "counts": TaskFacts("parley.tasks.statistics.counts.task", "histogram", "counts"),
    "reservoir": TaskFacts("parley.tasks.dynamics.reservoir.task", "echo-state", "read-out"),
    "joined": TaskFacts("parley.tasks.joined.task", algorithm="joined-moments"),
}

_PLANT = ModelFacts("number", task="dynamics", section="parley.tasks.dynamics.terms:PlantModel", local_updates=False)
_ITEMS = ModelFacts(
    "number",
    penalty=10.0,
    task="ratings",
    algorithm="item-factors",
    section="parley.tasks.ratings.terms:RatingsModel",
    local_updates=False,
)
_TREES = ModelFacts(
    "number",
    task="trees",
    algorithm="boosted-trees",
    section="parley.tasks.trees.terms:TreesModel",
    local_updates=False,
)
_NETWORK = ModelFacts(
    "number",
    task="networks",
    algorithm="network-sgd",
    section="parley.tasks.networks.terms:NetworkModel",
    local_updates=False,
)
_COUNTS = ModelFacts(
    "number",
    task="counts",
    algorithm="counts",
    mechanism="geometric",
    section="parley.tasks.statistics.counts.terms:CellsModel",
    local_updates=False,
)
_ECHO_STATE = ModelFacts(
    "number",
    task="reservoir",
    algorithm="read-out",
    section="parley.tasks.dynamics.reservoir.terms:EchoStateModel",
    local_updates=False,
)
MODELS = {
    "linear-regression": ModelFacts("number", squared=True),
    "linear-svm": ModelFacts("two classes", penalty=1.0, smooth=False),
    "logistic-regression": ModelFacts("two classes", perturbs=True),
    "softmax-regression": ModelFacts("classes", perturbs=True),
    "one-vs-all": ModelFacts("classes", local_updates=False),
    "least-squares-classes": ModelFacts("classes", squared=True),
    "poisson-regression": ModelFacts("count", section="parley.terms.outcomes:CountModel"),
    "survival": ModelFacts("survival", section="parley.terms.outcomes:SurvivalModel", local_updates=False),
    "delayed-dynamics": _PLANT,
    "matrix-factorization": _ITEMS,
    "boosted-classification": replace(_TREES, predicts="two classes"),
    "boosted-regression": _TREES,
    "network-classification": replace(_NETWORK, predicts="classes"),
    "network-regression": _NETWORK,
    "count": _COUNTS,
    "echo-state": _ECHO_STATE,
    "histogram": _COUNTS,
}


def kinds_from_files() -> list[str]:
    """Return the kinds that `parley init` supports: one row per record, one predicted column."""
    return [kind for kind, facts in MODELS.items() if facts.task in (PREDICTION, "trees")]


_ON_NETWORKS_TOO = AlgorithmFacts(also={"networks": "parley.tasks.networks.federated_terms"})
ALGORITHMS = {
    "averaged-subgradient": AlgorithmFacts(),
    "gradient-descent": AlgorithmFacts(),
    "federated-averaging": _ON_NETWORKS_TOO,
    "fedprox": _ON_NETWORKS_TOO,
    "fednova": AlgorithmFacts(),
    "scaffold": AlgorithmFacts(),
    "fedlin": _ON_NETWORKS_TOO,
    "fedsplit": AlgorithmFacts(),
    "gossip": AlgorithmFacts(),
    "sufficient-statistics": AlgorithmFacts(),
    "fedinfer": AlgorithmFacts(),
    "private-sgd": AlgorithmFacts(),
    "objective-perturbation": AlgorithmFacts(),
    "scales": AlgorithmFacts("parley.tasks.statistics.column_statistics.terms", task="column-statistics"),
    "identification": AlgorithmFacts("parley.tasks.dynamics.terms", task="dynamics"),
    "item-factors": AlgorithmFacts("parley.tasks.ratings.terms", task="ratings"),
    "boosted-trees": AlgorithmFacts("parley.tasks.trees.terms", task="trees"),
    "network-sgd": AlgorithmFacts("parley.tasks.networks.terms", task="networks"),
    "correlated-sgd": AlgorithmFacts("parley.tasks.networks.correlated_terms", task="networks"),
    "counts": AlgorithmFacts("parley.tasks.statistics.counts.terms", task="counts"),
    "read-out": AlgorithmFacts("parley.tasks.dynamics.reservoir.terms", task="reservoir"),
    "joined-moments": AlgorithmFacts("parley.tasks.joined.terms", task="joined"),
}

MECHANISMS = {
    "laplace": MechanismFacts(approximate=False),
    "gaussian": MechanismFacts(approximate=True, norm="l2"),
    "geometric": MechanismFacts(approximate=False, grid=True),
}

_ON_RATINGS = MechanismFacts(approximate=False, task="ratings", section="parley.tasks.ratings.terms:RatingNoisePrivacy")
# that change ratings themselves, before anything is learned from them
RATING_MECHANISMS = dict.fromkeys(("bounded-ratings", "unbounded-ratings", "hide"), _ON_RATINGS)
RESPONSE_MECHANISMS = {  # by which every record answers for itself
    "randomised-response": MechanismFacts(approximate=False, task="counts"),
}
STUDY_MECHANISMS = {  # for studies alone
    "stable": MechanismFacts(approximate=True, norm="l2", studied=True),
}
ALL_MECHANISMS = ChainMap(RATING_MECHANISMS, RESPONSE_MECHANISMS, STUDY_MECHANISMS, MECHANISMS)
