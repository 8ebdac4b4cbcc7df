"""Terms of joined tables and public knowledge, resolved once: every owner's columns, the grid, and the one noise."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.data import Design, Preparation, fit_preparation
from parley.errors import DataError, TermsError
from parley.privacy.sharing.matching.dummies import law_of_counts
from parley.privacy.sharing.matching.match import MatchPlan
from parley.privacy.sharing.matching.packed_rows import TableShape
from parley.tasks.joined.law import MECHANISM, JoinedLaw, joined_law
from parley.terms import OwnerTerms, Terms
from parley.terms.join import Join
from parley.validate import Floats

COLUMN_TABLES = ("bounds", "categories", "centres", "scales", "transforms", "dates")  # keys of [model] by column


@dataclass(frozen=True, eq=False)
class OwnerColumns:
    """One owner's part of a row: its features as prepared columns, each divided by its largest size, then the target's
    numbers if it has the target.

    Formal guarantee: the public numbers of a column depend on that column and the target's terms alone, so owners
    prepare their columns apart and get those of the whole row.
    """

    name: str
    preparation: Preparation | None  # of its features; None: it has the target alone
    sizes: Floats  # [columns]: what a prepared column is divided by
    outcomes: int  # numbers of the target in its part of a row
    features_squared: Fraction  # the largest squared norm of its features, in units

    @property
    def width(self) -> int:
        return len(self.sizes) + self.outcomes

    @property
    def clip_squared(self) -> Fraction:
        """The largest squared norm of its part of a row: a target's numbers have norm at most 1."""
        return self.features_squared + (1 if self.outcomes else 0)


@dataclass(frozen=True, eq=False)
class JoinPlan:
    """What every party computes alike before any table is read."""

    terms: Terms
    join: Join
    whole: Preparation  # of all columns, as the model takes them
    public: Design | None
    owners: tuple[OwnerColumns, ...]

    @cached_property
    def law(self) -> JoinedLaw:
        """The grid and the noise of the moments: the owners' epsilon and delta less the parts for the matches."""
        terms, join = self.terms, self.join
        return joined_law(
            terms.common_epsilon - Fraction(str(join.epsilon)),
            Fraction(str(terms.privacy.delta)) - Fraction(str(join.delta)),
            [owner.clip_squared for owner in self.owners],
            join.digits,
            sum(owner.width for owner in self.owners),
            min(owner.records for owner in terms.owners),
        )

    @cached_property
    def match_plan(self) -> MatchPlan:
        """What hosts know of the match."""
        law, join, owners = self.law, self.join, self.terms.owners
        shapes = tuple(
            TableShape(part.records, owner.width, law.digits, clip * clip)
            for part, owner, clip in zip(owners, self.owners, law.clips, strict=True)
        )
        return MatchPlan(shapes, law_of_counts(join.epsilon, join.delta, len(owners)), law.unit)

    @cached_property
    def features(self) -> NDArray[np.intp]:
        """The places of the features among a joined row's numbers, in the model's order."""
        return np.concatenate([self.places(owner.name)[: len(owner.sizes)] for owner in self.owners])

    @cached_property
    def targets(self) -> NDArray[np.intp]:
        """The places of the target's numbers."""
        return np.concatenate([self.places(owner.name)[len(owner.sizes) :] for owner in self.owners])

    @property
    def constant(self) -> int:
        """The place of the constant."""
        return sum(owner.width for owner in self.owners)

    def places(self, name: str) -> NDArray[np.intp]:
        """Return the places of one owner's numbers in a joined row."""
        begun = 0
        for owner in self.owners:
            if owner.name == name:
                return np.arange(begun, begun + owner.width)
            begun += owner.width
        raise TermsError(f"owners: the terms have no owner {name!r}")

    def clip(self, name: str) -> int:
        """Return an owner's clip in grid steps."""
        return self.law.clips[[owner.name for owner in self.owners].index(name)]

    def columns_of(self, name: str) -> NDArray[np.intp]:
        """Return the places, among the model's columns, of one owner's features, and of the constant."""
        begun = 0
        for owner in self.owners:
            if owner.name == name:
                constant = np.arange(len(self.features), len(self.sizes))
                return np.concatenate([np.arange(begun, begun + len(owner.sizes)), constant]).astype(np.intp)
            begun += len(owner.sizes)
        raise TermsError(f"owners: the terms have no owner {name!r}")

    @cached_property
    def sizes(self) -> Floats:
        """What the model's features were divided by, and the constant, if the model has one."""
        constant = [1.0] * self.whole.model.has_intercept
        return np.concatenate([*(owner.sizes for owner in self.owners), constant])

    @property
    def target_size(self) -> float:
        """What the prepared target was divided by."""
        return self.whole.target_bound if self.whole.model.predicts == "number" else 1.0


def join_plan(terms: Terms) -> JoinPlan:
    """Return the plan of these terms; a refusal if a column has no bounds, or if sums do not fit."""
    if terms.join is None:
        raise TermsError("join: missing; these terms do not join tables")
    columns = {owner.name: _features(terms, owner) for owner in terms.owners}
    whole, public = fit_preparation(_as_one(terms, tuple(c for listed in columns.values() for c in listed)))
    if not np.isfinite(whole.target_bound):
        raise DataError(
            f"model.bounds.{terms.model.target}: declare [low, high] or give a public sample, because values are "
            "divided by their bounds before people are matched"
        )
    owners = tuple(_owner_columns(terms, owner, columns[owner.name], whole) for owner in terms.owners)
    labels = [label for owner in owners if owner.preparation is not None for label in owner.preparation.labels]
    if tuple(labels) != whole.labels or sum(len(owner.sizes) for owner in owners) != _columns(whole):
        raise TermsError("model: the columns of the owners do not add up to the columns of the model")
    plan = JoinPlan(terms, terms.join, whole, public, owners)
    _ = plan.match_plan  # refuses what does not fit
    return plan


def _features(terms: Terms, owner: OwnerTerms) -> tuple[str, ...]:
    return tuple(column for column in owner.columns or () if column != terms.model.target)


def _owner_columns(terms: Terms, owner: OwnerTerms, features: tuple[str, ...], whole: Preparation) -> OwnerColumns:
    outcomes = whole.outcomes if terms.model.target in (owner.columns or ()) else 0
    if not features:
        return OwnerColumns(owner.name, None, np.empty(0), outcomes, Fraction(0))
    fitted = fit_preparation(_as_one(terms, features))[0]
    bound = fitted.feature_bound
    if bound is None:
        open_columns = [
            label
            for label, low, high in zip(fitted.labels, fitted.low, fitted.high, strict=True)
            if not np.isfinite([low, high]).all()
        ]
        raise DataError(
            f"model.bounds.{open_columns[0]}: declare [low, high] or give a public sample, because values are "
            "divided by their bounds before people are matched"
        )
    # of a group of columns of which at most one differs from 0, the norm is at most 1
    squared = Fraction(len(bound) - fitted.model.has_intercept)
    if owner.clip is not None:
        squared = min(squared, _declared(owner, outcomes))
    return OwnerColumns(owner.name, fitted, _sizes(fitted), outcomes, squared)


def _declared(owner: OwnerTerms, outcomes: int) -> Fraction:
    """Return the squared norm that a declared clip leaves to features: a target is never shortened."""
    left = Fraction(str(owner.clip)) ** 2 - (1 if outcomes else 0)
    if not left > 0:
        raise TermsError(
            f"owners.{owner.name}.clip: expected more than 1, because this owner's target already has norm up to 1"
        )
    return left


def _columns(preparation: Preparation) -> int:
    """Return the number of prepared columns without the constant."""
    return preparation.width - preparation.model.has_intercept


def _sizes(fitted: Preparation) -> Floats:
    """Return the largest size of every prepared column; 1 for a column that is always 0, and for bins."""
    if fitted.forest is not None:
        return np.ones(_columns(fitted))
    low, high = fitted.prepared_bounds
    largest = np.maximum(np.abs(low), np.abs(high))
    return np.where(largest > 0, largest, 1.0)


def _as_one(terms: Terms, features: tuple[str, ...]) -> Terms:
    """Return terms by which one owner would learn the same model from these features and the target."""
    others = {column for owner in terms.owners for column in owner.columns or ()} - {*features, terms.model.target}
    content: dict[str, Any] = terms.model.model_dump(exclude_none=True)
    for key in (*COLUMN_TABLES, *(["missing"] if isinstance(terms.model.missing, dict) else [])):
        content[key] = {column: about for column, about in content[key].items() if column not in others}
    content["merged"] = tuple(column for column in terms.model.merged if column not in others)
    return Terms.from_dict(
        {
            "model": {**content, "features": features, "holdout": 0.0, "holdout_seed": None, "holdout_by": None},
            "learning": {"algorithm": "gradient-descent", "horizon": 1},
            "privacy": {"mechanism": MECHANISM, "delta": terms.privacy.delta, "clip": 1.0},
            "owners": [{"name": "all", "records": terms.owners[0].records, "epsilon": terms.owners[0].epsilon}],
        },
        "joined tables",
    )
