"""An owner's inside view: what joining would add for its own customers, from its own rows. For its own eyes; nothing
leaves.

The forecast assumes that owners' rows follow one law, that of the public sample. Inside, an owner can do better. Joint
models as they may come out are drawn from the forecast; with each of them the owner makes its personal model, as
`parley refine` does, and all are judged on own rows that they were not made of, beside the model alone, which the same
procedure makes of no joint model (`outcome.personal.compared`). All of it is done again without the rows that judge,
the choice of weights and trees too, so that what choosing costs is in the figure. That is honest but coarse: own rows
are few. Where they do not visibly differ from the public sample's law it is weighed against moments (`personal_gain`),
which assume that law and a linear model; where they do, where the model alone is trees, or where moments see no gain
that counts, own rows alone decide. What stays an assumption: that the consortium's best model is about the public
sample's.

Without a public sample own rows are all that is known of anybody's. They cannot show what others bring, so moments
alone say it, as if everybody's rows followed the owner's law; of trees of own rows they count only what is left beside.

Formal guarantee: none. Everything here is computed from private rows without noise.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import fdtrc, ndtr, ndtri

from parley.data import Design
from parley.data.sources import Table
from parley.decisions.expectation.expectation import expect
from parley.decisions.knowledge.baselines import fit_errors
from parley.decisions.knowledge.pilot import Pilot, open_pilot
from parley.decisions.knowledge.sources import Sample, Source
from parley.decisions.outlook.joining import COUNTS
from parley.decisions.outlook.personal_gain import Owners
from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import Progress
from parley.learning.outcome.correction import MadeOf, PersonalModel
from parley.learning.outcome.personal import compared, plain_columns
from parley.learning.outcome.verdict import CONFIDENCE, Estimate
from parley.losses import EmpiricalRisk
from parley.owner.owner import Agreement, Owner
from parley.terms import Terms
from parley.validate import Floats, whole

Advice = Literal["join", "stay", "unknown"]

DRAWS = 8  # joint models as they may come out
LEAST_ROWS = 10
LEVEL = 0.05  # of the test: how often owners whose rows do follow the public law are said to differ
NORMAL = float(ndtri((1 + CONFIDENCE) / 2))  # standard errors to an end of an interval
# standard errors from which advice is given: it is then right with 69 % or more, as far as the estimate is normal
SURE = 0.5
NOTICED = 1e-4  # share of the cost alone: what is smaller is no gain that anybody notices
MOST = 16_000  # rows times joint models that are looked at; of many rows a few joint models say as much


@dataclass(frozen=True)
class LawTest:
    """Whether own rows may follow the public sample's law, as far as this model is concerned."""

    p_value: float
    statistic: float  # about 1 under one law
    directions: int  # of the parameters that were looked at

    @property
    def differs(self) -> bool:
        return self.p_value < LEVEL


@dataclass(frozen=True)
class InsideView:
    """What joining would add for one owner's customers: costs on own rows, in the target's own units."""

    owner: str
    rows: int
    gain: Estimate  # alone less personal, a row: what own rows and moments say together
    gain_of_rows: Estimate | None  # what own rows say alone; None: nothing, without a public sample
    gain_of_moments: Estimate  # what moments say
    alone: Estimate
    together: Estimate
    personal: Estimate
    law: LawTest | None  # None: there is no public sample, and everybody is taken to follow this owner's law
    draws: int
    worth: float = 0.0  # what joining must save to be worth it, as a share of the cost alone
    price: float = 0.0  # and in the target's own units: what its privacy costs the owner
    alone_model: MadeOf = "linear"  # of what the model alone is made, by own rows
    personal_model: MadeOf = "linear"  # and the personal one, with most of the joint models

    @property
    def verdict(self) -> Advice:
        return self.advice(self.worth)

    @property
    def least(self) -> float:
        """What joining must save a row, in the target's own units."""
        return self.worth * self.alone.mean + self.price

    @property
    def nothing(self) -> bool:
        """Whether joining changes nothing that anybody would notice: the personal model is the model alone."""
        return max(abs(self.gain.low), abs(self.gain.high)) < NOTICED * self.alone.mean

    def advice(self, worth: float) -> Advice:
        """The verdict for whom joining must save this share of the cost alone, and its price."""
        away = self.gain.mean - worth * self.alone.mean - self.price
        if self.nothing:
            return "stay"
        if not abs(away) > SURE * (self.gain.high - self.gain.mean) / NORMAL:
            return "unknown"
        return "join" if away > 0 else "stay"

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --inside --json` prints."""
        estimates = {
            name: (found := getattr(self, name)) and found.to_json()
            for name in ("gain", "gain_of_rows", "gain_of_moments", "alone", "together", "personal")
        }
        law = self.law and {"p_value": self.law.p_value, "level": LEVEL, "differs": self.law.differs}
        made = {"alone_model": self.alone_model, "personal_model": self.personal_model}
        head = {"owner": self.owner, "rows": self.rows, "verdict": self.verdict, **made}
        must = {"worth": self.worth, "price": self.price, "least": self.least}
        return {**head, **estimates, **must, "law": law, "draws": self.draws}


@dataclass(frozen=True, eq=False)
class Outlook:
    """What is publicly known before training: joint models [draws, P] as they may come out. The same for all owners."""

    known: Pilot
    models: Floats
    seed: int = 0

    def inside(
        self, owner: Owner, worth: float = 0.0, price: float = 0.0, progress: Progress = lambda done, total: None
    ) -> InsideView:
        """What joining would add for this owner's customers, from its own training rows; it is told to join if that is
        more than `worth`, a share of what they cost alone, and `price`, in units of that cost (`games.price`)."""
        if not 0 <= worth < 1:
            raise SettingError(f"worth: expected a share of the cost alone, from 0 to below 1; got {worth}")
        if not 0 <= price < np.inf:
            raise SettingError(f"price: expected a finite test cost a row, 0 or more; got {price}")
        agreement = owner.prepare(self.known.terms)
        rows = agreement.tables.train.in_memory().targeted()
        if len(rows) < LEAST_ROWS:
            raise DataError(
                f"{owner.name}: {len(rows)} rows to learn from are too few for a view of its own; expected "
                f"{LEAST_ROWS} or more"
            )
        if self.known.source.invented:
            own_law = outlook(self.known.terms, Sample(rows.for_studies()), self.seed, len(self.models))
            return replace(_by_own_law(own_law, owner, agreement, rows, progress), worth=worth, price=price)
        models = self.models[: max(2, MOST // len(rows))]
        unit, here = self.known.setup.preparation.target_scale**2, self.known.landscape()
        alone, refined = compared(agreement, models, plain_columns(owner, agreement)[0], False, progress)
        own, personal = unit * alone.losses, unit * np.array([each.losses for each in refined])  # [n], [draws, n]
        joint = unit * self.known.objective.record_losses(rows, models)
        of_rows, of_moments = _estimate(own - personal), _by_moments(self.known, rows, models, owner.name)
        law = _law(self.known, rows)
        beside, counts = _left_beside_trees(of_moments, alone), COUNTS * unit * here.estimation / len(rows)
        # moments know the best weight, which has to be found: where they see no gain that counts, they say nothing
        by_rows = law.differs or alone.made_of == "boosted trees" or not beside.mean > counts
        gain = of_rows if by_rows else _weighed(of_rows, beside)
        return InsideView(
            owner=owner.name,
            rows=len(rows),
            gain=gain,
            gain_of_rows=of_rows,
            gain_of_moments=of_moments,
            alone=Estimate.of(own),
            together=_estimate(joint),
            personal=_estimate(personal),
            law=law,
            draws=len(models),
            worth=worth,
            price=price,
            alone_model=alone.made_of,
            personal_model=Counter(each.made_of for each in refined).most_common(1)[0][0],
        )


def outlook(terms: Terms, pilot: Table | Source | None = None, seed: int = 0, draws: int = DRAWS) -> Outlook:
    """Joint models as these terms may bring them, by running the algorithm on the public sample with the owners'
    noise."""
    known = open_pilot(terms, pilot)
    if not known.has_rows:
        raise DataError("an inside view runs the algorithm on rows, so it needs a public sample; give one as the pilot")
    return Outlook(known, expect(known).outcome(seed, whole(draws, "draws"))[1][:draws], seed)


def inside_view(
    terms: Terms,
    owner: Owner,
    pilot: Table | Source | None = None,
    seed: int = 0,
    draws: int = DRAWS,
    worth: float = 0.0,
    price: float = 0.0,
    progress: Progress = lambda done, total: None,
) -> InsideView:
    """What joining by these terms would add for this owner's customers, from its own training rows."""
    return outlook(terms, pilot, seed, draws).inside(owner, worth, price, progress)


def _by_own_law(outlook: Outlook, owner: Owner, agreement: Agreement, rows: Design, progress: Progress) -> InsideView:
    """The view of an owner whose rows stand for everybody's in this outlook.

    A joint model is near the optimum of the very rows that judge it: what they make of it is too good by what estimates
    from so many rows cost, and by what the joint estimate costs.
    """
    known, models, setup = outlook.known, outlook.models, agreement.setup
    unit, here = setup.preparation.target_scale**2, known.landscape()
    own, _ = compared(agreement, models[:0], plain_columns(owner, agreement)[0], False, progress)
    alone = Estimate.of(unit * own.losses)
    of_moments = _by_moments(known, rows, models, owner.name)
    gain = _left_beside_trees(of_moments, own)
    optimism = unit * here.estimation * (1 / len(rows) + 1 / float(known.rows.sum()))
    joint = _estimate(unit * known.objective.record_losses(rows, models)).moved(optimism)
    return InsideView(
        owner=owner.name,
        rows=len(rows),
        gain=gain,
        gain_of_rows=None,
        gain_of_moments=of_moments,
        alone=alone,
        together=joint,
        personal=alone.moved(-gain.mean),
        law=None,
        draws=len(models),
        alone_model=own.made_of,
        personal_model=own.made_of,
    )


def law_test(
    objective: EmpiricalRisk, public: Design, optimum: Floats, rows: Design, radius: float | None = None
) -> LawTest:
    """Whether own rows and public ones pull their common optimum apart by more than chance.

    Under one law the difference of their mean gradients there is about normal with mean 0. Its covariance is the sum of
    what each of the two scatters, which need not be alike, so the sum of squares follows Hotelling's law with the
    degrees of freedom of Krishnamoorthy and Yu (2004). At the public optimum (`optimum`, where the search begins) the
    test would err: a name that few public rows have is fitted too well there, and own rows that have it too would seem
    to follow another law.
    """
    rows = rows.where(np.linspace(0, len(rows) - 1, min(len(rows), MOST)).astype(np.int64))
    few = replace(objective, regularisation=objective.regularisation + 1 / (len(rows) + len(public)))
    common = few.optimum([public, rows], radius, precision=1e-5, start=optimum)  # finite, whatever separates
    both = [objective.record_gradients(each, optimum if common is None else common) for each in (rows, public)]
    scatter = [np.atleast_2d(np.cov(each.T)) / len(each) for each in both]
    values, directions = np.linalg.eigh(scatter[0] + scatter[1])
    seen = values > 1e-9 * max(float(values[-1]), 1e-300)
    count, whitened = int(seen.sum()), directions[:, seen] / np.sqrt(values[seen])
    squares = float(np.sum(((both[0].mean(axis=0) - both[1].mean(axis=0)) @ whitened) ** 2))
    shares = [whitened.T @ each @ whitened for each in scatter]
    lost = sum((np.sum(s**2) + np.trace(s) ** 2) / (len(g) - 1) for s, g in zip(shares, both, strict=True))
    free = max(count * (1 + count) / float(lost) - count + 1, 1.0)
    statistic = squares / count * free / (free + count - 1)
    return LawTest(float(fdtrc(count, free, statistic)), statistic, count)


def contradicted(terms: Terms, owners: Sequence[Owner]) -> dict[str, LawTest]:
    """The owners whose own training rows contradict the public sample: `LEVEL` is how often any is named where all
    follow its law. Tables too large to hold are not looked at, nor are trees, which fit the public rows too well.

    Formal guarantee: none. This is computed from private rows without noise, for the eyes of the person who holds these
    tables. It is never stored, logged or sent, and no program may decide by it.
    """
    known = open_pilot(terms)
    if known.source.invented or known.grown is not None:
        return {}
    found = {}
    for owner in owners:
        try:
            rows = owner.prepare(known.setup).tables.train.in_memory().targeted()
        except DataError:
            continue
        if len(rows) >= LEAST_ROWS:
            found[owner.name] = _law(known, rows)
    return {name: test for name, test in found.items() if test.p_value < LEVEL / len(found)}


def _law(known: Pilot, rows: Design) -> LawTest:
    return law_test(known.objective, known.design, known.landscape().optimum, rows, known.setup.limits.radius)


def _estimate(losses: Floats) -> Estimate:
    """The mean over draws and rows [draws, n]; its interval has room for both kinds of chance."""
    by_row, by_draw = Estimate.of(losses.mean(axis=0)), Estimate.of(losses.mean(axis=1))
    reach = float(np.hypot(by_row.high - by_row.mean, by_draw.high - by_draw.mean if len(losses) > 1 else 0.0))
    return Estimate(by_row.mean, by_row.mean - reach, by_row.mean + reach)


def _by_moments(known: Pilot, rows: Design, models: Floats, name: str) -> Estimate:
    """The gain by moments, in the target's own units, for an owner whose optimum lies as far from the public one as its
    own rows say.

    Of d, the step from the public optimum that own rows ask for, estimation explains a part; the rest is the
    difference, known up to its standard error and never below zero: the gain is averaged over what it may be. The
    interval has room for that, and for moments that are off by as much as they say: they know nothing of losses that
    are not squares, of scatter that is not the public sample's, or of a weight that has to be found.
    """
    here, m = known.landscape(), len(known.design)
    curvature = here.curvature[here.bent]
    scatter = 2 * here.estimation / (len(curvature) * curvature)  # of one record, alike in all directions' costs
    step = here.inward(
        known.objective.mean_gradient(rows, here.optimum) - known.objective.mean_gradient(known.design, here.optimum)
    )[here.bent]
    chance = scatter * (1 / len(rows) + 1 / m)
    excess = float(0.5 * curvature @ ((step / curvature) ** 2 - chance))
    error = float(np.sqrt(0.5 * np.sum((curvature * chance) ** 2)))
    place = [part.name for part in known.terms.owners].index(name)
    records = known.rows.copy()
    records[place] = len(rows)
    joint = np.mean(here.inward(models - here.optimum) ** 2, axis=0)[here.bent]
    fits = fit_errors(known)
    fit = None if fits is None else np.sqrt(np.mean(fits**2, axis=0))[here.bent]
    none = np.zeros_like(joint)
    owners = Owners(curvature, records, scatter, none, joint, here.inward(here.optimum)[here.bent], fit)
    unit = known.setup.preparation.target_scale**2

    def gain(difference: float) -> float:
        tau2 = 2 * difference / (len(curvature) * curvature)
        return float((owners.alone(tau2) - owners.personal(tau2))[place].mean()) * unit

    gains = [gain(difference) for difference in _above_zero(excess, error)]
    reach = NORMAL * float(np.hypot(np.std(gains), np.mean(gains)))
    return Estimate(float(np.mean(gains)), float(np.mean(gains)) - reach, float(np.mean(gains)) + reach)


def _above_zero(mean: float, error: float, count: int = 9) -> Floats:
    """Evenly likely values of what was estimated like this and is not below zero."""
    if not error > 0:
        return np.full(count, max(mean, 0.0))
    away = max(mean / error, -30.0)
    above = ndtr(away) * (np.arange(count) + 0.5) / count  # of what is above zero
    return np.asarray(np.maximum(error * (away - ndtri(above)), 0.0))


def _left_beside_trees(gain: Estimate, alone: PersonalModel) -> Estimate:
    """What is left of the gain that moments know, which is a linear model's, where trees of own rows alone take its
    place: on average the share that is linear, at most all of it."""
    left = 1 - next((way.share for way in alone.ways if way.name == "own"), 0.0)
    return gain if left == 1 else Estimate(left * gain.mean, min(left * gain.low, 0.0), max(gain.high, 0.0))


def _weighed(first: Estimate, second: Estimate) -> Estimate:
    """Two independent estimates of one gain, by their precisions; one without a spread is sure."""
    spreads = np.array([first.high - first.mean, second.high - second.mean])
    if not spreads.min() > 0:
        return (first, second)[int(spreads.argmin())]
    precisions = spreads**-2.0
    mean = float(precisions @ [first.mean, second.mean] / precisions.sum())
    reach = float(precisions.sum() ** -0.5)
    return Estimate(mean, mean - reach, mean + reach)
