"""The planner: it finds the way of training with the best forecast for the budgets that owners agreed on. It looks only
at the terms and the pilot, so its choice costs no privacy and every owner can repeat it. A survey by moments (`survey`)
finds candidates, the forecast judges them (`search`), and the best once more with fresh random numbers."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from parley.data.blocks import one_thread
from parley.data.sources import Table
from parley.data.split import HeldBack
from parley.decisions.knowledge.baselines import Baselines, baselines, best_cost
from parley.decisions.knowledge.pilot import Pilot, open_pilot
from parley.decisions.knowledge.sources import Source
from parley.decisions.planning.coordinate_search import (
    Found,
    Unjudged,
    asks_gradients,
    climbed,
    free_to_step,
    mechanisms_for,
    one_release,
    perturbed_minimum,
    top_of,
    with_mechanism,
)
from parley.decisions.planning.noise_terms import shared_terms
from parley.decisions.planning.refits import refits
from parley.decisions.planning.search import (
    DIVERGES_REASON,
    Search,
    attempt,
    checked,
    expect_quickly,
    fewer_rows,
)
from parley.decisions.planning.sweep import MAX_SURVEY_PARAMETERS, survey
from parley.decisions.planning.varieties import varieties, whitened
from parley.errors import SettingError, StalePinsError, TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.privacy.mechanisms.gaussian import probability
from parley.terms import Terms
from parley.terms.catalogue import THREE_HOST_SWITCHES
from parley.terms.sections import OWNER_UNIT
from parley.validate import whole

CANDIDATES_PER_KIND = 4  # candidates of each kind that the survey passes on to the forecast
MAX_EXCESS_RATIO = 4.0  # times the survey's best: kinds beyond are not looked at closer, except one of each mechanism
# rounds after which only the first candidate of a kind is looked at; that a climb may take
MAX_SEARCH_ROUNDS, MAX_CLIMB_ROUNDS = 1000, 1500
MAX_SHOWN_RATIO = 3.0  # times the best: what is worse is not checked


@dataclass(frozen=True)
class Choice:
    """One way to spend the same budgets, and its forecast."""

    label: str
    algorithm: str
    mechanism: str
    delta: float
    horizon: int
    step: float | None  # None: the algorithm has none
    clip: float | None  # None: bounds of the columns do
    relative_fitness: float
    local_steps: int | None = None
    proximal: float | None = None
    variates: str | None = None
    batches: int | None = None
    epochs: int | None = None
    optimiser: str | None = None
    average: str | None = None
    decay: float | None = None
    momentum: float | None = None
    start: str | None = None
    whitening: str | None = None
    expected_cost: float | None = None  # of the joint model on new rows, in the target's own units
    unjudged: str | None = None  # why there is no forecast

    def to_json(self) -> dict[str, Any]:
        """Return its fields; null if there is no forecast."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in vars(self).items()
        }


@dataclass(frozen=True)
class Proposal:
    """The planner's candidates, its choice, and the terms with that filled in. If nothing could be judged, `best` and
    `expected_cost` are None and the terms are unchanged."""

    choices: tuple[Choice, ...]
    best: Choice | None
    nobody: float  # relative fitness of the model that asks nobody
    terms: Terms
    expected_cost: float | None  # of the best choice's joint model on new rows, in the target's own units
    baselines: Baselines  # models for which nobody is asked
    held_back: HeldBack | None = field(default=None, compare=False)  # costs of the public sample's own model
    unjudged: tuple[Unjudged, ...] = ()  # what could not be judged, choices among it, and why
    invented: bool = False  # whether the rows on which choices were compared are made up
    plan_shared: Callable[[], "Proposal"] | None = field(default=None, repr=False, compare=False)

    @property
    def public_fit(self) -> float | None:
        """The cost of the public sample's own model in these columns, on rows held back."""
        return None if self.held_back is None else self.held_back.cost

    @cached_property
    def shared(self) -> "Proposal | None":
        """The plan with one noise for all by three hosts, computed on demand; None if the terms have it or cannot."""
        return None if self.plan_shared is None else self.plan_shared()

    def require_choice(self) -> Choice:
        """Return the best choice; raise an error if nothing could be judged."""
        if self.best is None:
            reasons = list(dict.fromkeys(each.why for each in self.unjudged))
            raise SettingError(
                f"no plan was chosen: Parley could evaluate none of {len(self.unjudged)} ways to spend the budgets "
                f"({'; '.join(reasons[:3])}); give a larger public sample, or set model.radius or model.regularisation"
            )
        return self.best

    def to_json(self) -> dict[str, Any]:
        """Return the object under `plan` in `parley forecast --plan --json`."""
        choices = [choice.to_json() for choice in self.choices]
        best = None if self.best is None else self.best.to_json()
        content = {"best": best, "choices": choices, "nobody": self.nobody, "terms_hash": self.terms.hash}
        kind = {"noise": self.terms.privacy.noise, "expected_cost": self.expected_cost}
        kind |= {"owner_count": len(self.terms.owners)}
        kind |= {"hosts": self.terms.noise.hosts, "paired": self.terms.noise.paired}
        kind |= {key: bool(getattr(self.terms.privacy, key)) for key in THREE_HOST_SWITCHES}
        return {
            **content,
            **kind,
            "baselines": self.baselines.to_json(),
            "shared": None if self.shared is None else self.shared.to_json(),
            "unjudged": [vars(each) for each in self.unjudged],
        }


def require_rounds(terms: Terms) -> None:
    """Refuse to plan for rounds that do not wait, or for answers clipped as a whole."""
    if terms.privacy.unit == OWNER_UNIT:
        raise SettingError(
            "privacy.unit: the planner cannot compare clips of whole answers. With unit = 'owner', forecast several "
            "versions of the terms with different clips, rounds and steps"
        )
    if not terms.learning.waits:
        raise SettingError(
            "learning.staleness: the planner compares only rounds that wait for all owners; plan without "
            "learning.staleness, then forecast with learning.staleness and owners.answers"
        )


@one_thread
def plan(
    terms: Terms,
    pilot: Table | Source | None = None,
    delta: float | None = None,
    seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> Proposal:
    """Choose rounds, steps, averages, clip, start, whitening and mechanism for the owners' budgets. No private record
    is read.

    The planner does not choose hosts: if the terms name none, the proposal also offers the plan with one noise for all.

    Parameters
    ----------
    terms
        The terms; their budgets stay.
    pilot
        Public knowledge, as `forecast` takes it; default: the terms' own public sample.
    delta
        Allows Gaussian noise for pure terms. It weakens the promise, so people must decide it.
    seed
        The seed of the pilot runs.
    progress
        Called with the progress: (done, of).

    Returns
    -------
    Proposal
        The candidates, the `best` one, and the `terms` with that filled in.

    Examples
    --------
    >>> import parley
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "int_rate": [5, 31]}},
    ...     "learning": {"horizon": 50},
    ...     "privacy": {"clip": 2e4},
    ...     "owners": [{"name": "a", "records": 900, "epsilon": 1.0}],
    ... })
    >>> proposal = plan(terms, parley.data.synthetic_lending(100, seed=1))
    >>> proposal.best.relative_fitness < proposal.choices[0].relative_fitness  # as written
    True
    """
    whole(seed, "seed", least=0)
    require_rounds(terms)
    try:
        known = open_pilot(terms, pilot)
    except StalePinsError:  # edited since they were pinned: whoever writes the plan pins them again
        known = open_pilot(terms.changed(model={"preparation": None, "preparation_sha256": None}), pilot)
    allowed = terms.privacy.delta if delta is None else probability(delta)
    proposal = _plan(known, allowed, seed, progress)
    hosted = None if terms.noise.summed or len(terms.owners) == 1 else _try_shared(known, allowed)
    return (
        proposal if hosted is None else replace(proposal, plan_shared=partial(_plan, hosted, allowed, seed, progress))
    )


@one_thread
def _plan(known: Pilot, delta: float, seed: int, progress: Progress) -> Proposal:
    """Return the best of all choices that keep where noise is drawn."""
    terms, judged = known.terms, known.leaning()
    if known.grown is not None:
        looked = refits(judged, delta)
    elif _sweeps(judged):
        looked = _swept(judged, delta, seed, progress)
    else:
        looked = climbed(known, delta, seed, progress)
    candidates = [each for each in looked if isinstance(each, Found)]
    least = min((each.value for each in candidates), default=math.inf)
    shown = [each for each in candidates if each.value <= MAX_SHOWN_RATIO * least or each is _first(candidates, each)]
    looked_at = [Found("as written", judged, 0.0), *_published(judged), *sorted(shown, key=lambda each: each.value)]
    rows: list[tuple[Choice, Terms]] = []
    for each in looked_at:
        top = _judged(each, known, seed)
        if all(replace(top, label=other.label) != other for other, _ in rows):  # another knob that buys nothing
            rows.append((top, each.pilot.terms))
    unjudged = [each for each in looked if isinstance(each, Unjudged)]
    unjudged += [Unjudged(choice.label, choice.unjudged) for choice, _ in rows if choice.unjudged is not None]
    best, best_terms = min(rows, key=lambda row: row[0].relative_fitness)
    asks_nobody, landscape = baselines(known), known.landscape()
    unit, fit = known.setup.preparation.target_scale**2, known.own_fit
    alone = None if fit is None else fit.held_back.times(unit)
    nobody = (asks_nobody.zero / unit - landscape.least_cost) / landscape.least_at(float(known.rows.sum()))
    choices, made_up = tuple(choice for choice, _ in rows), known.source.invented
    if best.unjudged is not None:
        return Proposal(choices, None, nobody, terms, None, asks_nobody, alone, tuple(unjudged), made_up)
    written = best_terms if best_terms == terms else _with_step(best_terms, best)
    cost = best.expected_cost
    return Proposal(choices, best, nobody, written, cost, asks_nobody, alone, tuple(unjudged), made_up)


def _first(found: list[Found], like: Found) -> Found:
    """Return the best of those with the same mechanism and algorithm."""
    learning, privacy = like.pilot.terms.learning, like.pilot.terms.privacy
    kind = privacy.mechanism, learning.rules.asks
    same = [
        each for each in found if (each.pilot.terms.privacy.mechanism, each.pilot.terms.learning.rules.asks) == kind
    ]
    return min(same, key=lambda each: each.value)


def _published(known: Pilot) -> list[Found]:
    """Return 100 rounds with the automatic step for comparison, unless the terms are just that."""
    if known.grown is not None or not asks_gradients(known.terms):
        return []
    published = attempt(known, learning={"horizon": 100, "step": "auto"})
    return (
        []
        if published is None or published.terms == known.terms
        else [Found("100 rounds, automatic step", published, 0.0)]
    )


def _sweeps(known: Pilot) -> bool:
    """Return whether moments can survey all candidates: swept algorithms on rows, in few parameters."""
    plain = known.algorithm.swept and known.terms.privacy.clip_norm is None
    return plain and known.has_rows and known.setup.parameters <= MAX_SURVEY_PARAMETERS


def _swept(known: Pilot, delta: float, seed: int, progress: Progress) -> list[Found | Unjudged]:
    """Return the best candidate of every kind, after a climb from the best of all."""
    terms, seen, best_of_kinds, unjudged = (
        known.terms,
        list[tuple[float, str, list[Pilot]]](),
        list[Found](),
        list[Unjudged](),
    )
    kept = list[tuple[str, Pilot]]()
    for label, kind in varieties(known, delta):
        if isinstance(kind, Pilot):
            kept.append((label, kind))
        else:
            unjudged.append(Unjudged(label, kind))
    steps = 2 * len(kept) + 3
    for place, (label, pilot) in enumerate(kept):
        progress(place, steps)
        quick = fewer_rows(pilot)
        candidates = survey(quick)[:CANDIDATES_PER_KIND]
        if candidates:
            seen.append(
                (min(each.excess for each in candidates), label, [quick.under(each.terms) for each in candidates])
            )
        else:
            unjudged.append(
                Unjudged(label, "the planner cannot compute the error of any choice of rounds, step and clip")
            )
    seen.sort(key=lambda row: row[0])
    search, mechanisms = Search(seed), set[str]()
    for place, (excess, label, pilots) in enumerate(seen):
        progress(len(kept) + place, steps)
        mechanism = pilots[0].terms.privacy.mechanism
        if excess > MAX_EXCESS_RATIO * seen[0][0] and mechanism in mechanisms:
            continue
        mechanisms.add(mechanism)
        allowed = max(MAX_SEARCH_ROUNDS - search.rounds, 0) + pilots[0].terms.learning.horizon
        looked = [pilot for pilot in pilots if 2 * pilot.terms.learning.horizon <= allowed] or pilots[:1]
        at = min(looked, key=search.judge)
        if math.isfinite(search.judge(at)):
            best_of_kinds.append(Found(label, at, search.judge(at)))
        else:
            unjudged.append(Unjudged(label, search.judged(at).why or DIVERGES_REASON))
    if best_of_kinds:
        progress(steps - 3, steps)
        best = min(best_of_kinds, key=lambda each: each.value)
        top = search.climb(best.pilot, ("horizon", "clip", "step"), MAX_CLIMB_ROUNDS)
        best_of_kinds[best_of_kinds.index(best)] = replace(best, pilot=top, value=search.judge(top))
    kinds: list[Found | Unjudged] = [*best_of_kinds, *unjudged]
    if terms.model.predicts == "number":
        for mechanism in mechanisms_for(delta):
            begin = one_release(with_mechanism(free_to_step(terms), mechanism, delta))
            if begin is not None:
                kinds.append(top_of(f"{mechanism}, one release of statistics", known, begin, seed))
    minimum = perturbed_minimum(with_mechanism(terms, "laplace", delta))
    if minimum is not None:
        kinds.append(top_of("one release of a perturbed minimum", known, minimum, seed))
    return kinds


def _try_shared(known: Pilot, delta: float) -> Pilot | None:
    try:
        hosted = known.under(shared_terms(known.terms, delta))
        hosted.setup.law()
    except TermsError:
        return None
    return hosted


def _judged(found: Found, known: Pilot, seed: int) -> Choice:
    """Forecast a candidate on all rows, with random numbers that the search did not use."""
    terms = found.pilot.terms
    pilot = known.leaning().under(terms).leaning()
    if terms.model.whitening != known.terms.model.whitening:
        pilot = whitened(known, terms, 1).leaning()
    landscape, records = known.landscape(), float(known.rows.sum())
    least = landscape.least_at(records)
    judged = checked(pilot, seed + 1)
    value, cost = judged.value, None
    if judged.why is None:
        cost = (
            best_cost(known) + _moved(pilot) * landscape.estimation / records + value
        ) * known.setup.preparation.target_scale**2
    learning = terms.learning
    return Choice(
        label=found.label,
        algorithm=learning.algorithm,
        mechanism=terms.privacy.mechanism,
        delta=terms.privacy.delta,
        horizon=learning.horizon,
        step=pilot.algorithm.step_length,
        clip=pilot.bound.value if pilot.bound.clips else None,
        relative_fitness=value / least,
        local_steps=learning.local_steps,
        proximal=learning.proximal,
        variates=learning.variates,
        batches=learning.batches,
        epochs=learning.epochs,
        optimiser=learning.optimiser,
        average=learning.average,
        decay=learning.decay,
        momentum=learning.momentum,
        start=learning.start,
        whitening=terms.model.whitening,
        expected_cost=cost,
        unjudged=judged.why,
    )


def _moved(pilot: Pilot) -> float:
    """Return the share of the owners' estimation error that the model takes over (`Expectation.moved`)."""
    return expect_quickly(pilot).moved() if pilot.starts_publicly else 1.0


def _with_step(terms: Terms, best: Choice) -> Terms:
    """Write the step into the terms as a number, since a curvature's last digits differ between machines."""
    return terms if best.step is None else terms.changed(learning={"step": best.step})
