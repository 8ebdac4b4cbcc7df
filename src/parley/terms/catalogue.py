"""What terms can name - models, algorithms, mechanisms - and the few facts about each that checks of terms need.

Everything else about them lives where it is computed: `losses/`, `learning/`, `privacy/mechanisms/`, and for tasks other than prediction in
a wing of its own, `tasks/`. A new one is a line here and a file there.
"""

from collections import ChainMap
from dataclasses import dataclass
from typing import Literal

Predicts = Literal["number", "two classes", "classes"]
Norm = Literal["l1", "l2"]


PREDICTION = "prediction"  # what owners do together where terms name nothing else: learn to predict a column from others


@dataclass(frozen=True)
class TaskFacts:
    """`home`: the package of the wing, whose `terms` says what terms must hold and whose `task` does the rest; both are loaded when
    terms name it. `kind` and `algorithm`: what terms call it; `keys`: of `[model]`, read by it alone; `whole`: whether a record's own parts
    are held out, and no record as a whole; `names`: whether it may release names, which needs a delta whatever the noise."""

    home: str
    kind: str | None = None
    algorithm: str | None = None
    keys: tuple[str, ...] = ()
    whole: bool = False
    names: bool = False


@dataclass(frozen=True)
class ModelFacts:
    """`predicts`: what the target is; `penalty`: the usual weight of g1; `smooth`: whether the slope of its loss has no jumps; `walks`:
    whether it is known how far one record moves a local walk on it; `perturbs`: what a random slope in its cost hides; `squared`: whether
    second moments say everything about its loss; `task`: what it is for; `algorithm`: the one that need not be named beside it."""

    predicts: Predicts
    penalty: float = 0.0
    smooth: bool = True
    walks: bool = True
    perturbs: bool = False
    squared: bool = False
    task: str = PREDICTION
    algorithm: str | None = None


@dataclass(frozen=True)
class AlgorithmFacts:
    """`asks`: the kind of question, as its query names it. `task`: what it is for. `rounds`: how many it takes where the terms do not say.

    `samples`: a round asks a batch of the records, `batches` of which make an epoch. `solves`: one answer of everybody is enough,
    so there is one round and no step; the loss must be squared, unless it `perturbs`: then a single owner minimises the cost
    itself; `repeats`: it may be asked in several rounds all the same, whose answers are averaged. `walks`: owners take
    `local_steps` of their own, within a box, on a smooth loss; `pulls`: they are held back by `proximal`; `corrects`: each owner
    has a question of its own, made of what it answered before; `variates`: the terms may say what those corrections are made of;
    `paired`: a step takes two answers, a gradient and a walk. `mixes`: there is no centre; every owner has a point of its own, and
    the terms say who hears whom. `unit_step`: the power of T by which the step of the first round is
    shorter than the terms' `step`. `average`: which iterates make the model where the terms do not say; None: they cannot.
    `arrives`: answers may be used one by one, as they come.
    """

    asks: str
    solves: bool = False
    repeats: bool = False
    perturbs: bool = False
    walks: bool = False
    pulls: bool = False
    corrects: bool = False
    variates: bool = False
    paired: bool = False
    mixes: bool = False
    samples: bool = False
    unit_step: int = 0
    arrives: bool = False
    average: str | None = None
    task: str = PREDICTION
    rounds: int | None = None

    @property
    def usual_rounds(self) -> int:
        """The horizon where the terms name none."""
        return self.rounds or (1 if self.solves else 100)


@dataclass(frozen=True)
class MechanismFacts:
    """`approximate`: whether its guarantee needs a delta above 0; `norm`: in which it needs values bounded; `grid`: whether it is
    another mechanism's law on whole numbers, so that no plan gains by it; `task`: what alone it is for, if anything."""

    approximate: bool
    norm: Norm = "l1"
    grid: bool = False
    task: str | None = None


@dataclass(frozen=True)
class NoiseFacts:
    """Where noise is drawn, `privacy.noise`. `summed`: nobody sees an owner's own answer, for exact sums leave in
    shares to `hosts`; `common`: one epsilon, the smallest, holds for all owners; `aborts`: a round may end without an
    answer; `approximate`: whether it needs a delta whatever the mechanism."""

    summed: bool = False
    hosts: int = 0
    common: bool = False
    aborts: bool = False
    approximate: bool = False


NOISES = {
    "each-owner": NoiseFacts(),  # every owner adds its own
    "shared": NoiseFacts(summed=True, hosts=3, common=True, aborts=True, approximate=True),  # once, by hosts of whom none knows it
}

TASKS = {
    PREDICTION: TaskFacts("parley.learning"),
    "column-statistics": TaskFacts("parley.tasks.column_statistics", algorithm="scales", names=True),
    "dynamics": TaskFacts(
        "parley.tasks.dynamics",
        kind="delayed-dynamics",
        algorithm="identification",
        keys=("states", "inputs", "trajectory", "period", "max_delay", "samples"),
    ),
    "ratings": TaskFacts(
        "parley.tasks.ratings",
        kind="matrix-factorization",
        algorithm="item-factors",
        keys=("user", "item", "items", "factors", "seed"),
        whole=True,
    ),
}

MODELS = {
    "linear-regression": ModelFacts("number", squared=True),
    "linear-svm": ModelFacts("two classes", penalty=1.0, smooth=False),
    "logistic-regression": ModelFacts("two classes", perturbs=True),
    "softmax-regression": ModelFacts("classes", perturbs=True),
    "one-vs-all": ModelFacts("classes", walks=False),
    "least-squares-classes": ModelFacts("classes", squared=True),
    "delayed-dynamics": ModelFacts("number", walks=False, task="dynamics"),
    "matrix-factorization": ModelFacts("number", penalty=10.0, walks=False, task="ratings", algorithm="item-factors"),
}

ALGORITHMS = {
    "averaged-subgradient": AlgorithmFacts("gradient", average="all"),
    "gradient-descent": AlgorithmFacts("gradient", unit_step=2, arrives=True, average="last"),
    "federated-averaging": AlgorithmFacts("update", walks=True),
    "fedprox": AlgorithmFacts("update", walks=True, pulls=True),
    "fednova": AlgorithmFacts("update", walks=True),
    "scaffold": AlgorithmFacts("corrected", walks=True, corrects=True, variates=True),
    "fedlin": AlgorithmFacts("corrected", walks=True, corrects=True, paired=True),
    "fedsplit": AlgorithmFacts("corrected", walks=True, corrects=True, pulls=True),
    "gossip": AlgorithmFacts("gradient", mixes=True),
    "sufficient-statistics": AlgorithmFacts("statistics", solves=True),
    "fedinfer": AlgorithmFacts("statistics", solves=True, repeats=True),
    "private-sgd": AlgorithmFacts("minibatch", samples=True),
    "objective-perturbation": AlgorithmFacts("minimum", solves=True, perturbs=True),
    "scales": AlgorithmFacts("scales", task="column-statistics", rounds=2),
    "identification": AlgorithmFacts("trajectories", solves=True, task="dynamics"),
    "item-factors": AlgorithmFacts("item-factors", task="ratings", rounds=20),
}

MECHANISMS = {
    "laplace": MechanismFacts(approximate=False),
    "gaussian": MechanismFacts(approximate=True, norm="l2"),
    "geometric": MechanismFacts(approximate=False, grid=True),
}

RATING_MECHANISMS = {  # that change ratings themselves, before anything is learned from them
    "bounded-ratings": MechanismFacts(approximate=False, task="ratings"),
    "unbounded-ratings": MechanismFacts(approximate=False, task="ratings"),
    "hide": MechanismFacts(approximate=False, task="ratings"),
}
ALL_MECHANISMS = ChainMap(RATING_MECHANISMS, MECHANISMS)
