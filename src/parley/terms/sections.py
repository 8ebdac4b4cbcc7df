"""The sections of the terms beside `[model]`: every key, its type and range, and what the keys of one section say about each other."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from parley.terms.catalogue import ALGORITHMS, ALL_MECHANISMS, AlgorithmFacts
from parley.terms.columns import Name
from parley.terms.keys import Count, NonNegative, Positive, Section, Share, looked_up, one_of
from parley.terms.topology import Edges, read_topology


def _digits(value: Any) -> Any:
    """A fingerprint as it is printed, without the blanks between its groups."""
    return "".join(value.split()).lower() if isinstance(value, str) else value


Fingerprint = Annotated[str, BeforeValidator(_digits), Field(pattern=r"^[0-9a-f]{64}$", strict=True)]  # of a key

PARTY = r"^[A-Za-z0-9_-]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$"  # what an owner may be called, and anybody on the wire

EACH_OWNER: Literal["each-owner"] = "each-owner"  # where noise is drawn: every owner adds its own
SHARED: Literal["shared"] = "shared"  # once, for the sum of all answers, by hosts of whom none knows it
HOSTS = 3  # that draw it

LOCAL_STEPS = 5  # of federated averaging and its kin, where the terms do not say
BATCHES = ("batches", "epochs", "sampling", "optimiser", "batch_seed")  # keys of private-sgd alone


class Learning(Section):
    """Who computes what, for how many rounds."""

    algorithm: Annotated[str, Field(strict=True), one_of(ALGORITHMS)] = "averaged-subgradient"
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
    staleness: Annotated[int, Field(ge=0, le=10**9, strict=True)] | None = None  # None: rounds wait for everybody

    @property
    def facts(self) -> AlgorithmFacts:
        """What the catalogue says of the algorithm."""
        return ALGORITHMS[self.algorithm]

    @property
    def waits(self) -> bool:
        """Whether rounds wait for everybody whom they ask; else answers are used as they come."""
        return self.staleness is None

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
        facts = looked_up(ALGORITHMS, content.get("algorithm", "averaged-subgradient")) or AlgorithmFacts("gradient")
        said = {
            ("batch", "full"),
            ("start", "zero"),
            ("average", facts.average),
            ("variates", "walks" if facts.variates else None),
        }  # what older files say, and what need not be said
        kept = {key: value for key, value in content.items() if not isinstance(value, str) or (key, value) not in said}
        if facts.samples:
            return _usual_batches(kept)
        steps = {"local_steps": LOCAL_STEPS if kept.get("local_steps") is None else kept["local_steps"]} if facts.walks else {}
        return {"horizon": facts.usual_rounds, **kept, **steps}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.facts.solves and self.step != "auto":
            raise ValueError("step|expected none: what is released once is solved, not stepped towards")
        if self.facts.solves and not self.facts.repeats and self.horizon != 1:
            raise ValueError("horizon|expected 1: this algorithm releases once; repeating it under one budget is never better")
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

    mechanism: Annotated[str, Field(strict=True), one_of(ALL_MECHANISMS)] = "laplace"
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
    rating_scale: Literal["sound", "published"] | None = None  # of noise on ratings themselves; None: sound

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        """The mechanism's own norm need not be said: terms that say it have the hash of those that do not. Capitals do not count."""
        if not isinstance(content, dict) or not isinstance(norm := content.get("clip_norm"), str):
            return content
        facts = looked_up(ALL_MECHANISMS, content.get("mechanism", "laplace"))
        rest = {key: value for key, value in content.items() if key != "clip_norm"}
        return rest if facts is not None and norm.lower() == facts.norm else {**rest, "clip_norm": norm.lower()}

    @model_validator(mode="after")
    def _enforceable(self) -> Self:
        noise, approximate = self.mechanism.capitalize(), ALL_MECHANISMS[self.mechanism].approximate
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
    answers: Count | None = None  # None: as many as `learning.horizon`; asynchronous rounds only
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
