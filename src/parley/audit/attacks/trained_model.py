"""A trained model under attack by an owner whose rows it was trained on: which rows were in its table?

Formal guarantee: none. Everything here is computed from private rows without noise, for the owner's own eyes.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from parley.audit.attacks.membership import ATTACKS, Game, Membership, blind_area, judged
from parley.audit.attacks.shadow import Evidence, Train, TrainedByTerms, countable, model_evidence, without_privacy
from parley.audit.canary import require_audited_owner, require_audited_unit
from parley.data.holdout import counted_rows, held_out_people
from parley.data.preparation import require_records
from parley.data.sources import Table, open_table
from parley.errors import DataError, ModelError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.model import JointModel
from parley.losses import KINDS, make
from parley.protocol.task import require_predictor
from parley.terms import Privacy, Terms
from parley.validate import Floats

MAX_ROWS_PER_SIDE = 300  # rows of either side that are attacked: more of them take longer and tell little more
LEAST_ROWS_PER_SIDE = 20
MAX_SHADOW_ROWS = 50_000  # rows of a table that shadow models are trained on, where nobody has more time


@dataclass(frozen=True)
class OtherModels:
    """The mean and middle 90 % of areas for models trained on other tables, with this model's rows and members."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelAudit:
    """What was found about one model and about training like it."""

    kind: str
    target: str
    terms_hash: str
    released: bool  # by the model file's own word
    owner: str | None
    members: int  # rows that were attacked: in the table, and not
    others: int
    records: int  # of the table that the model was trained on
    shadow_records: int  # of each table that models like it were trained on
    areas: Mapping[str, float]  # under the curve of each attack on this very model
    other_models: Mapping[str, OtherModels]  # the same attacks, rows and members
    blind_area: float  # members told from others by no model at all
    membership: Membership  # of models trained like it
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.membership.holds

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit MODEL --json` prints."""
        return {
            "kind": self.kind,
            "target": self.target,
            "terms_hash": self.terms_hash,
            "released": self.released,
            "owner": self.owner,
            "members": self.members,
            "others": self.others,
            "records": self.records,
            "shadow_records": self.shadow_records,
            "areas_of_this_model": dict(self.areas),
            "areas_of_other_models": {name: vars(each) for name, each in self.other_models.items()},
            "area_without_a_model": self.blind_area,
            "holds": self.holds,
            "membership": self.membership.to_json(),
            "seconds": self.seconds,
        }


def own_rows(model: JointModel, terms: Terms, name: str, table: Table) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return (rows behind an owner's training answers, held-out rows), as terms divide its table."""
    require_audited_owner(terms)
    source = open_table(table)
    if source.streams:
        raise DataError(f"{name}: the audit cannot read a folder of Parquet files; give all rows in one file")
    kept = counted_rows(source, terms.privacy, name)
    frame = source.frame() if kept is None else source.frame()[kept]
    require_records(terms, name, len(frame))
    held_out = (
        ~model.preparation_.trained_on(len(frame))
        if terms.model.holdout_by is None
        else held_out_people(source, terms, name, kept)
    )
    return frame[~held_out], frame[held_out]


def audit_model(
    model: JointModel,
    members: pd.DataFrame,
    others: pd.DataFrame,
    terms: Terms | None = None,
    owner: str | None = None,
    models: int = 128,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
    largest: int = MAX_SHADOW_ROWS,
) -> ModelAudit:
    """Attack a model with some of an owner's rows (`members`) and as many that could have been (`others`).

    Shadow models and counted models (`models` of each) are trained on random halves of these rows. All other members
    are in every table, up to `largest` rows, so that tables are as large as the owner's. With `terms` and an `owner`
    they are trained as the terms say, as if the owner were alone, and compared with its promise; otherwise by least
    cost, and nothing is claimed.
    """
    if terms is not None:
        require_audited_unit(terms)
    began = time.perf_counter()
    numbers = np.random.SeedSequence(seed).generate_state(4).tolist()
    privacy = None if terms is None else terms.privacy
    drawn = _Places.draw(model, members, others, privacy, largest, np.random.default_rng(numbers[0]))
    train, claimed, delta = _training(model, drawn, terms, owner, numbers[1], progress)
    game = Game.play(train, len(drawn.population), models, models, numbers[2])
    seen, member = model_evidence(model, drawn.population), drawn.member
    areas, others_areas = (
        _areas(game, each, member) for each in (seen, game.evidence.for_tables(slice(game.shadows, None)))
    )
    return ModelAudit(
        kind=model.preparation_.model.kind,
        target=model.preparation_.model.target,
        terms_hash=model.terms_hash_,
        released=model.released_,
        owner=owner,
        members=int(member.sum()),
        others=int((~member).sum()),
        records=drawn.records,
        shadow_records=len(member) // 2 + len(drawn.always),
        areas={name: float(each[0]) for name, each in areas.items()},
        other_models={name: _spread(each) for name, each in others_areas.items()},
        blind_area=blind_area(model.preparation_.design(drawn.population, "population"), member, numbers[3]),
        membership=replace(judged(game, claimed, delta), seconds=time.perf_counter() - began),
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True, eq=False)
class _Places:
    """The attacked rows, which of them are members [rows], and the other members; `records`: all members."""

    population: pd.DataFrame
    member: NDArray[np.bool_]
    always: pd.DataFrame
    records: int

    @classmethod
    def draw(
        cls,
        model: JointModel,
        members: pd.DataFrame,
        others: pd.DataFrame,
        privacy: Privacy | None,
        largest: int,
        rng: np.random.Generator,
    ) -> "_Places":
        """Draw as many rows of either side, and as many other members as `largest` leaves room for."""
        rows = pd.concat([members, others], ignore_index=True)
        inside = np.arange(len(rows)) < len(members)
        counts = countable(rows, model.preparation_.model, privacy)
        sides = [rng.permutation(np.flatnonzero(counts & side)) for side in (inside, ~inside)]
        size = min(MAX_ROWS_PER_SIDE, largest, *(len(side) for side in sides))
        if size < LEAST_ROWS_PER_SIDE:
            raise DataError(
                f"population: {len(sides[0])} of the model's training rows and {len(sides[1])} other rows have a "
                f"target; expected at least {LEAST_ROWS_PER_SIDE} of each. Hold out more rows, or give --population "
                "with more rows that did not train the model"
            )
        drawn = np.concatenate([side[:size] for side in sides])
        left = rng.permutation(np.setdiff1d(np.flatnonzero(inside), drawn))[: largest - size]
        population, always = (rows.iloc[places].reset_index(drop=True) for places in (drawn, left))
        return cls(population, np.arange(2 * size) < size, always, len(members))


def _training(
    model: JointModel, drawn: _Places, terms: Terms | None, owner: str | None, seed: int, progress: Progress
) -> tuple[Train, float | None, float]:
    """Return how shadow models are trained, the epsilon claimed for it, and its delta."""
    known = model.preparation_.model
    if model.trees_ is not None:
        raise ModelError(
            "a personal model with trees cannot be audited, because its trees were fitted to private rows without "
            "noise; give a joint model"
        )
    if terms is None or owner is None:
        if known.kind not in KINDS:
            raise ModelError(
                f"{known.kind}: shadow models of this kind can be trained only with the terms; give --terms and --owner"
            )
        rows = pd.concat([drawn.population, drawn.always], ignore_index=True)
        design, objective = model.preparation_.design(rows, "population"), make(known).bounded_by(model.preparation_)
        return without_privacy(objective, known.predicts, design, known.radius, len(drawn.always)), None, 0
    require_predictor(terms)
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained under other terms; give the terms file that it was trained with")
    train = TrainedByTerms.make(terms, owner, drawn.population, seed=seed, progress=progress, always=drawn.always)
    return train, train.claimed, terms.privacy.delta


def _areas(game: Game, seen: Evidence, member: NDArray[np.bool_]) -> dict[str, Floats]:
    """Return the area under the curve [models] of each attack, and of the plainest: a small loss."""
    scores: dict[str, Floats] = {each: game.scores(each, seen) for each in ATTACKS}
    return {name: _area(score, member).reshape(-1) for name, score in {**scores, "loss": -seen.loss}.items()}


def _area(score: Floats, member: NDArray[np.bool_]) -> Floats:
    """Return the chance that a member's score exceeds another's, by ranks along the last axis."""
    ranks = rankdata(score, axis=-1)[..., member]
    return np.asarray((ranks.mean(axis=-1) - (ranks.shape[-1] + 1) / 2) / (~member).sum())


def _spread(areas: Floats) -> OtherModels:
    low, high = np.quantile(areas, [0.05, 0.95])
    return OtherModels(float(areas.mean()), float(low), float(high))
