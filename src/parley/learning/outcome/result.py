"""What came out of a run: the model, its cost and quality, and the score that owners release. The score's figures are
post-processing of releases (`losses/score.py`) and cost nothing more; their standard errors cover the noise alone, not
the sampling of the held-out rows."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from parley.errors import AbortedRound, ParleyError
from parley.learning.outcome.metrics import Metrics, Quality
from parley.learning.outcome.model import JointModel, make_model
from parley.learning.outcome.notices import Notice
from parley.learning.outcome.personal import personal_model
from parley.learning.outcome.posterior import CoefficientInterval, Posterior
from parley.learning.outcome.shapes import Shapes
from parley.losses.loss import RecordBound
from parley.losses.moments import moments_bound
from parley.losses.score import scoring
from parley.network.exchange import Exchange
from parley.owner.owner import Agreement
from parley.privacy.accounting import StableBound, mechanism_norm, shared_record_epsilon, stable_epsilon
from parley.privacy.accounting.stable_bounds import stable_ratio
from parley.privacy.events import Adjacency
from parley.protocol.aggregation import Aggregation
from parley.protocol.queries import ScoreQuery
from parley.protocol.setup import Setup
from parley.protocol.stages import make_schedule, uses
from parley.terms import Terms
from parley.validate import Floats, upper


@dataclass(frozen=True)
class Figure:
    """A released figure, and its standard error from the noise alone."""

    value: float
    standard_error: float


@dataclass(frozen=True, eq=False)
class Score:
    """The score of one owner (or all, pooled): noisy `shares` [replicates, d], with noise of this `deviation`."""

    name: str
    rows: int  # held out, public; where people are, so many are expected
    shares: Floats
    deviation: float
    # of the first replicate, whose model is the run's; None where the noise drowns it
    figures: dict[str, Figure | None]
    expected: bool = False  # whether `rows` are expected, not counted

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rows": self.rows,
            "figures": {name: None if figure is None else vars(figure) for name, figure in self.figures.items()},
        }


@dataclass(frozen=True, eq=False)
class Scores:
    """Owners' scores in the order of the terms, and their mean weighted by held-out rows."""

    owners: tuple[Score, ...]
    pooled: Score

    def to_json(self) -> dict[str, Any]:
        """Return the object under `scores` in `parley train --json`."""
        return {"owners": [score.to_json() for score in self.owners], "pooled": self.pooled.to_json()}


def ask_scores(setup: Setup, aggregation: Aggregation, exchange: Exchange, theta: Floats) -> Scores | None:
    """Ask every owner to score the model theta [..., P] on its held-out rows; None if no score was agreed on."""
    terms = setup.terms
    if terms.privacy.score_epsilon is None:
        return None
    query = ScoreQuery.ask(setup.hash, terms.learning.learner, terms.rounds, theta)
    try:
        answers = exchange.ask(dict.fromkeys(setup.schedule.names, query))
    except AbortedRound:
        return None  # it was paid for and never comes; the model is there all the same
    noise = aggregation.noise(setup, [name for answer in answers for name in answer.owners], stage=1)
    read = scoring(setup.preparation).figures

    def score(name: str, records: int, value: Floats, variance: float) -> Score:
        shares = value.reshape(-1, value.shape[-1])
        first = {key: (float(v[0]), float(e[0])) for key, (v, e) in read(shares, variance**0.5).items()}
        figures = {key: None if np.isnan(pair).any() else Figure(*pair) for key, pair in first.items()}
        return Score(name, records, shares, variance**0.5, figures, terms.model.holdout_by is not None)

    single = answers if all(len(answer.owners) == 1 for answer in answers) else []  # a sum says nothing of its owners
    owners = [score(a.owner, a.records, a.value, float(v)) for a, v in zip(single, noise.variances, strict=False)]
    return Scores(
        tuple(owners), score("all", int(noise.records.sum()), aggregation.pooled(answers), noise.all_together)
    )


@dataclass(frozen=True)
class OwnerOutcome:
    """What one owner promised and spent."""

    name: str
    records: int
    epsilon: float
    epsilon_spent: float | None  # None: an owner elsewhere that could not be asked
    clipped_share: float | None  # of its records at the final model; study only
    answers: int  # of its answers that the model was made of
    # what one training answer alone costs those whom it is about; `epsilon` is for all together
    step_epsilon: float | None = None
    # answers that came too late to be used (`learning.staleness`), or that the first run of a study lost
    # (`owners.availability`); they are paid for all the same
    late: int = 0


@dataclass(frozen=True, eq=False)
class Result:
    """A trained model and, in a study, how good it is."""

    terms: Terms
    model: JointModel
    own_model: JointModel | None  # the learning owner's own refinement, which never leaves it
    theta: Floats  # [replicates, p]
    moments: dict[str, Any] | None  # the released second moments (first replicate), where the algorithm asked for them
    quality: Quality | None  # measured from the private tables: None for a release
    scores: Scores | None  # released by the owners, with noise: None where the terms agree on none
    owners: tuple[OwnerOutcome, ...]
    adjacency: Adjacency
    shared_record_epsilon: float
    safe_noise: bool | None  # None: owners elsewhere, whose noise nobody here sees
    released: bool
    seconds: float
    # whether the owners were elsewhere: what they spent, and that it was debited, is their own word
    by_word: bool = False
    # how far the farthest owner's own point lies from the model, where there is no centre
    consensus_error: float | None = None
    # with one noise for all: rounds that brought no step, as far as this process saw them
    aborted_rounds: tuple[int, ...] = ()
    # owners whose answers bound, noise and stated spread do not explain, as far as this process heard them
    notices: tuple[Notice, ...] = ()

    @property
    def terms_hash(self) -> str:
        return self.terms.hash

    @property
    def replicates(self) -> int:
        return len(self.theta)

    @property
    def path(self) -> Floats | None:
        """Relative fitness after each round [T, replicates], in a study."""
        return None if self.quality is None else self.quality.path

    @property
    def cost(self) -> float | None:
        """The mean training cost over replicates, in a study; the median if the noise has no variance."""
        return None if self.quality is None else self.quality.cost

    @property
    def optimal_cost(self) -> float | None:
        """The least possible training cost, in a study."""
        return None if self.quality is None else self.quality.optimal_cost

    @property
    def metrics(self) -> Metrics:
        """Task metrics on held-out rows, in a study; empty for a release."""
        return {} if self.quality is None else self.quality.metrics

    @property
    def optimal_metrics(self) -> Metrics:
        """Task metrics of the model without privacy."""
        return {} if self.quality is None else self.quality.optimal_metrics

    @property
    def intervals(self) -> tuple[CoefficientInterval, ...] | None:
        """90 % intervals of the population's coefficients, in the columns' own units; None without a posterior."""
        return self.model.intervals()

    @property
    def shapes(self) -> Shapes | None:
        """Each column's contribution to the model, where columns add up, with noise bands over several runs."""
        return self.model.shapes(self.theta)

    @property
    def relative_fitness(self) -> dict[str, float] | None:
        """psi = f(model)/f(theta*) - 1 over the replicates (W eq. 13); no mean if the noise has no variance."""
        if self.path is None:
            return None
        last = self.path[-1]
        q25, median, q75 = (float(q) for q in np.quantile(last, [0.25, 0.5, 0.75]))
        mean = {} if self.terms.studied else {"mean": float(last.mean())}
        return {**mean, "median": median, "q25": q25, "q75": q75}

    @cached_property
    def stable_bounds(self) -> dict[str, StableBound] | None:
        """The cost of each owner's training answers with stable noise, by name; None for other noise."""
        return stable_bounds(self.terms) if self.terms.studied else None

    @property
    def moments_bound(self) -> RecordBound | None:
        """The smallest clip of second moments that cuts no record, by the columns' bounds; None without bounds."""
        return moments_bound(self.model.preparation_, None, mechanism_norm(self.terms.privacy.mechanism))

    @property
    def relative_fitness_undefined(self) -> str | None:
        """Why a study has no relative fitness, such as separable classes; None if it has one, and for a release."""
        return None if self.quality is None else self.quality.undefined

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley train --json` prints."""
        return {
            "title": self.terms.title,
            "relative_fitness": self.relative_fitness,
            "relative_fitness_undefined": self.relative_fitness_undefined,
            "cost": self.cost,
            "optimal_cost": self.optimal_cost,
            "metrics": self.metrics,
            "optimal_metrics": self.optimal_metrics,
            "target_words": self.model.preparation_.target_words,
            "scores": None if self.scores is None else self.scores.to_json(),
            "owners": [vars(owner) for owner in self.owners],
            "adjacency": self.adjacency,
            "shared_record_epsilon": self.shared_record_epsilon,
            **({} if (bounds := self.stable_bounds) is None else {"stable": {k: vars(b) for k, b in bounds.items()}}),
            "replicates": self.replicates,
            "safe_noise": self.safe_noise,
            "released": self.released,
            "by_word": self.by_word,
            "void_rounds": list(self.aborted_rounds),
            "notices": [notice.to_json() for notice in self.notices],
            "theta": self.theta[0].tolist(),
            "moments": self.moments,
            "intervals": None if self.intervals is None else [vars(each) for each in self.intervals],
            "shapes": None if (shapes := self.shapes) is None else shapes.to_json(),
            "repaired": None if self.model.posterior_ is None else self.model.posterior_.repaired,
            "apart": self.consensus_error,
            "terms_hash": self.terms_hash,
            "seconds": self.seconds,
        }


def make_result(
    setup: Setup,
    theta: Floats,
    *,
    owners: Iterable[OwnerOutcome],
    scores: Scores | None,
    released: bool,
    seconds: float,
    own: Agreement | None = None,
    moments: dict[str, Any] | None = None,
    posterior: Posterior | None = None,
    quality: Quality | None = None,
    safe_noise: bool | None = None,
    by_word: bool = False,
    consensus_error: float | None = None,
    aborted_rounds: Iterable[int] = (),
    notices: Iterable[Notice] = (),
) -> Result:
    """Build the result of a run that ended with the models theta [replicates, P]."""
    terms, first = setup.terms, theta[0]
    return Result(
        terms=terms,
        model=make_model(setup.preparation, first, setup.hash, released, posterior),
        own_model=None if own is None else _refined(own, first),
        theta=theta,
        moments=moments,
        quality=quality,
        scores=scores,
        owners=tuple(owners),
        adjacency=Adjacency.from_unit(terms.privacy.unit),
        shared_record_epsilon=shared_record_epsilon(
            [upper(terms.promised_epsilon(o.name)) for o in terms.owners], terms.privacy.shared_records
        ),
        safe_noise=safe_noise,
        released=released,
        seconds=seconds,
        by_word=by_word,
        consensus_error=consensus_error,
        aborted_rounds=tuple(aborted_rounds),
        notices=tuple(notices),
    )


def stable_bounds(terms: Terms) -> dict[str, StableBound]:
    """Bound the joint cost of each owner's training answers, with the noise that these terms calibrate.

    Formal guarantee: `high` is at most what the terms promise for training, in every direction, under replace-one
    adjacency, for exactly sampled noise. `one_dimensional` holds only for differences in a single number. Secret draws
    count for nothing (`series.StableSeries`).
    """
    schedule = make_schedule(terms)
    return {
        owner.name: _bound(terms, owner.name, uses(terms.learning, schedule.rounds_of(owner.name)))
        for owner in terms.owners
    }


def _refined(own: Agreement, joint: Floats) -> JointModel | None:
    """Make the learning owner's personal model; None on failure, so that the joint one is not lost."""
    setup = own.setup
    columns = own.tables.train.in_memory().targeted().X if setup.preparation.unturned is setup.preparation else None
    try:
        found = personal_model(own, joint, columns)
    except ParleyError:
        return None
    return make_model(setup.preparation, found.theta, setup.hash, released=False, trees=found.trees)


def _bound(terms: Terms, name: str, count: int) -> StableBound:
    """Bound the cost of one owner's `count` answers, over all copies of a record that several owners may hold."""
    privacy, copies = terms.privacy, terms.privacy.shared_records
    alpha, delta = privacy.alpha or 2.0, privacy.delta / copies
    ratio = stable_ratio(alpha, float(terms.training_epsilon(name) / copies), delta, count)
    once = stable_epsilon(alpha, ratio, delta, compositions=count)
    figures = {key: copies * getattr(once, key) for key in ("low", "high", "one_dimensional")}
    return replace(once, **figures, delta=privacy.delta)
