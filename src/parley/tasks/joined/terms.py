"""The checks of terms whose owners hold other columns of the same people."""

from collections import Counter
from fractions import Fraction
from typing import ClassVar

from parley.terms.catalogue import NOISES
from parley.terms.keys import quoted_choices
from parley.terms.rules import OneRelease
from parley.terms.sections import OWNER_UNIT, SHARED_NOISE, CheckableTerms, Learning, OwnerTerms

MAX_TABLES = 4  # as many as hosts match (`sharing.matching.dummies`)
KINDS = ("linear-regression", "least-squares-classes", "logistic-regression")
START_KIND = "logistic-regression"  # whose loss is replaced by a quadratic one around a start
# keys of [model] that mix columns of several owners, or that nobody has proved here
MIXING_KEYS = ("components", "whitening", "basis", "crossed", "trees")
UNUSED_MODEL_KEYS = ("class_weight", "radius", "preparation")
UNUSED_PRIVACY_KEYS = ("score_epsilon", "scale_epsilon", "difference_epsilon", "clip_norm")


class JoinedRules(OneRelease):
    """One release of the second moments over matched people, drawn by three hosts."""

    asks: ClassVar[str] = "joined-moments"

    def check_learning(self, learning: Learning) -> None:
        if learning.step != "auto":
            raise ValueError("step|not allowed, because this algorithm takes no steps")
        if learning.horizon != 1:
            raise ValueError("horizon|expected 1, because this algorithm releases once")
        if learning.quorum is not None:
            raise ValueError("quorum|not allowed, because a person's row needs the columns of every owner")

    def check(self, terms: CheckableTerms) -> None:
        """Refuse (ValueError) settings that have no meaning, or no proof yet, for joined tables."""
        super().check(terms)
        _check_columns(terms)
        _check_model(terms)
        _check_noise(terms)
        _check_budgets(terms)


def _check_columns(terms: CheckableTerms) -> None:
    """Refuse columns that belong to nobody or to two owners."""
    if len(terms.owners) < 2:
        raise ValueError("owners|expected two owners or more, because a join needs two tables")
    if len(terms.owners) > MAX_TABLES:
        raise ValueError(f"owners|expected at most {MAX_TABLES} owners with joined tables")
    for owner in terms.owners:
        if owner.columns is None:
            raise ValueError(
                f"owners.{owner.name}.columns|required with [join]: list the columns of this owner's table"
            )
        if terms.join is not None and terms.join.key in owner.columns:
            raise ValueError(
                f"owners.{owner.name}.columns|expected columns other than join.key, which only identifies people"
            )
    held = Counter(column for owner in terms.owners for column in owner.columns or ())
    twice = [column for column, count in held.items() if count > 1]
    if twice:
        raise ValueError(
            f"owners.columns|expected every column once; {twice[0]!r} is listed twice. If two tables hold it, list it "
            "for one owner, or rename one of the two"
        )
    if terms.model.target not in held:
        raise ValueError(f"owners.columns|expected one owner with the target {terms.model.target!r}; none lists it")
    if len(held) < 2:
        raise ValueError("owners.columns|expected at least one column beside the target")


def _check_model(terms: CheckableTerms) -> None:
    """Refuse models that second moments do not determine, and columns made of several owners' columns."""
    model = terms.model
    if model.kind not in KINDS:
        raise ValueError(
            f"model.kind|expected {quoted_choices(KINDS)} with joined tables, because hosts open second moments alone"
        )
    if model.features is not None:
        raise ValueError("model.features|not allowed with [join]; list each owner's columns under [[owners]]")
    for key in MIXING_KEYS:
        if getattr(model, key) is not None:
            raise ValueError(
                f"model.{key}|not allowed with [join], because it would mix columns of several owners; "
                "columns = 'bins' or 'hinges' keeps columns apart"
            )
    for key in UNUSED_MODEL_KEYS:
        if getattr(model, key):
            raise ValueError(f"model.{key}|not allowed with [join]; remove the key")
    if model.holdout > 0 and model.holdout_by is None:
        raise ValueError(
            "model.holdout_by|expected 'person' with [join], because every owner must hold out the same people"
        )
    if terms.learning.start is not None and (model.kind != START_KIND or model.public is None):
        raise ValueError(f"learning.start|needs kind = {START_KIND!r} and model.public with joined tables")


def _check_noise(terms: CheckableTerms) -> None:
    """Refuse other noise than the one normal noise of three hosts."""
    privacy = terms.privacy
    if privacy.mechanism != "gaussian":
        raise ValueError(
            "privacy.mechanism|expected 'gaussian' with joined tables, because a person changes every opened number"
        )
    if privacy.noise != SHARED_NOISE or len(terms.hosts) != NOISES[SHARED_NOISE].hosts:
        raise ValueError(
            "hosts|expected privacy.noise = 'shared' and three hosts with joined tables, because matching needs three "
            "hosts that see neither people nor matches"
        )
    for key in ("hosts_may_cheat", "check_answers"):
        if getattr(privacy, key):
            raise ValueError(
                f"privacy.{key}|not allowed with joined tables: hosts always check the norm of every row, and the "
                "guarantee needs all hosts to follow the protocol"
            )
    if terms.aggregation is not None:
        raise ValueError("aggregation|not allowed with joined tables, which have one answer and nothing to combine")


def _check_budgets(terms: CheckableTerms) -> None:
    """Refuse units of privacy without a proof, and budgets that differ or leave nothing for the moments."""
    privacy, join = terms.privacy, terms.join
    if privacy.unit == OWNER_UNIT:
        raise ValueError("privacy.unit|expected 'record' with joined tables, where a record is a person")
    if privacy.person is not None or privacy.records_per_person > 1:
        raise ValueError(
            "privacy.person|not allowed with [join], because join.key identifies people and a person has one row in "
            "each table; remove person and records_per_person"
        )
    if privacy.shared_records > 1:
        raise ValueError(
            "privacy.shared_records|expected 1 with joined tables: their guarantee covers a person in all tables"
        )
    for key in UNUSED_PRIVACY_KEYS:
        if getattr(privacy, key) is not None:
            raise ValueError(f"privacy.{key}|not allowed with joined tables")
    if privacy.clip is not None:
        raise ValueError("privacy.clip|not allowed with joined tables; set the clip of each owner under [[owners]]")
    _check_same_epsilon(terms.owners)
    if join is None:
        return
    if not Fraction(str(join.epsilon)) < Fraction(str(terms.owners[0].epsilon)):
        raise ValueError("join.epsilon|expected less than the owners' epsilon, because the moments need the rest")
    if not Fraction(str(join.delta)) < Fraction(str(privacy.delta)):
        raise ValueError("join.delta|expected less than privacy.delta, because the moments need the rest")


def _check_same_epsilon(owners: tuple[OwnerTerms, ...]) -> None:
    other = next((owner for owner in owners if owner.epsilon != owners[0].epsilon), None)
    if other is not None:
        raise ValueError(
            f"owners.epsilon|expected the same epsilon for all owners, because all tables are about the same people; "
            f"{owners[0].name!r} and {other.name!r} differ"
        )


ALGORITHM = JoinedRules()
