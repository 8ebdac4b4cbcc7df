"""The agreement: one TOML file that says what is learned, how, and on what privacy terms.

Every key is checked, an unknown key is refused, and all parties compute the same hash of what they agreed on. Where the files
lie (`data`, `public`) is each party's own business and not part of the hash.
"""

import difflib
import hashlib
import json
import tomllib
from collections.abc import Collection, Mapping
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, Self

import pydantic
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from parley.errors import TermsError
from parley.validate import LARGEST, SMALLEST, in_range

FORMAT = 1  # goes into the hash: raised when a key changes its meaning

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
Name = Annotated[str, Field(min_length=1, max_length=200, strict=True)]
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]
Interval = tuple[Finite, Finite]

PARTY = r"^[A-Za-z0-9_-]([A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$"  # what an owner may be called, and anybody on the wire

LOCAL_STEPS = 5  # of federated averaging, where the terms do not say

LOCAL = {"data", "public"}  # where a party keeps its files: never hashed


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> NoReturn:
        """Refused: a copy would not be checked, and would keep the hash of what it was copied from."""
        raise TypeError("terms are changed with Terms.changed(...), which checks them")


class Model(_Section):
    """What is learned, from which columns."""

    kind: Literal["linear-regression", "linear-svm", "logistic-regression"]
    target: Name
    features: tuple[Name, ...] | None = None
    regularisation: NonNegative | None = None
    class_weight: dict[Literal["0", "1"], Positive] = Field(default_factory=dict)
    radius: Positive | None = None
    bounds: dict[Name, Interval] = Field(default_factory=dict)
    categories: dict[Name, tuple[Name, ...]] = Field(default_factory=dict)
    public: str | None = None
    public_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    components: Count | None = None
    holdout: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.0
    intercept: Annotated[bool, Field(strict=True)] | None = None

    @property
    def classifies(self) -> bool:
        return self.kind != "linear-regression"

    @property
    def has_intercept(self) -> bool:
        """Whether a constant 1 is appended; left out: classifiers yes, regression no (W section II)."""
        return self.classifies if self.intercept is None else self.intercept

    @property
    def largest_weight(self) -> float:
        """The most that one record's loss counts."""
        return max([1.0, *self.class_weight.values()]) if len(self.class_weight) < 2 else max(self.class_weight.values())

    @property
    def penalty(self) -> float:
        """Weight of g1 = 0.5 |theta|^2; left out: 1 for the SVM as in W, else 0."""
        if self.regularisation is None:
            return 1.0 if self.kind == "linear-svm" else 0.0
        return self.regularisation

    @model_validator(mode="after")
    def _consistent(self) -> Self:
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
        if self.components is not None and self.public is None:
            raise ValueError("components|expected a `public` sample beside it: PCA never touches private data")
        return self


class Learning(_Section):
    """Who computes what, for how many rounds."""

    algorithm: Literal["averaged-subgradient", "gradient-descent", "federated-averaging", "sufficient-statistics"] = (
        "averaged-subgradient"
    )
    horizon: Count = 100
    local_steps: Count | None = None
    step: Positive | Literal["auto"] = "auto"
    batch: Literal["full"] = "full"
    learner: Name = "learner"
    quorum: Count | None = None
    straggler: Literal["wait", "skip", "stop"] = "wait"

    @property
    def asks_statistics(self) -> bool:
        """Whether owners are asked for second moments, once, rather than for gradients."""
        return self.algorithm == "sufficient-statistics"

    @property
    def asks_updates(self) -> bool:
        """Whether owners are asked for local updates rather than for gradients."""
        return self.algorithm == "federated-averaging"

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("algorithm") == "sufficient-statistics":
            return {"horizon": 1, **content}
        if isinstance(content, dict) and content.get("algorithm") == "federated-averaging":
            return {**content, "local_steps": LOCAL_STEPS if content.get("local_steps") is None else content["local_steps"]}
        return content

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.asks_statistics and self.step != "auto":
            raise ValueError("step|expected none: statistics are solved, not stepped towards")
        if self.asks_statistics and self.horizon != 1:
            raise ValueError("horizon|expected 1: statistics are released once; repeating it under one budget is never better")
        if self.local_steps is not None and not self.asks_updates:
            raise ValueError("local_steps|expected only with algorithm = 'federated-averaging': other algorithms ask for gradients")
        return self


class Privacy(_Section):
    """What each owner promises every person in its table."""

    mechanism: Literal["laplace", "gaussian"] = "laplace"
    clip: Positive | None = None
    delta: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.0
    shared_records: Count = 1
    records_per_person: Count = 1
    person: Name | None = None
    score_epsilon: Positive | None = None

    @model_validator(mode="after")
    def _enforceable(self) -> Self:
        if self.mechanism == "laplace" and self.delta > 0:
            raise ValueError("delta|expected 0: Laplace noise needs none; with mechanism = 'gaussian' it is needed")
        if self.mechanism == "gaussian" and not self.delta > 0:
            raise ValueError("delta|expected a number above 0 (such as 1e-6): Gaussian noise has no guarantee without")
        if self.records_per_person > 1 and self.person is None:
            raise ValueError("records_per_person|expected `person` beside it: the column that tells people apart")
        return self


class PrivacyCost(_Section):
    """How an owner prices what it gives away (read when owners negotiate)."""

    kind: Literal["linear", "exponential", "posterior"]
    weight: NonNegative


class OwnerTerms(_Section):
    """One owner's part of the agreement. `data` is for runs on one machine; a deployed owner keeps it to itself."""

    name: Annotated[str, Field(pattern=PARTY, strict=True)]
    records: Count
    epsilon: Positive
    value: NonNegative | None = None
    privacy_cost: PrivacyCost | None = None
    data: str | None = None


class Terms(_Section):
    """The whole agreement.

    >>> terms = Terms.from_toml('''
    ... title = "Two banks"
    ... [model]
    ... kind = "linear-regression"
    ... target = "rate"
    ... [privacy]
    ... clip = 40.0
    ... [[owners]]
    ... name = "bank-a"
    ... records = 1000
    ... epsilon = 1.0
    ... ''')
    >>> terms.learning.horizon, terms.owners[0].epsilon, len(terms.hash)
    (100, 1.0, 64)
    """

    title: str = ""
    model: Model
    learning: Learning = Learning()
    privacy: Privacy = Privacy()
    owners: tuple[OwnerTerms, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [owner.name for owner in self.owners]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"owners|expected different names, found {name!r} twice")
        if self.learning.quorum is not None and self.learning.quorum > len(names):
            raise ValueError(f"learning.quorum|expected at most the number of owners, {len(names)}")
        if self.learning.straggler == "skip" and self.learning.quorum is None:
            raise ValueError("learning.quorum|expected a number beside straggler = 'skip': how many owners a round needs at least")
        if self.learning.straggler == "skip" and self.learning.asks_statistics:
            raise ValueError("learning.straggler|expected 'wait' or 'stop': second moments are asked once, of everybody")
        if self.privacy.shared_records > len(names):
            raise ValueError(f"privacy.shared_records|expected at most the number of owners, {len(names)}")
        if self.learning.asks_statistics and self.model.classifies:
            raise ValueError("learning.algorithm|expected a gradient method: second moments say enough for linear-regression only")
        if self.learning.asks_updates and self.model.kind == "linear-svm":
            raise ValueError(
                "learning.algorithm|expected another than federated-averaging for linear-svm: across the hinge's corner a local step "
                "of any length may drive close points apart, so one record may move a walk further than it moves a gradient"
            )
        if self.learning.asks_updates and self.model.radius is None:
            raise ValueError(
                "model.radius|expected a number beside federated-averaging: the rounding of an owner's local path is bounded within a box"
            )
        boxed = self.model.radius is not None or self.learning.asks_statistics or self.model.classifies
        if self.privacy.clip is None and not boxed:
            raise ValueError(
                "privacy.clip|expected a number, or model.radius together with bounds of every column: without either "
                "nothing limits what one record can do"
            )
        for owner in self.owners:
            if training_records(owner.records, self.model.holdout) < 1:
                raise ValueError(f"model.holdout|expected a share that leaves {owner.name!r} at least one training record")
        if self.privacy.score_epsilon is not None:
            self._can_score(self.privacy.score_epsilon)
        return self

    def _can_score(self, epsilon: float) -> None:
        """Refuse a score that leaves nothing to train with, has no rows, or measures a target without public bounds."""
        for owner in self.owners:
            if not epsilon < owner.epsilon:
                raise ValueError(f"privacy.score_epsilon|expected less than the epsilon of {owner.name!r}: training needs the rest")
            if held_out_records(owner.records, self.model.holdout) < 1:
                raise ValueError(
                    f"privacy.score_epsilon|expected model.holdout beside it, a share that gives {owner.name!r} a held-out record"
                )
        target = self.model.target
        known = self.model.classifies or self.model.public is not None or target in {*self.model.bounds, *self.model.categories}
        if not known:
            raise ValueError(
                f"privacy.score_epsilon|expected bounds of the target, model.bounds.{target}, or a public sample beside it"
            )

    @classmethod
    def from_toml(cls, text: str, source: str = "terms") -> "Terms":
        """Read terms from TOML text; `source` names the text in messages."""
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise TermsError(f"{source}: not valid TOML: {error}") from None
        return cls.from_dict(content, source)

    @classmethod
    def from_dict(cls, content: dict[str, Any], source: str = "terms") -> "Terms":
        """Read terms from nested dictionaries, as TOML or JSON gives them."""
        try:
            return cls.model_validate(content)
        except pydantic.ValidationError as error:
            raise TermsError(f"{source}: " + "; ".join(dict.fromkeys(_explain(e) for e in error.errors()))) from None

    def changed(
        self,
        *,
        title: str | None = None,
        model: Mapping[str, Any] | None = None,
        learning: Mapping[str, Any] | None = None,
        privacy: Mapping[str, Any] | None = None,
        everyone: Mapping[str, Any] | None = None,
        owners: Mapping[str, Mapping[str, Any]] | None = None,
        only: Collection[str] | None = None,
    ) -> "Terms":
        """These terms with some keys changed, checked like any others (`TermsError`).

        `everyone` changes all owners alike, `owners` some by their names; with `only`, these owners remain.

        >>> terms = Terms.from_dict({"model": {"kind": "linear-svm", "target": "y"}, "privacy": {"clip": 1.0},
        ...                          "owners": [{"name": "a", "records": 10, "epsilon": 1.0}]})
        >>> terms.changed(learning={"horizon": 5}, owners={"a": {"epsilon": 0.5}}).learning.horizon
        5
        """
        sections = {"model": model, "learning": learning, "privacy": privacy}
        content: dict[str, Any] = {"title": self.title if title is None else title}
        for name, update in sections.items():
            section = getattr(self, name)
            content[name] = section if update is None else {**section.model_dump(), **update}
        kept = [part for part in self.owners if only is None or part.name in only]
        for name in (*(owners or ()), *(only or ())):
            self.owner(name)  # refuses a name that nobody has
        updates = {part.name: {**(everyone or {}), **(owners or {}).get(part.name, {})} for part in kept}
        content["owners"] = tuple({**p.model_dump(), **updates[p.name]} if updates[p.name] else p for p in kept)
        return self.from_dict(content)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON: equal for all parties that agreed on the same thing."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @property
    def canonical(self) -> str:
        """The agreement as JSON with sorted keys, every default written out, without anybody's file paths."""
        content = self.model_dump(
            mode="json",
            exclude_none=True,
            exclude={"model": LOCAL, "owners": {"__all__": LOCAL}},
        )
        return json.dumps({"format": FORMAT, **content}, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def owner(self, name: str) -> OwnerTerms:
        """The part of the owner called `name`."""
        if name not in self._by_name:
            raise TermsError(f"owners: no owner is called {name!r}; expected one of {list(self._by_name)}")
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, OwnerTerms]:
        return {part.name: part for part in self.owners}

    def train_rows(self, name: str) -> int:
        """n_l: how many of an owner's records are learned from. Public, like `records` and `holdout`."""
        return training_records(self.owner(name).records, self.model.holdout)

    def held_out_rows(self, name: str) -> int:
        """m_l: how many of an owner's records are kept for scoring. Public too."""
        return held_out_records(self.owner(name).records, self.model.holdout)

    @property
    def score_epsilon(self) -> Fraction:
        """What of every owner's epsilon is set aside for one score of the finished model; 0: none was agreed on."""
        return Fraction(0) if self.privacy.score_epsilon is None else Fraction(str(self.privacy.score_epsilon))

    def training_epsilon(self, name: str) -> Fraction:
        """What of an owner's epsilon its training answers may cost: all but the score's part. An exact fraction, as people wrote it."""
        return Fraction(str(self.owner(name).epsilon)) - self.score_epsilon

    @property
    def rounds(self) -> int:
        """How many answers an owner gives at most: the horizon, and one more for the score if there is one."""
        return self.learning.horizon + (self.privacy.score_epsilon is not None)


def training_records(records: int, holdout: float) -> int:
    """How many of `records` rows remain when a share `holdout` is kept for scoring."""
    return records - held_out_records(records, holdout)


def held_out_records(records: int, holdout: float) -> int:
    """How many of `records` rows are kept for scoring."""
    return int(records * holdout)


def load_terms(path: str | Path) -> Terms:
    """Read a terms file. Paths inside it are relative to the file."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TermsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TermsError(f"{path}: cannot be read: expected UTF-8 text") from None
    terms = Terms.from_toml(text, source=path.name)
    here = path.resolve().parent

    def beside(local: str | None) -> str | None:
        return None if local is None else str(here / local)

    data = {part.name: {"data": beside(part.data)} for part in terms.owners if part.data is not None}
    return terms.changed(model={"public": beside(terms.model.public)}, owners=data)


_SECTIONS: dict[str, type[_Section]] = {
    "model": Model,
    "learning": Learning,
    "privacy": Privacy,
    "owners": OwnerTerms,
    "privacy_cost": PrivacyCost,
}


def _explain(error: Any) -> str:
    """One pydantic error as: key = value: what was expected."""
    if error["loc"][:2] == ("learning", "step"):
        return f"learning.step = {error['input']!r}: expected a number {RANGE}, or 'auto'"
    if error["loc"][:2] == ("model", "bounds") and len(error["loc"]) > 2:
        return f"model.bounds.{error['loc'][2]}: expected [low, high], two finite numbers"
    place = list(error["loc"])
    if len(place) > 1 and place[-1] == "[key]":
        place.pop()
    key = ".".join(str(part + 1) if isinstance(part, int) else part for part in place)
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind == "extra_forbidden":
        named = [part for part in place[:-1] if isinstance(part, str)]
        section = _SECTIONS.get(named[-1], Terms) if named else Terms
        near = difflib.get_close_matches(str(place[-1]), section.model_fields, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(section.model_fields)}"
        return f"{key}: unknown key; {hint}"
    if kind == "missing":
        return f"{key}: missing; this key is needed"
    if kind == "value_error":
        where, _, expectation = str(context["error"]).partition("|")
        return f"{'.'.join([*key.split('.'), where]) if key else where}: {expectation}"
    if kind == "literal_error":
        return f"{key} = {value!r}: expected {context['expected']}"
    bounds = {"greater_than": "gt", "greater_than_equal": "ge", "less_than": "lt", "less_than_equal": "le"}
    signs = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
    if kind in bounds:
        name = bounds[kind]
        return f"{key} = {value!r}: expected a number {signs[name]} {context[name]:g}"
    expected = {
        "float_type": "a number",
        "int_type": "a whole number",
        "bool_type": "true or false",
        "string_type": "text",
        "finite_number": "a finite number",
        "tuple_type": "a list",
        "dict_type": "a table of keys",
        "model_type": "a table of keys",
        "string_too_short": "a name",
        "string_pattern_mismatch": "letters, digits, '-', '_' and '.'" if place[-1] == "name" else "64 hexadecimal digits",
    }.get(kind, error["msg"][:1].lower() + error["msg"][1:])
    return f"{key} = {value!r}: expected {expected}"
