"""Membership inference: who was in the table, judged by what the model predicts for each row.

Models are trained on random halves of a population. Shadow models train the attack; of the attacked models, some choose
thresholds, the rest are counted.

Formal guarantee of what is attacked: a table that holds row i is a random one of i, n - 1 other rows and rows that
every table holds, in random order; one that does not is the same with another row in place of i. So training that is
(eps, delta)-DP for replace-one adjacency has TPR <= e^eps FPR + delta for every threshold that is fixed beforehand, and
1 - FPR <= e^eps (1 - TPR) + delta, for every row and so on average over rows.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import rel_entr
from scipy.stats import t as student

from parley.audit.attacks.shadow import Evidence, Tables, Train, random_tables
from parley.audit.distinguishing import check_confidence
from parley.data import Design
from parley.privacy.events import Adjacency
from parley.validate import Floats, whole

# models of either side from which a row has a variance of its own; below, all rows share one
MODELS_FOR_OWN_VARIANCE = 32

Attack = Callable[[Evidence, Tables, Evidence], Floats]
"""From shadow models of which it is known who is in their tables [shadows, rows]: how much the models that are attacked
look as if each row were a member [tables, replicates, rows]."""


def likelihood(known: Evidence, tables: Tables, seen: Evidence) -> Floats:
    """Return the likelihood ratio of each row's statistic, from shadow models with and without the row."""
    mean_out, spread_out = _laws(known.statistic, ~tables)
    mean_in, spread_in = _laws(known.statistic, tables)
    return np.asarray(
        0.5 * ((seen.statistic - mean_out) / spread_out) ** 2
        - 0.5 * ((seen.statistic - mean_in) / spread_in) ** 2
        + np.log(spread_out / spread_in)
    )


def likelihood_without(known: Evidence, tables: Tables, seen: Evidence) -> Floats:
    """Return the same from shadow models without the row alone, as for a row that comes later."""
    mean, spread = _laws(known.statistic, ~tables)
    return np.asarray(np.where(known.aim >= mean, 1.0, -1.0) * (seen.statistic - mean) / spread)


def _laws(statistic: Floats, which: Tables) -> tuple[Floats, Floats]:
    """Return (mean, deviation) of each row's statistic [tables, replicates, rows] over the marked tables."""
    weight = np.repeat(which[:, None], statistic.shape[1], axis=1)
    count = np.maximum(weight.sum(axis=(0, 1)), 1)
    mean = (statistic * weight).sum(axis=(0, 1)) / count
    squares = (((statistic - mean) ** 2) * weight).sum(axis=(0, 1))
    few = int(which.sum(axis=0).min()) < MODELS_FOR_OWN_VARIANCE
    variance = np.full_like(mean, squares.sum() / count.sum()) if few else squares / count
    min_variance = 1e-12 * (1.0 + float(np.mean(mean**2)))
    return mean, np.sqrt(np.maximum(variance, min_variance))


def attack_model(known: Evidence, tables: Tables, seen: Evidence) -> Floats:
    """Return scores of an attack model trained on all shadow models' rows together, class by class."""
    from sklearn.linear_model import LogisticRegression  # slow to import

    member = np.repeat(tables[:, None], known.loss.shape[1], axis=1)
    decisions = np.zeros(seen.loss.shape)
    for group in np.unique(known.group):
        in_group = known.group == group
        x, y = _features(known.loss[..., in_group]), member[..., in_group].reshape(-1)
        centre, scale = x.mean(axis=0), x.std(axis=0) + 1e-12
        attack = LogisticRegression().fit((x - centre) / scale, y)
        decided = attack.decision_function((_features(seen.loss[..., in_group]) - centre) / scale)
        decisions[..., in_group] = decided.reshape(seen.loss[..., in_group].shape)
    return decisions


def _features(loss: Floats) -> Floats:
    flat = loss.reshape(-1)
    return np.column_stack([flat, np.log(flat + 1e-9)])


ATTACKS: dict[str, Attack] = {"online": likelihood, "offline": likelihood_without, "shadow": attack_model}

FOLDS = 5


def blind_area(rows: Design, member: NDArray[np.bool_], seed: int) -> float:
    """Return the cross-validated area under the curve of a logistic regression that tells members [rows] from others by
    features and targets alone: 0.5 if both have one law."""
    # slow to import
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    seen = np.column_stack([rows.X, rows.y, rows.X * rows.y[:, None]])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    return float(cross_val_score(classifier, seen, member, scoring="roc_auc", cv=folds).mean())


LEAST_MODELS = 8  # models of each use
CURVE_POINTS = 200  # of a curve
RARE_ALARM_RATE = 1e-3  # the false alarms at which hits are stated


@dataclass(frozen=True)
class Estimate:
    """A rate, and Student's interval for it over models: approximate, not proved."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Inference:
    """What one attack can tell about who was in the table, over all counted models."""

    method: str
    auc: Estimate
    hits: Estimate  # members that are found where `RARE_ALARM_RATE` of others are taken for members
    lower_bound: float  # on epsilon, proved at `confidence` together with the other attacks
    curve: tuple[tuple[float, float], ...] = field(default=(), repr=False)  # (false alarms, hits)

    def to_json(self) -> dict[str, Any]:
        """Return an entry of `attacks` in `parley audit MODEL --json`."""
        return {
            "method": self.method,
            "auc": vars(self.auc),
            "hits_at_rare_alarms": vars(self.hits),
            "rare_alarms": RARE_ALARM_RATE,
            "lower_bound": self.lower_bound,
        }


@dataclass(frozen=True)
class Membership:
    """Several attacks on the same models, and the claim about their training (None: no claim)."""

    inferences: tuple[Inference, ...]
    claimed_epsilon: float | None
    delta: float
    adjacency: Adjacency
    confidence: float
    rows: int  # of the population
    shadows: int
    targets: int  # models that were counted
    seconds: float = 0.0

    @property
    def strongest(self) -> Inference:
        """The attack with the largest area under its curve."""
        return max(self.inferences, key=lambda each: each.auc.value)

    @property
    def lower_bound(self) -> float:
        return max(each.lower_bound for each in self.inferences)

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.claimed_epsilon is None or self.lower_bound <= self.claimed_epsilon

    def to_json(self) -> dict[str, Any]:
        """Return the object under `membership` in `parley audit MODEL --json`."""
        return {
            "claimed_epsilon": self.claimed_epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "confidence": self.confidence,
            "lower_bound": self.lower_bound,
            "holds": self.holds,
            "attacks": [each.to_json() for each in self.inferences],
            "rows": self.rows,
            "shadow_models": self.shadows,
            "attacked_models": self.targets,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class Game:
    """Models of random halves of a population [tables, rows] and their evidence on all its rows: the first `shadows`
    train attacks, the next `pilot` choose thresholds, the rest are counted."""

    tables: Tables
    evidence: Evidence
    shadows: int
    pilot: int

    @classmethod
    def play(cls, train: Train, rows: int, shadows: int, targets: int, seed: int | None = None) -> "Game":
        """Train all models; `targets` of them will be counted."""
        shadows, targets = whole(shadows, "shadows", least=LEAST_MODELS), whole(targets, "targets", least=LEAST_MODELS)
        pilot = max(LEAST_MODELS, targets // 2)
        tables = random_tables(rows, shadows + pilot + targets, np.random.default_rng(seed))
        return cls(tables, train(tables), shadows, pilot)

    def scores(self, method: str, seen: Evidence) -> Floats:
        """Return how much each row looks like a member of the attacked models' tables [tables, replicates, rows]."""
        learned = slice(self.shadows)
        return ATTACKS[method](self.evidence.for_tables(learned), self.tables[learned], seen)

    @property
    def targets(self) -> int:
        """The number of counted models."""
        return len(self.tables) - self.shadows - self.pilot


def infer_members(
    train: Train,
    rows: int,
    claimed_epsilon: float | None = None,
    delta: float = 0.0,
    shadows: int = 128,
    targets: int = 128,
    seed: int | None = None,
    confidence: float = 0.99,
) -> Membership:
    """Attack the models that `train` makes of random halves of `rows` rows, by each method (`judged`)."""
    began = time.perf_counter()
    membership = judged(Game.play(train, rows, shadows, targets, seed), claimed_epsilon, delta, confidence)
    return replace(membership, seconds=time.perf_counter() - began)


def judged(game: Game, claimed_epsilon: float | None, delta: float, confidence: float = 0.99) -> Membership:
    """Return what each method learns of the counted models, with the claim about their training.

    Formal guarantee: for any training, if each model depends on its own table alone, all lower bounds together exceed
    its eps at this delta with probability at most 1 - confidence. Shadow models and the models that choose an event are
    not counted, and each counted model counts once (`mean_ends`).
    """
    check_confidence(delta, confidence)
    attacked, miss = slice(game.shadows, None), (1 - confidence) / len(ATTACKS)
    seen, tables = game.evidence.for_tables(attacked), game.tables[attacked]
    inferences = [_inference(method, game.scores(method, seen), tables, game.pilot, delta, miss) for method in ATTACKS]
    return Membership(
        inferences=tuple(inferences),
        claimed_epsilon=claimed_epsilon,
        delta=delta,
        adjacency=Adjacency.REPLACE_ONE,
        confidence=confidence,
        rows=game.tables.shape[1],
        shadows=game.shadows,
        targets=game.targets,
    )


def _inference(method: str, score: Floats, tables: Tables, pilot: int, delta: float, miss: float) -> Inference:
    chosen, counted = _Rates(score[:pilot], tables[:pilot]), _Rates(score[pilot:], tables[pilot:])
    at = chosen.thresholds()
    bounds = [_proved_epsilons(chosen, at, members, delta, miss) for members in (True, False)]
    members = bool(bounds[0].max() >= bounds[1].max())
    best = at[int(np.argmax(bounds[0 if members else 1]))]
    return Inference(
        method=method,
        auc=_estimate(counted.areas(), miss),
        hits=_estimate(counted.found(RARE_ALARM_RATE), miss),
        lower_bound=float(_proved_epsilons(counted, np.array([best]), members, delta, miss)[0]),
        curve=counted.curve(),
    )


@dataclass(frozen=True, eq=False)
class _Rates:
    """Scores [tables, replicates, rows] of members and others, counted by table: one model's rows are dependent."""

    score: Floats
    tables: Tables

    def side(self, members: bool) -> Floats:
        """Return the sorted scores of members, or of others [tables, replicates x rows of that side]."""
        size, marked = len(self.score), self.tables if members else ~self.tables
        found = np.swapaxes(self.score, 1, 2)[marked]
        return np.sort(found.reshape(size, -1), axis=1)

    def above(self, at: Floats, members: bool) -> Floats:
        """Return the share of a side whose score is at least each threshold [tables, thresholds]."""
        side = self.side(members)
        return np.stack([1 - np.searchsorted(row, at, side="left") / side.shape[1] for row in side])

    def thresholds(self) -> Floats:
        """Return the scores to cut at, dense at both ends."""
        pooled = np.sort(self.score, axis=None)
        ranks = np.unique(np.geomspace(1, len(pooled), CURVE_POINTS).astype(np.int64))
        return np.unique(np.concatenate([pooled[ranks - 1], pooled[len(pooled) - ranks]]))

    def found(self, alarms: float) -> Floats:
        """Return the share of members found [tables] where this share of others is; ties are split at random."""
        at = np.quantile(self.side(False), [1 - alarms, 1 - alarms])
        at[1] = np.nextafter(at[1], np.inf)  # at least, and above
        some, fewer = self.above(at, False).mean(axis=0)
        drawn = (alarms - fewer) / max(some - fewer, 1e-300)
        hits = self.above(at, True)
        return np.asarray(hits[:, 1] + np.clip(drawn, 0, 1) * (hits[:, 0] - hits[:, 1]))

    def areas(self) -> Floats:
        """Return the area under each table's own curve [tables]: how often a member's score exceeds another's."""
        members, others = self.side(True), self.side(False)
        found = []
        for mine, theirs in zip(members, others, strict=True):
            below, up_to = (np.searchsorted(theirs, mine, side=side) for side in ("left", "right"))
            found.append((below + up_to).mean() / (2 * len(theirs)))
        return np.array(found)

    def curve(self) -> tuple[tuple[float, float], ...]:
        """Return (false alarms, hits) by threshold, over all tables."""
        members, others = (np.sort(self.side(side), axis=None) for side in (True, False))
        ranks = np.unique(np.geomspace(1, len(others), CURVE_POINTS).astype(np.int64))
        at = others[len(others) - ranks]
        alarms, hits = (1 - np.searchsorted(side, at, side="left") / len(side) for side in (others, members))
        return ((0.0, 0.0), *zip(alarms.tolist(), hits.tolist(), strict=True), (1.0, 1.0))


def _proved_epsilons(rates: _Rates, at: Floats, members: bool, delta: float, miss: float) -> Floats:
    """Return the epsilon [thresholds] proved by scores above (`members`) or below; half of `miss` for either rate."""
    hits, alarms = (rates.above(at, side).mean(axis=0) for side in (True, False))
    signs, wrong = (hits, alarms) if members else (1 - alarms, 1 - hits)
    least, _ = mean_ends(signs, len(rates.tables), miss / 2)
    _, most = mean_ends(wrong, len(rates.tables), miss / 2)
    return np.asarray(np.log(np.maximum(np.maximum(least - delta, 0.0) / np.maximum(most, 1e-300), 1.0)))


def _estimate(values: Floats, miss: float) -> Estimate:
    """Estimate the mean over models with Student's interval: rates of models are means over many rows."""
    mean, several = float(values.mean()), len(values)
    far = float(student.isf(miss / 2, several - 1) * values.std(ddof=1) / math.sqrt(several))
    return Estimate(mean, max(0.0, mean - far), min(1.0, mean + far))


def mean_ends(mean: Floats, draws: int, miss: float) -> tuple[Floats, Floats]:
    """Return (low, high), one-sided ends for the expectation of a number in [0, 1] from the mean of independent draws.

    Formal guarantee: each is wrong with probability at most `miss`, since P(mean >= q) <= exp(-draws KL(q, p)) for q
    above the expectation p, and likewise below (Hoeffding 1963, theorem 1). Ends are where that is `miss`, moved
    outwards by the bisection's remainder.

    >>> low, high = mean_ends(np.array([0.5]), 1000, 0.005)
    >>> [round(float(end[0]), 3) for end in (low, high)]
    [0.449, 0.551]
    """
    max_divergence = -math.log(miss) / draws
    ends = []
    for side in (0.0, 1.0):
        inside, outside = mean.astype(np.float64), np.full(mean.shape, side)
        for _ in range(60):
            middle = (inside + outside) / 2
            near = rel_entr(mean, middle) + rel_entr(1 - mean, 1 - middle) <= max_divergence
            inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
        ends.append(outside)
    return ends[0], ends[1]
