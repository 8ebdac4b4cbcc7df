"""The sections of the terms beside `[model]`: every key with its type and range, and checks within a section."""

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from pydantic import BeforeValidator, Field, model_validator

from parley.terms.catalogue import (
    AGGREGATION_RULES,
    ALGORITHMS,
    ALL_MECHANISMS,
    MECHANISMS,
    MODELS,
    PREDICTION,
    TASKS,
    THREE_HOST_SWITCHES,
    NoiseFacts,
)
from parley.terms.keys import (
    Count,
    Name,
    NonNegative,
    Positive,
    Section,
    Share,
    find_by_name,
    import_by_name,
    one_of,
    quoted_choices,
)
from parley.terms.model import Model
from parley.terms.rules import AlgorithmRules, algorithm_rules, named_algorithm, require_read
from parley.terms.topology import Edges, read_topology

if TYPE_CHECKING:
    from parley.terms.join import Join


def _digits(value: Any) -> Any:
    """Remove the blanks from a printed fingerprint."""
    return "".join(value.split()).lower() if isinstance(value, str) else value


Fingerprint = Annotated[str, BeforeValidator(_digits), Field(pattern=r"^[0-9a-f]{64}$", strict=True)]  # of a key

PARTY = r"^[A-Za-z0-9_-]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$"  # what an owner may be called, and anybody on the wire

EACH_OWNERS_NOISE: Literal["each-owner"] = "each-owner"  # where noise is drawn: every owner adds its own
# for `Terms.changed`, with hosts=(): each owner's own noise, without what only hosts can do
OWN_NOISE: dict[str, str | None] = {"noise": EACH_OWNERS_NOISE, "draw": None, **dict.fromkeys(THREE_HOST_SWITCHES)}
SHARED_NOISE: Literal["shared"] = "shared"  # once, for the sum of all answers, by hosts of whom none knows it
RECORD_UNIT: Literal["record"] = "record"  # whom a guarantee is about: one person's rows
OWNER_UNIT: Literal["owner"] = "owner"  # an owner's whole table

USUAL_ALGORITHM = "averaged-subgradient"


class Learning(Section):
    """Who computes what, for how many rounds."""

    model_task: ClassVar[str | None] = (
        None  # of models for which some algorithms of predictions have rules of their own
    )

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
        """The rules of the algorithm."""
        return algorithm_rules(self.algorithm, self.model_task)

    @property
    def task(self) -> str:
        """The name of the task that the algorithm does for these models."""
        facts = ALGORITHMS[self.algorithm]
        return self.model_task if self.model_task in facts.also else facts.task  # type: ignore[return-value]

    @property
    def waits(self) -> bool:
        """Whether rounds wait for all they ask; otherwise answers are used as they come."""
        return self.staleness is None

    @property
    def poisson(self) -> bool:
        """Whether owners draw each round's records in secret."""
        return self.sampling == "poisson"

    @property
    def rounds_per_step(self) -> int:
        """The number of rounds in one step of the algorithm."""
        return self.rules.rounds_a_step(self)

    @property
    def paired(self) -> bool:
        """Whether a step takes two answers: a gradient in odd rounds, a local update in even ones."""
        return self.rounds_per_step == 2

    def epoch(self, number: int) -> int:
        """Return a round's epoch, from 0; without batches every round is one."""
        return (number - 1) // (self.batches or 1)

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        return (
            named_algorithm(content.get("algorithm", USUAL_ALGORITHM), cls.model_task).usual(content)
            if isinstance(content, dict)
            else content
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        require_read(self.rules, "learning", self)
        self.rules.check_learning(self)
        if self.participation_seed is not None and self.participation is None:
            raise ValueError(
                "participation_seed|allowed only with participation, because the seed decides which owners are drawn"
            )
        return self


def read_learning(content: Any, kind: str | None) -> Any:
    """Read `[learning]` for this kind of model, whose task may have a section class of its own."""
    facts = TASKS[MODELS[kind].task] if kind is not None else None
    section = Learning if facts is None or facts.learning is None else import_by_name(facts.learning)
    if isinstance(content, Learning) and type(content) is not section:  # read for another kind
        content = content.model_dump()
    return section.model_validate(content) if section is not Learning and isinstance(content, dict) else content


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
    noise: Literal["each-owner", "shared"] = EACH_OWNERS_NOISE
    draw: Literal["together"] | None = None  # None: of two hosts each adds a whole noise of its own
    hosts_may_cheat: Literal[True] | None = None  # one of three hosts may do anything
    check_answers: Literal[True] | None = None  # three hosts check that owners' answers keep their bounds
    unit: Literal["record", "owner"] = RECORD_UNIT

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        """Drop a `clip_norm` that is the mechanism's own and switches that are off: the hash is the same without."""
        if isinstance(content, dict):
            off = [key for key in THREE_HOST_SWITCHES if content.get(key) is False]
            content = {key: value for key, value in content.items() if key not in off}
        if not isinstance(content, dict) or not isinstance(norm := content.get("clip_norm"), str):
            return content
        facts = find_by_name(ALL_MECHANISMS, content.get("mechanism", "laplace"))
        rest = {key: value for key, value in content.items() if key != "clip_norm"}
        return rest if facts is not None and norm.lower() == facts.norm else {**rest, "clip_norm": norm.lower()}

    @model_validator(mode="after")
    def _enforceable(self) -> Self:
        noise, approximate = self.mechanism.capitalize(), ALL_MECHANISMS[self.mechanism].approximate
        check_alpha(self.mechanism, self.alpha)
        if self.noise == SHARED_NOISE and not self.delta > 0:
            raise ValueError(
                "delta|expected a number above 0 (such as 1e-6), because hosts draw shared noise from finitely "
                "many random bits"
            )
        if self.draw is not None and self.noise != SHARED_NOISE:
            raise ValueError("draw|allowed only with noise = 'shared' and two hosts")
        for key in THREE_HOST_SWITCHES:
            if getattr(self, key) and self.noise != SHARED_NOISE:
                raise ValueError(f"{key}|allowed only with noise = 'shared' and three hosts")
        if approximate and not self.delta > 0:
            raise ValueError(
                f"delta|expected a number above 0 (such as 1e-6), because {noise} noise has no guarantee without "
                "a delta"
            )
        if self.records_per_person > 1 and self.person is None:
            raise ValueError("records_per_person|needs `person`, the column that identifies people")
        return self


def privacy_section(mechanism: Any) -> type[Privacy]:
    """Return the section class of a mechanism; the shared one for unknown names."""
    facts = find_by_name(ALL_MECHANISMS, mechanism)
    return Privacy if facts is None or facts.section is None else import_by_name(facts.section)


def read_privacy(content: Any) -> Any:
    """Read `[privacy]` by its mechanism; a None counts as a missing key."""
    if not isinstance(content, dict):
        return content
    section = privacy_section(content.get("mechanism"))
    return section.model_validate({key: each for key, each in content.items() if each is not None})


class Aggregation(Section):
    """How the learner combines answers when some owners may lie."""

    rule: Annotated[str, Field(strict=True), one_of(AGGREGATION_RULES)] = "mean"
    byzantine: Count = 1  # f: how many owners may answer whatever they like
    # how far apart honest owners' exact answers to one question lie at most, in any number; None: nobody says
    spread: Positive | None = None


class PrivacyCost(Section):
    """How an owner prices privacy (read when owners negotiate)."""

    kind: Literal["linear", "exponential", "posterior", "min-entropy", "mutual-information"]
    weight: NonNegative


def _unless_sure(value: Any) -> Any:
    """Return None for an availability of 1, so that terms without losses have one hash."""
    return None if type(value) in (int, float) and value == 1 else value


class OwnerTerms(Section):
    """One owner's part of the agreement. `data` is for runs on one machine; deployed owners keep it to themselves."""

    name: Annotated[str, Field(pattern=PARTY, strict=True)]
    records: Count
    epsilon: Positive
    stride: Count | None = None
    answers: Count | None = None  # None: as many as `learning.horizon`; asynchronous rounds only
    availability: Annotated[Share | None, BeforeValidator(_unless_sure)] = None  # None: every answer arrives
    trust: Positive | None = None  # None: 1
    local_steps: Count | None = None  # None: as `learning` says
    step: Positive | None = None
    columns: Annotated[tuple[Name, ...], Field(min_length=1)] | None = None  # of a join: those in its own table
    clip: Positive | None = None  # of a join: the largest norm of its part of a row; None: what the bounds imply
    value: NonNegative | None = None
    privacy_cost: PrivacyCost | None = None
    data: str | None = None


class Host(Section):
    """One of three parties (or two) that add up owners' shares and draw the noise; it may be an owner or the learner.
    `key`, the fingerprint that `parley certs show` prints, identifies the host whatever the authority signs."""

    name: Annotated[str, Field(pattern=PARTY, strict=True)]
    key: Fingerprint | None = None


def training_records(records: int, holdout: float) -> int:
    """Return how many of `records` rows remain when a share `holdout` is kept for scoring."""
    return records - held_out_records(records, holdout)


def held_out_records(records: int, holdout: float) -> int:
    """Return how many of `records` rows are kept for scoring."""
    return int(records * holdout)


class CheckableTerms(Protocol):
    """The part of `terms.agreement.Terms` that checks need."""

    model: Model
    learning: Learning
    privacy: Privacy
    owners: tuple[OwnerTerms, ...]
    hosts: tuple[Host, ...]
    aggregation: Aggregation | None

    @property
    def join(self) -> "Join | None":
        """How people are matched across tables; None where owners have the same columns."""
        ...

    @property
    def task(self) -> str:
        """The name of the task."""
        ...

    @property
    def noise(self) -> NoiseFacts:
        """Where noise is drawn, and what follows from it."""
        ...

    @property
    def uneven(self) -> bool:
        """Whether some owners take local steps of their own."""
        ...

    @property
    def asked_a_round(self) -> int:
        """The number of owners a round asks."""
        ...

    @property
    def score_epsilon(self) -> Fraction:
        """The part of every owner's epsilon for a score."""
        ...

    @property
    def scale_epsilon(self) -> Fraction:
        """The part of every owner's epsilon for column statistics."""
        ...

    @property
    def difference_epsilon(self) -> Fraction:
        """The part of every owner's epsilon for measuring heterogeneity."""
        ...

    def owner(self, name: str) -> OwnerTerms:
        """Return the part of the owner called `name`."""
        ...


STABLE_NOISE_PAGE = "docs/stable_noise.md"  # what is known of it
WHY_STUDIES_ONLY = (
    "stable noise is for simulations only, because no sampler of stable noise is safe for a release "
    f"({STABLE_NOISE_PAGE})"
)
STABLE_NOT_RELEASED = (
    "privacy.mechanism = 'stable': stable noise has no exact sampler, so answers with stable noise cannot be "
    "released; expected 'laplace' or 'gaussian', or a simulation (parley train without ledgers)"
)
STABLE_NOT_FORECAST = (
    "privacy.mechanism = 'stable': stable noise has no variance, so its average effect cannot be forecast; parley "
    "train --replicates shows medians and quartiles"
)


def check_alpha(mechanism: str, alpha: float | None) -> None:
    """Refuse (ValueError) stable noise without its index, and an index with other noise."""
    if alpha is None and mechanism == "stable":
        raise ValueError(
            f"alpha|expected a number from 1 (Cauchy) to 1.9999 with mechanism = 'stable', or mechanism = "
            f"{quoted_choices(MECHANISMS)}; {WHY_STUDIES_ONLY}"
        )
    if alpha is not None and mechanism != "stable":
        raise ValueError(
            "alpha|allowed only with mechanism = 'stable', because alpha is the index of the stable distribution"
        )


def check_study_noise(terms: CheckableTerms) -> None:
    """Refuse (ValueError) study noise with hosts, releases before training, or tasks other than prediction."""
    privacy = terms.privacy
    if not ALL_MECHANISMS[privacy.mechanism].studied:
        return
    if terms.task != PREDICTION:
        raise ValueError(
            f"privacy.mechanism|expected {quoted_choices(MECHANISMS)} with algorithm = {terms.learning.algorithm!r}, "
            "because stable noise is available only for models that predict a column from others"
        )
    if terms.noise.summed:
        raise ValueError(
            "privacy.noise|expected 'each-owner' with mechanism = 'stable', because hosts draw no stable noise"
        )
    for key in ("scale_epsilon", "difference_epsilon"):
        if getattr(privacy, key) is not None:
            raise ValueError(
                f"privacy.{key}|not allowed with mechanism = 'stable', because this budget pays for a released answer, "
                f"and {WHY_STUDIES_ONLY}"
            )
