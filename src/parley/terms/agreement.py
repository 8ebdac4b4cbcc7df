"""The agreement: one TOML file that says what is learned, how, and on what privacy terms. Every key is checked. All
parties compute the same hash, which ignores where each one's files lie (`data`, `public`, `preparation`)."""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from parley.durable import resolved_against
from parley.errors import GuaranteeError, TermsError
from parley.terms.catalogue import ALL_MECHANISMS, MODELS, PREDICTION, TASKS, NoiseFacts, noise_facts
from parley.terms.error_sentences import explained
from parley.terms.join import Join, check_join
from parley.terms.keys import Section, find_by_name, quoted_choices
from parley.terms.model import Model, prepares_otherwise, read_model, section_of
from parley.terms.participation import (
    check_aggregation,
    check_answers,
    check_availability,
    check_participation,
    check_stragglers,
    unless_plain,
)
from parley.terms.privacy_checks import (
    check_delta,
    check_differences,
    check_hosts,
    check_owner_unit,
    check_question,
    check_scales,
    check_score,
)
from parley.terms.rules import (
    algorithms_reading,
    keys_reset_by,
    kinds_of,
    owner_keys_reset_by,
    require_own_algorithm,
    require_read,
)
from parley.terms.sections import (
    EACH_OWNERS_NOISE,
    RECORD_UNIT,
    STABLE_NOT_RELEASED,
    Aggregation,
    Host,
    Learning,
    OwnerTerms,
    Privacy,
    check_study_noise,
    held_out_records,
    read_learning,
    read_privacy,
    training_records,
)
from parley.terms.topology import edges_among, with_edges

FORMAT = 1  # goes into the hash: raised when a key changes its meaning

LOCAL_PATH_KEYS = {"data", "public", "preparation"}  # where a party keeps its files: never hashed


class Terms(Section):
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
    model: Annotated[SerializeAsAny[Model], BeforeValidator(read_model)]
    learning: Learning = Learning()
    privacy: Annotated[SerializeAsAny[Privacy], BeforeValidator(read_privacy)] = Privacy()
    owners: tuple[OwnerTerms, ...] = Field(min_length=1)
    hosts: tuple[Host, ...] = ()
    aggregation: Annotated[Aggregation | None, BeforeValidator(unless_plain)] = None  # None: the plain mean
    join: Join | None = None  # None: owners have the same columns

    @model_validator(mode="before")
    @classmethod
    def _usual(cls, content: Any) -> Any:
        """Fill in the algorithm or mechanism that a kind of model implies."""
        model = content.get("model") if isinstance(content, dict) else None
        facts = find_by_name(MODELS, model.get("kind") if isinstance(model, dict) else getattr(model, "kind", None))
        if facts is None:
            return content
        own = {("learning", "algorithm"): facts.algorithm, ("privacy", "mechanism"): facts.mechanism}
        for (section, key), usual in own.items():
            if usual is not None and isinstance(given_section := content.get(section, {}), dict):
                content = {**content, section: {key: usual, **given_section}}
        return content

    @field_validator("learning", mode="before")
    @classmethod
    def _by_kind(cls, content: Any, info: ValidationInfo) -> Any:
        """Read `[learning]` by the kind of model."""
        model = info.data.get("model")
        return read_learning(content, None if model is None else model.kind)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        learning, names = self.learning, [owner.name for owner in self.owners]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(f"owners|expected different names, found {twice[0]!r} twice")
        check_stragglers(self)
        if self.privacy.shared_records > len(names):
            raise ValueError(f"privacy.shared_records|expected at most the number of owners, {len(names)}")
        require_own_algorithm(self.model.kind, self.task)
        check_study_noise(self)
        self._can_draw()
        check_join(self)
        self.model.check_terms(self)
        check_answers(self)
        for owner in self.owners:
            require_read(learning.rules, "owners", owner)
        if self.privacy.clip_norm is not None and "privacy.clip_norm" not in learning.rules.keys:
            able = quoted_choices(algorithms_reading("privacy.clip_norm"))
            norm = ALL_MECHANISMS[self.privacy.mechanism].norm
            raise ValueError(
                f"privacy.clip_norm|expected {norm!r}, the norm of the mechanism; another norm needs algorithm = {able}"
            )
        check_question(self)
        check_owner_unit(self)
        learning.rules.check(self)
        steep = self.model.predicts in ("number", "count")  # what limits a record depends on the parameters, too
        boxed = self.model.radius is not None or not learning.rules.iterative or not steep
        # others bound records by rules of their own
        if self.privacy.clip is None and not boxed and self.task == PREDICTION:
            raise ValueError(
                "privacy.clip|expected a number, or model.radius together with bounds of every column; otherwise one "
                "record could have an unlimited effect"
            )
        if learning.start == "public" and self.model.public is None:
            raise ValueError(
                "learning.start|needs model.public, because training starts from the model fitted to the public sample"
            )
        for owner in self.owners:
            if training_records(owner.records, self.model.holdout) < 1:
                raise ValueError(
                    f"model.holdout|expected a share that leaves {owner.name!r} at least one training record"
                )
        check_score(self)
        check_delta(self)
        check_scales(self)
        check_differences(self)
        check_participation(self)
        check_availability(self)
        check_hosts(self)
        check_aggregation(self)
        return self

    @property
    def task(self) -> str:
        """The name of the task: predicting a column, or another one from the catalogue."""
        return self.learning.task

    @property
    def noise(self) -> NoiseFacts:
        """Where noise is drawn, and what follows from it."""
        return noise_facts(self.privacy.noise, len(self.hosts), self.privacy.draw is not None)

    @cached_property
    def uneven(self) -> bool:
        """Whether some owners take local steps of their own."""
        return any(owner.local_steps is not None or owner.step is not None for owner in self.owners)

    @cached_property
    def lossy(self) -> bool:
        """Whether some owners' answers may get lost."""
        return any(owner.availability is not None for owner in self.owners)

    def _can_draw(self) -> None:
        """Refuse noise that is made for another task."""
        only = ALL_MECHANISMS[self.privacy.mechanism].task
        if only is not None and only != self.task:
            raise ValueError(
                f"privacy.mechanism|a mechanism for {only} is allowed only with kind = {quoted_choices(kinds_of(only))}"
            )

    @property
    def asked_a_round(self) -> int:
        """The number of owners a round asks by `learning.participation`; default all."""
        share = self.learning.participation
        return len(self.owners) if share is None else max(1, round(share * len(self.owners)))

    @classmethod
    def from_toml(cls, text: str, source: str = "terms") -> "Terms":
        """Read terms from TOML text; `source` names the text in messages."""
        return cls.from_dict(_parsed(text, source), source)

    @classmethod
    def from_dict(cls, content: dict[str, Any], source: str = "terms") -> "Terms":
        """Read terms from nested dictionaries, as TOML or JSON gives them."""
        try:
            return cls.model_validate(content)
        except pydantic.ValidationError as error:
            raise TermsError(f"{source}: " + "; ".join(explained(error.errors(), cls, content))) from None

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
        hosts: Collection[str] | None = None,
        aggregation: Mapping[str, Any] | None = None,
        join: Mapping[str, Any] | None = None,
    ) -> "Terms":
        """Return these terms with some keys changed, checked like any others (`TermsError`).

        `hosts` are the names of all hosts (existing ones keep their keys); `everyone` changes all owners, `owners` some
        by name; `only` keeps these owners. `aggregation` replaces its whole section; `join` changes keys of its own.

        >>> terms = Terms.from_dict({"model": {"kind": "linear-svm", "target": "y"}, "privacy": {"clip": 1.0},
        ...                          "owners": [{"name": "a", "records": 10, "epsilon": 1.0}]})
        >>> terms.changed(learning={"horizon": 5}, owners={"a": {"epsilon": 0.5}}).learning.horizon
        5
        """
        if only is not None and self.learning.topology is not None:
            learning = {"topology": edges_among(self.learning.topology, only), **(learning or {})}
        if model is not None and prepares_otherwise(self.model, model):  # what is pinned is of other columns
            model = {"preparation": None, "preparation_sha256": None, **model}
        sections = {"model": model, "learning": learning, "privacy": privacy}
        keys = {host.name: host for host in self.hosts}
        named = self.hosts if hosts is None else tuple(keys.get(name, {"name": name}) for name in hosts)
        content: dict[str, Any] = {"title": self.title if title is None else title, "hosts": named}
        content["aggregation"] = self.aggregation if aggregation is None else dict(aggregation)
        content["join"] = self.join if join is None or self.join is None else {**self.join.model_dump(), **join}
        for name, update in sections.items():
            section = getattr(self, name)
            content[name] = section if update is None else {**section.model_dump(), **keys_reset_by(update), **update}
        kept = [part for part in self.owners if only is None or part.name in only]
        for name in (*(owners or ()), *(only or ())):
            self.owner(name)  # refuses a name that nobody has
        all_of_them = {**owner_keys_reset_by(learning or {}), **(everyone or {})}
        updates = {part.name: {**all_of_them, **(owners or {}).get(part.name, {})} for part in kept}
        content["owners"] = tuple({**p.model_dump(), **updates[p.name]} if updates[p.name] else p for p in kept)
        return self.from_dict(content)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON: the same for all parties to one agreement."""
        return hashlib.sha256(self.canonical.encode()).hexdigest()

    @property
    def canonical(self) -> str:
        """The agreement as JSON with sorted keys and all defaults, without file paths."""
        content = self.model_dump(
            mode="json",
            exclude_none=True,
            exclude={"model": LOCAL_PATH_KEYS, "owners": {"__all__": LOCAL_PATH_KEYS}},
        )
        content["learning"]["batch"] = "full"  # a key that once was, and belongs to every hash
        # Later keys: terms that do not use them keep their hash.
        if content["privacy"]["noise"] == EACH_OWNERS_NOISE:
            del content["privacy"]["noise"]
            del content["hosts"]
        if content["privacy"]["unit"] == RECORD_UNIT:
            del content["privacy"]["unit"]
        for key, usual in (
            ("coding", "integer"),
            ("missing", "refuse"),
            ("transforms", {}),
            ("dates", {}),
            ("merged", []),
            ("centres", {}),
            ("scales", {}),
        ):
            if content["model"][key] == usual:
                del content["model"][key]
        return json.dumps({"format": FORMAT, **content}, sort_keys=True, separators=(",", ":"), allow_nan=False)

    def owner(self, name: str) -> OwnerTerms:
        """Return the part of the owner called `name`."""
        if name not in self._by_name:
            raise TermsError(f"owners: the terms have no owner {name!r}; expected one of {list(self._by_name)}")
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, OwnerTerms]:
        return {part.name: part for part in self.owners}

    @property
    def studied(self) -> bool:
        """Whether the noise is for studies only: it has no sampler that is safe to release with, and no variance."""
        return ALL_MECHANISMS[self.privacy.mechanism].studied

    def require_release(self) -> None:
        """Refuse (GuaranteeError) noise that nobody can draw exactly, wherever something could leave an owner."""
        if self.studied:
            raise GuaranteeError(STABLE_NOT_RELEASED)

    def require_shared_sample(self) -> None:
        """Refuse terms between organisations that do not state which public sample and numbers all parties hold."""
        if self.model.public is not None and self.model.public_sha256 is None:
            raise TermsError(
                "model.public_sha256: missing; between organisations, the terms must state the hash of the public "
                "sample that all parties use (sha256sum FILE)"
            )
        if self.model.preparation is not None and self.model.preparation_sha256 is None:
            raise TermsError(
                "model.preparation_sha256: missing; between organisations, the terms must state the hash of the "
                "public numbers that all parties use (sha256sum FILE)"
            )

    def train_rows(self, name: str) -> int:
        """Return n_l, the number of an owner's training records. Public, like `records` and `holdout`."""
        if TASKS[self.task].whole:
            return self.owner(name).records
        return training_records(self.owner(name).records, self.model.holdout)

    def train_places(self, name: str) -> int:
        """Return the rows of an owner's training table. If people are held out these are all its records, and held-out
        ones count 0; answers are still divided by `train_rows`."""
        return self.train_rows(name) if self.model.holdout_by is None else self.owner(name).records

    def held_out_rows(self, name: str) -> int:
        """Return m_l, the number of an owner's records kept for scoring. Public too."""
        return held_out_records(self.owner(name).records, self.model.holdout)

    @property
    def score_epsilon(self) -> Fraction:
        """The part of every owner's epsilon for one score of the finished model; 0 if none was agreed on."""
        return _as_written(self.privacy.score_epsilon or 0)

    @property
    def scale_epsilon(self) -> Fraction:
        """The part of every owner's epsilon for scales, asked before anything is learned; 0 if none."""
        return _as_written(self.privacy.scale_epsilon or 0)

    @property
    def difference_epsilon(self) -> Fraction:
        """The part of every owner's epsilon for measuring heterogeneity before anything is learned; 0 if none."""
        return _as_written(self.privacy.difference_epsilon or 0)

    def training_epsilon(self, name: str) -> Fraction:
        """Return an owner's epsilon for training answers: all but the score's part, as an exact fraction."""
        return self.promised_epsilon(name) - self.score_epsilon

    def promised_epsilon(self, name: str) -> Fraction:
        """Return the epsilon an owner promises: its own, or the smallest of all if one noise protects everybody."""
        own = _as_written(self.owner(name).epsilon)
        return self.common_epsilon if self.noise.common else own

    @cached_property
    def common_epsilon(self) -> Fraction:
        """The smallest epsilon of all owners."""
        return min(_as_written(owner.epsilon) for owner in self.owners)

    @property
    def rounds(self) -> int:
        """The most answers an owner gives: the horizon, plus one for a score."""
        return self.learning.horizon + (self.privacy.score_epsilon is not None)


@lru_cache(maxsize=4096)
def _as_written(number: float) -> Fraction:
    """Return the exact decimal fraction that people wrote."""
    return Fraction(str(number))


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TermsError(f"{source}: not a terms file, because it is not valid TOML: {error}") from None


def load_terms(path: str | Path) -> Terms:
    """Read a terms file.

    Parameters
    ----------
    path
        TOML file; paths inside it are relative to it.

    Returns
    -------
    Terms
        Checked terms; otherwise a `TermsError` says which key is wrong, and what was expected.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "terms.toml"
    >>> _ = file.write_text('''
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
    >>> load_terms(file).owners[0].name
    'bank-a'
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TermsError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TermsError(f"{path}: cannot be read, because the text is not UTF-8; convert the file to UTF-8") from None
    folder = path.resolve().parent
    content = with_edges(_parsed(text, path.name), folder)
    model = content.get("model")
    section = section_of(model.get("kind") if isinstance(model, dict) else None)
    terms = Terms.from_dict(section.read(content, folder), path.name)

    def beside(local: str | None) -> str | None:
        return None if local is None else str(folder / local)

    data = {part.name: {"data": resolved_against(folder, part.data)} for part in terms.owners if part.data is not None}
    files = {"public": beside(terms.model.public), "preparation": beside(terms.model.preparation)}
    return terms.changed(model=files, owners=data)
