"""The sections of the terms beside `[model]`: every key, its type and range, and what the keys of one section say about
each other."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from parley.terms.catalogue import AGGREGATION_RULES, ALGORITHMS, ALL_MECHANISMS
from parley.terms.columns import Name
from parley.terms.keys import Count, NonNegative, Positive, Section, Share, looked_up, one_of
from parley.terms.rules import AlgorithmRules, algorithm_rules, named_algorithm, require_read
from parley.terms.study_noise import check_alpha
from parley.terms.topology import Edges, read_topology


def _digits(value: Any) -> Any:
    """A fingerprint as it is printed, without the blanks between its groups."""
    return "".join(value.split()).lower() if isinstance(value, str) else value


Fingerprint = Annotated[str, BeforeValidator(_digits), Field(pattern=r"^[0-9a-f]{64}$", strict=True)]  # of a key

PARTY = r"^[A-Za-z0-9_-]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$"  # what an owner may be called, and anybody on the wire

EACH_OWNER: Literal["each-owner"] = "each-owner"  # where noise is drawn: every owner adds its own
SHARED: Literal["shared"] = "shared"  # once, for the sum of all answers, by hosts of whom none knows it
RECORD: Literal["record"] = "record"  # whom a guarantee is about: one person's rows
OWNER: Literal["owner"] = "owner"  # an owner's whole table

USUAL_ALGORITHM = "averaged-subgradient"


class Learning(Section):
    """Who computes what, for how many rounds."""

    algorithm: Annotated[str, Field(strict=True), one_of(ALGORITHMS)] = USUAL_ALGORITHM
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
    top_k: Count | None = None  # numbers of a released gradient that travel; None: all

    @property
    def rules(self) -> AlgorithmRules:
        """What the algorithm says of its keys, and to other rooms."""
        return algorithm_rules(self.algorithm)

    @property
    def waits(self) -> bool:
        """Whether rounds wait for everybody whom they ask; else answers are used as they come."""
        return self.staleness is None

    @property
    def poisson(self) -> bool:
        """Whether owners draw each round's records in secret."""
        return self.sampling == "poisson"

    @property
    def pace(self) -> int:
        """The number of rounds that make one step of the algorithm."""
        return self.rules.rounds_a_step(self)

    @property
    def paired(self) -> bool:
        """Whether a step takes two answers: a gradient in every odd round, a local update in every even one."""
        return self.pace == 2

    def epoch(self, number: int) -> int:
        """Which epoch a round belongs to, from 0; where there are none, every round is one."""
        return (number - 1) // (self.batches or 1)

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        return (
            named_algorithm(content.get("algorithm", USUAL_ALGORITHM)).usual(content)
            if isinstance(content, dict)
            else content
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        require_read(self.rules, "learning", self)
        self.rules.check_learning(self)
        if self.participation_seed is not None and self.participation is None:
            raise ValueError("participation_seed|expected only beside participation, whose draw it decides")
        return self


class Privacy(Section):
    """What each owner promises every person in its table."""

    mechanism: Annotated[str, Field(strict=True), one_of(ALL_MECHANISMS)] = "laplace"
    alpha: Annotated[float, Field(ge=1, le=1.9999, strict=True)] | None = None  # of stable noise
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
    unit: Literal["record", "owner"] = RECORD
    rating_scale: Literal["sound", "published"] | None = None  # of noise on ratings themselves; None: sound

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        """The mechanism's own norm need not be said: terms that say it have the hash of those that do not. Capitals do
        not count."""
        if not isinstance(content, dict) or not isinstance(norm := content.get("clip_norm"), str):
            return content
        facts = looked_up(ALL_MECHANISMS, content.get("mechanism", "laplace"))
        rest = {key: value for key, value in content.items() if key != "clip_norm"}
        return rest if facts is not None and norm.lower() == facts.norm else {**rest, "clip_norm": norm.lower()}

    @model_validator(mode="after")
    def _enforceable(self) -> Self:
        noise, approximate = self.mechanism.capitalize(), ALL_MECHANISMS[self.mechanism].approximate
        check_alpha(self.mechanism, self.alpha)
        if self.noise == SHARED and not self.delta > 0:
            raise ValueError(
                "delta|expected a number above 0 (such as 1e-6): hosts draw shared noise from finitely many random bits"
            )
        if approximate and not self.delta > 0:
            raise ValueError(f"delta|expected a number above 0 (such as 1e-6): {noise} noise has no guarantee without")
        if self.records_per_person > 1 and self.person is None:
            raise ValueError("records_per_person|expected `person` beside it: the column that tells people apart")
        return self


class Aggregation(Section):
    """How the learner makes one answer of the owners', where some of them may lie."""

    rule: Annotated[str, Field(strict=True), one_of(AGGREGATION_RULES)] = "mean"
    byzantine: Count = 1  # f: how many owners may answer whatever they like
    # how far apart honest owners' exact answers to one question lie at most, in any number; None: nobody says
    spread: Positive | None = None


class PrivacyCost(Section):
    """How an owner prices what it gives away (read when owners negotiate)."""

    kind: Literal["linear", "exponential", "posterior", "min-entropy", "mutual-information"]
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
    """One of three parties, or two, that add up the owners' shares and draw the noise; it may be an owner, or the
    learner.

    With `key`, the fingerprint that `parley certs show` prints, it is known by its key: whatever the authority signs,
    nobody else is it.
    """

    name: Annotated[str, Field(pattern=PARTY, strict=True)]
    key: Fingerprint | None = None
