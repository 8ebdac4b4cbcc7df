"""The sections of the terms: every key, its type and range, and what the keys of one section say about each other."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, NoReturn, Self, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from parley.terms.catalogue import ALGORITHMS, MECHANISMS, MODELS, AlgorithmFacts, Task
from parley.terms.columns import Coding, Missing, Name, Transform, domain, is_defined
from parley.terms.plant import DYNAMICS, check_plant
from parley.terms.topology import Edges, read_topology
from parley.validate import LARGEST, SMALLEST, in_range

Facts = TypeVar("Facts")

RANGE = f"from {SMALLEST:g} to {LARGEST:g}"


def _bearable(expected: str) -> AfterValidator:
    def check(size: float) -> float:
        if not in_range(size):
            raise PydanticCustomError("magnitude", "{expected}", {"expected": expected})
        return size

    return AfterValidator(check)


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True), _bearable(f"a number {RANGE}")]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True), _bearable(f"0, or a number {RANGE}")]
Count = Annotated[int, Field(ge=1, le=10**15, strict=True)]
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Bearable = Annotated[Finite, _bearable(f"0, or a number {RANGE} in size")]
Interval = tuple[Finite, Finite]


def _digits(value: Any) -> Any:
    """A fingerprint as it is printed, without the blanks between its groups."""
    return "".join(value.split()).lower() if isinstance(value, str) else value


Fingerprint = Annotated[str, BeforeValidator(_digits), Field(pattern=r"^[0-9a-f]{64}$", strict=True)]  # of a key

PARTY = r"^[A-Za-z0-9_-]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$"  # what an owner may be called, and anybody on the wire

EACH_OWNER: Literal["each-owner"] = "each-owner"  # where noise is drawn: every owner adds its own
SHARED: Literal["shared"] = "shared"  # once, for the sum of all answers, by hosts of whom none knows it
HOSTS = 3  # that draw it

SURVEY_ROUNDS = 2  # of `scales`: how large values are, then how they are spread within that
LOCAL_STEPS = 5  # of federated averaging and its kin, where the terms do not say
BATCHES = ("batches", "epochs", "sampling", "optimiser", "batch_seed")  # keys of private-sgd alone


def _one_of(known: Collection[str]) -> AfterValidator:
    """A name from the catalogue."""

    def check(name: str) -> str:
        if name not in known:
            *others, last = (repr(each) for each in known)
            expected = " or ".join([", ".join(others), last]) if others else last
            raise PydanticCustomError("one_of", "{expected}", {"expected": expected})
        return name

    return AfterValidator(check)


def _looked_up(known: Mapping[str, Facts], name: Any) -> Facts | None:
    """What the catalogue says of a name; None for what is not one, which is refused later, in words."""
    return known.get(name) if isinstance(name, str) else None


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> NoReturn:
        """Refused: a copy would not be checked, and would keep the hash of what it was copied from."""
        raise TypeError("terms are changed with Terms.changed(...), which checks them")


class Basis(Section):
    """Features by how near a record is to some public points: exp(-|x - c|^2/(2 width^2)), in the units of scaled columns."""

    points: Count | tuple[tuple[Bearable, ...], ...]  # how many are drawn, or they themselves in the features' own units
    width: Positive
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] = 0

    @model_validator(mode="after")
    def _some(self) -> Self:
        if isinstance(self.points, tuple) and (not self.points or len({len(point) for point in self.points}) > 1):
            raise ValueError("points|expected a number, or points with a number for each feature")
        return self


class Model(Section):
    """What is learned, from which columns."""

    kind: Annotated[str, Field(strict=True), _one_of(MODELS)]
    target: Name
    features: tuple[Name, ...] | None = None
    regularisation: NonNegative | None = None
    class_weight: dict[Name, Positive] = Field(default_factory=dict)
    radius: Positive | None = None
    bounds: dict[Name, Interval] = Field(default_factory=dict)
    categories: dict[Name, tuple[Name, ...]] = Field(default_factory=dict)
    coding: Coding = "integer"
    missing: Missing = "refuse"
    transforms: dict[Name, Transform] = Field(default_factory=dict)
    positive: Name | None = None
    centres: dict[Name, Bearable] = Field(default_factory=dict)
    scales: dict[Name, Positive] = Field(default_factory=dict)
    public: str | None = None
    public_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    components: Count | None = None
    whitening: Literal["public"] | None = None
    basis: Basis | None = None
    holdout: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.0
    intercept: Annotated[bool, Field(strict=True)] | None = None
    states: tuple[Name, ...] | None = None  # from here on: of a plant, learned from trajectories
    inputs: tuple[Name, ...] | None = None
    trajectory: Name | None = None
    period: Positive | None = None
    max_delay: Annotated[int, Field(ge=1, le=1000, strict=True)] | None = None
    samples: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_trajectories(cls, content: Any) -> Any:
        """A plant has no target; what tells its records apart stands in its place, and its columns are states and inputs."""
        if not isinstance(content, dict) or content.get("kind") != DYNAMICS or not isinstance(content.get("trajectory"), str):
            return content
        if {"target", "features"} & content.keys() and content.get("target") != content["trajectory"]:
            raise ValueError("target|expected none for a plant, and no features: its columns are states and inputs")
        return {**content, "target": content["trajectory"]}

    @property
    def task(self) -> Task:
        """What the target is."""
        return MODELS[self.kind].task

    @property
    def classifies(self) -> bool:
        return self.task != "number"

    @property
    def smooth(self) -> bool:
        """Whether the slope of the loss has no jumps."""
        return MODELS[self.kind].smooth

    @property
    def has_intercept(self) -> bool:
        """Whether a constant 1 is appended; left out: classifiers yes, regression no (W section II)."""
        return self.classifies if self.intercept is None else self.intercept

    @property
    def largest_weight(self) -> float:
        """The most that one record's loss counts."""
        weights = list(self.class_weight.values())
        every_class = self.task == "two classes" and len(weights) == 2
        return max(weights if every_class else [1.0, *weights])

    @property
    def penalty(self) -> float:
        """Weight of g1 = 0.5 |theta|^2; left out: 1 for the SVM as in W, else 0."""
        return MODELS[self.kind].penalty if self.regularisation is None else self.regularisation

    def fills(self, column: str) -> bool:
        """Whether a missing cell of this column counts as one, instead of being refused. The target's never does."""
        if column == self.target:
            return False
        return self.missing == "fill" if isinstance(self.missing, str) else column in self.missing

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_plant(self)
        if self.features is not None:
            if not self.features:
                raise ValueError("features|expected at least one column; leave the key out for every numeric column")
            if len(set(self.features)) < len(self.features):
                raise ValueError("features|expected each column once")
            if self.target in self.features:
                raise ValueError(f"features|expected columns other than the target {self.target!r}")
        for column, (low, high) in self.bounds.items():
            if not low < high:
                raise ValueError(f"bounds.{column}|expected [low, high] with low < high")
            if not (in_range(low) and in_range(high) and high - low >= SMALLEST):
                raise ValueError(
                    f"bounds.{column} = [{low}, {high}]|expected ends that are 0 or {RANGE} in size, at least {SMALLEST:g} apart"
                )
        for column, names in self.categories.items():
            if len(set(names)) < max(len(names), 1):
                raise ValueError(f"categories.{column}|expected a list of different names")
        if self.class_weight and not self.classifies:
            raise ValueError("class_weight|expected only with a classifier")
        if self.task == "two classes" and not {*self.class_weight} <= {"0", "1"}:
            raise ValueError("class_weight|expected the classes '0' and '1' as its keys")
        if self.components is not None and self.public is None:
            raise ValueError("components|expected a `public` sample beside it: PCA never touches private data")
        self._can_read()
        self._can_scale()
        if self.whitening is not None and (self.public is None or self.components is not None):
            raise ValueError("whitening|expected a `public` sample beside it, whose second moments it takes, and no `components`")
        return self

    def _can_scale(self) -> None:
        """Refuse centres and scales of columns that a public sample, or nothing, is scaled by."""
        for key, given in (("centres", self.centres), ("scales", self.scales)):
            if given and self.public is not None:
                raise ValueError(f"{key}|expected none beside a `public` sample: it says how columns are centred and scaled")
            for column in given:
                if column in self.categories and (self.coding == "one-hot" or self.classifies):
                    raise ValueError(f"{key}.{column}|expected a column of numbers, not one of categories")
                if column == self.target and (self.classifies or not self.has_intercept):
                    raise ValueError(f"{key}.{column}|expected a feature, or the target of a regression with an intercept")

    def _can_read(self) -> None:
        """Refuse columns that cannot be read as the terms say."""
        if isinstance(self.missing, dict) and self.target in self.missing:
            raise ValueError(f"missing.{self.target}|expected none for the target: a record without one teaches nothing")
        for column, transform in self.transforms.items():
            if column == self.target:
                raise ValueError(f"transforms.{column}|expected a feature: predictions are in the target's own units")
            if column in self.categories:
                raise ValueError(f"transforms.{column}|expected a column of numbers, not one of categories")
            if column in self.bounds and not is_defined(transform, self.bounds[column][0]):
                raise ValueError(
                    f"bounds.{column}|expected a low end {domain(transform)} beside transforms.{column} = {transform!r}"
                )
        for column in self.categories:
            if self.coding == "one-hot" and column in self.bounds and column != self.target:
                raise ValueError(f"bounds.{column}|expected none beside coding = 'one-hot': each category is a column of 0 and 1")
        if self.positive is None:
            return
        if self.task != "two classes":
            raise ValueError("positive|expected only with a model of two classes: it names the class that counts as 1")
        classes = self.categories.get(self.target)
        if classes is not None and (len(classes) != 2 or self.positive not in classes):
            raise ValueError(
                f"categories.{self.target}|expected two names beside positive, of which it is one, or leave the key out"
            )


class Learning(Section):
    """Who computes what, for how many rounds."""

    algorithm: Annotated[str, Field(strict=True), _one_of(ALGORITHMS)] = "averaged-subgradient"
    horizon: Count = 100
    local_steps: Count | None = None
    proximal: Positive | None = None
    variates: Literal["walks", "gradients"] | None = None  # None: walks, or nothing to choose
    topology: Annotated[str | Edges, BeforeValidator(read_topology)] | None = None
    batches: Count | None = None
    epochs: Count | None = None
    sampling: Literal["partition", "poisson"] | None = None
    optimiser: Literal["plain", "momentum", "adam"] | None = None
    batch_seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] | None = None
    average: Literal["last", "tail", "all"] | None = None  # None: the algorithm's own
    decay: Annotated[float, Field(ge=0, le=1, strict=True)] | None = None  # None: the algorithm's own
    momentum: Annotated[float, Field(gt=0, lt=1, strict=True)] | None = None
    start: Literal["zero", "public"] | None = None  # None: zero
    step: Positive | Literal["auto"] = "auto"
    learner: Name = "learner"
    participation: Share | None = None
    participation_seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] | None = None
    quorum: Count | None = None
    straggler: Literal["wait", "skip", "stop"] = "wait"

    @property
    def facts(self) -> AlgorithmFacts:
        """What the catalogue says of the algorithm."""
        return ALGORITHMS[self.algorithm]

    @property
    def poisson(self) -> bool:
        """Whether owners draw each round's records in secret."""
        return self.sampling == "poisson"

    @property
    def paired(self) -> bool:
        """Whether a step takes two answers: a gradient in every odd round, a walk in every even one."""
        return self.facts.paired or self.variates == "gradients"

    @property
    def pace(self) -> int:
        """How many rounds make a step."""
        return 2 if self.paired else 1

    def epoch(self, number: int) -> int:
        """Which epoch a round belongs to, from 0; where there are none, every round is one."""
        return (number - 1) // (self.batches or 1)

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        facts = _looked_up(ALGORITHMS, content.get("algorithm", "averaged-subgradient")) or AlgorithmFacts("gradient")
        said = {
            ("batch", "full"),
            ("start", "zero"),
            ("average", facts.average),
            ("variates", "walks" if facts.variates else None),
        }  # what older files say, and what need not be said
        kept = {key: value for key, value in content.items() if not isinstance(value, str) or (key, value) not in said}
        if facts.solves:
            return {"horizon": 1, **kept}
        if facts.surveys:
            return {"horizon": SURVEY_ROUNDS, **kept}
        if facts.walks:
            return {**kept, "local_steps": LOCAL_STEPS if kept.get("local_steps") is None else kept["local_steps"]}
        return _usual_batches(kept) if facts.samples else kept

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.facts.solves and self.step != "auto":
            raise ValueError("step|expected none: what is released once is solved, not stepped towards")
        if self.facts.solves and not self.facts.repeats and self.horizon != 1:
            raise ValueError("horizon|expected 1: this algorithm releases once; repeating it under one budget is never better")
        if self.facts.surveys and (self.horizon != SURVEY_ROUNDS or self.step != "auto" or self.straggler == "skip"):
            raise ValueError(f"algorithm|expected horizon = {SURVEY_ROUNDS}, no step and nobody skipped beside 'scales'")
        if self.local_steps is not None and not self.facts.walks:
            raise ValueError(
                "local_steps|expected only with algorithm = 'federated-averaging' or its kin: other algorithms ask for gradients"
            )
        self._can_walk()
        self._can_batch()
        if self.average is not None and self.facts.average is None:
            raise ValueError("average|expected only with 'gradient-descent' or 'averaged-subgradient'")
        for key in ("decay", "momentum"):
            if getattr(self, key) is not None and self.algorithm != "gradient-descent":
                raise ValueError(f"{key}|expected only with algorithm = 'gradient-descent'")
        if self.start is not None and self.facts.solves:
            raise ValueError("start|expected none: statistics are solved, not stepped towards")
        if self.participation_seed is not None and self.participation is None:
            raise ValueError("participation_seed|expected only beside participation, whose draw it decides")
        return self

    def _can_walk(self) -> None:
        """Refuse pulls and control variates where there are none, and half a step at the end."""
        if (self.proximal is not None) is not self.facts.pulls:
            expected = "a number beside it" if self.facts.pulls else "only with algorithm = 'fedprox' or 'fedsplit'"
            raise ValueError(f"proximal|expected {expected}: the weight of the pull towards where a walk began")
        if self.variates is not None and not self.facts.variates:
            raise ValueError("variates|expected only with algorithm = 'scaffold'")
        if self.paired and self.horizon % 2:
            raise ValueError("horizon|expected an even number: a step takes two answers, a gradient and a walk")

    def _can_batch(self) -> None:
        """Refuse batches where records are not taken in batches, and epochs that do not add up."""
        if not self.facts.samples:
            given = [key for key in BATCHES if getattr(self, key) is not None]
            if given:
                raise ValueError(
                    f"{given[0]}|expected only with algorithm = 'private-sgd': other algorithms ask all records a round"
                )
            return
        if self.batches is None:
            raise ValueError("batches|expected a whole number beside private-sgd: how many batches make an epoch")
        if self.epochs is None:
            raise ValueError("epochs|expected a whole number beside private-sgd, or a horizon that is a multiple of batches")
        if self.horizon != self.epochs * self.batches:
            raise ValueError(f"horizon|expected epochs x batches = {self.epochs * self.batches}, or leave the key out")
        if self.optimiser == "adam" and self.step == "auto":
            raise ValueError("step|expected a number beside optimiser = 'adam': its steps are lengths in the parameters' own units")
        if self.poisson and self.batch_seed is not None:
            raise ValueError("batch_seed|expected none beside sampling = 'poisson': owners draw in secret")


def _usual_batches(kept: dict[str, Any]) -> dict[str, Any]:
    """What follows from the keys of private-sgd that are there; what is wrong with them is said later."""
    usual = {"sampling": "partition", "optimiser": "plain"}
    content = {**kept, **{key: value for key, value in usual.items() if kept.get(key) is None}}
    if content.get("horizon") is None:
        content.pop("horizon", None)
    seed = content.get("batch_seed")
    if (
        type(seed) is int and seed == 0 and content["sampling"] == "partition"
    ):  # what is meant where it is left out: one hash for both
        del content["batch_seed"]
    batches, epochs, horizon = (kept.get(key) for key in ("batches", "epochs", "horizon"))
    if type(batches) is int and batches > 0:
        if type(epochs) is int and horizon is None:
            return {**content, "horizon": epochs * batches}
        if type(horizon) is int and epochs is None and horizon % batches == 0:
            return {**content, "epochs": horizon // batches}
    return content


class Privacy(Section):
    """What each owner promises every person in its table."""

    mechanism: Annotated[str, Field(strict=True), _one_of(MECHANISMS)] = "laplace"
    clip: Positive | None = None
    clip_norm: Literal["l1", "l2", "linf"] | None = None  # None: the mechanism's
    delta: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.0
    shared_records: Count = 1
    records_per_person: Count = 1
    person: Name | None = None
    score_epsilon: Positive | None = None
    scale_epsilon: Positive | None = None
    difference_epsilon: Positive | None = None
    noise: Literal["each-owner", "shared"] = EACH_OWNER

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        """The mechanism's own norm need not be said: terms that say it have the hash of those that do not. Capitals do not count."""
        if not isinstance(content, dict) or not isinstance(norm := content.get("clip_norm"), str):
            return content
        facts = _looked_up(MECHANISMS, content.get("mechanism", "laplace"))
        rest = {key: value for key, value in content.items() if key != "clip_norm"}
        return rest if facts is not None and norm.lower() == facts.norm else {**rest, "clip_norm": norm.lower()}

    @model_validator(mode="after")
    def _enforceable(self) -> Self:
        noise, approximate = self.mechanism.capitalize(), MECHANISMS[self.mechanism].approximate
        if self.noise == SHARED and not self.delta > 0:
            raise ValueError(
                "delta|expected a number above 0 (such as 1e-6): hosts draw shared noise from finitely many random bits"
            )
        if approximate and not self.delta > 0:
            raise ValueError(f"delta|expected a number above 0 (such as 1e-6): {noise} noise has no guarantee without")
        if self.records_per_person > 1 and self.person is None:
            raise ValueError("records_per_person|expected `person` beside it: the column that tells people apart")
        return self


class PrivacyCost(Section):
    """How an owner prices what it gives away (read when owners negotiate)."""

    kind: Literal["linear", "exponential", "posterior"]
    weight: NonNegative


class OwnerTerms(Section):
    """One owner's part of the agreement. `data` is for runs on one machine; a deployed owner keeps it to itself."""

    name: Annotated[str, Field(pattern=PARTY, strict=True)]
    records: Count
    epsilon: Positive
    stride: Count | None = None
    trust: Positive | None = None  # None: 1
    local_steps: Count | None = None  # None: as `learning` says
    step: Positive | None = None
    value: NonNegative | None = None
    privacy_cost: PrivacyCost | None = None
    data: str | None = None


class Host(Section):
    """One of three parties that add up the owners' shares and draw the noise; it may be an owner, or the learner.

    With `key`, the fingerprint that `parley certs show` prints, it is known by its key: whatever the authority signs, nobody else is it.
    """

    name: Annotated[str, Field(pattern=PARTY, strict=True)]
    key: Fingerprint | None = None
