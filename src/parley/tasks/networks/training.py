"""DP-SGD on one owner's rows: in each step the owner draws records in secret, clips their gradients, debits its ledger,
adds exact noise and stores the answer. The update that follows is post-processing."""

import copy
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parley.errors import DataError, SettingError
from parley.learning.algorithms.algorithm import State
from parley.losses.loss import ClipNorm
from parley.owner.ledger import AnyLedger, StudyLedger
from parley.owner.ledger.account import RHO_TOLERANCE, Reservation
from parley.privacy.accounting import Series, exact, mechanism_norm
from parley.privacy.accounting.series import JointSeries
from parley.privacy.events import Adjacency, Norm
from parley.privacy.mechanisms import FastNoise, SafeNoise
from parley.privacy.mechanisms.banded import MAX_STEPS, Band, best_band
from parley.privacy.mechanisms.mechanism import require_bounded
from parley.protocol.queries import ReleasePlan, Tables
from parley.tasks.networks.architectures import (
    NetworkParameters,
    binary_cross_entropy,
    cross_entropy,
    module_scores,
    parameters_of,
    set_parameters,
    squared,
)
from parley.tasks.networks.clipping import Losses, RecordGradients
from parley.tasks.networks.correlated import CorrelatedSGD, MixedGradientQuestion, usual_momentum
from parley.tasks.networks.question import NetworkGradientQuestion, NetworkRows, NetworkSGD, check_steps
from parley.tasks.networks.stable_plan import StablePlan, StableSteps, require_study
from parley.tasks.networks.terms import LEAST_CLIP, MOST_CLIP
from parley.tasks.networks.training_checkpoint import TrainingCheckpoint, load_training_checkpoint
from parley.validate import Floats, positive, upper, whole

LOSSES: dict[str, Losses] = {
    "cross-entropy": cross_entropy,
    "binary-cross-entropy": binary_cross_entropy,
    "squared": squared,
}
LEARNER = "learner"


@dataclass(frozen=True)
class NetworkPlan:
    """The promise and the training plan: `epochs` times `batches` steps that cost (`epsilon`, `delta`) together; each
    step draws a record with probability 1/`batches`.

    Parameters
    ----------
    epsilon, delta, clip
        The total cost of all steps, and the largest norm of one record's gradient.
    batches, epochs, step, optimiser, decay
        The steps per epoch, the epochs, the step length, and how steps follow from gradients.
    mechanism
        "gaussian", or "laplace" with `delta` = 0.
    noise
        "correlated": later noise cancels earlier noise. Records are then in fixed batches, which hide nobody, and the
        first step spends the whole budget.
    clip_norm
        The norm of the clip: "l1", "l2" or "linf"; None for the mechanism's own. Noise grows to bound the mechanism's.
    """

    epsilon: float
    delta: float
    clip: float
    batches: int
    epochs: int
    step: float
    mechanism: Literal["gaussian", "laplace"] = "gaussian"
    optimiser: Literal["plain", "momentum", "adam"] = "momentum"
    decay: Literal["cosine", "none"] = "cosine"
    noise: Literal["independent", "correlated"] = "independent"
    clip_norm: ClipNorm | None = None

    def __post_init__(self) -> None:
        positive(self.epsilon, "epsilon")
        positive(self.step, "step")
        whole(self.epochs, "epochs")
        check_steps(self.optimiser, self.decay)
        if whole(self.batches, "batches") < 2:
            raise SettingError(
                "batches = 1: expected at least 2; with 1 batch every record is drawn, so sampling adds no privacy"
            )
        if not LEAST_CLIP <= self.clip <= MOST_CLIP:
            raise SettingError(f"clip = {self.clip!r}: expected a number from {LEAST_CLIP:g} to {MOST_CLIP:g}")
        if self.mechanism not in ("gaussian", "laplace"):
            raise SettingError(f"mechanism = {self.mechanism!r}: expected 'gaussian' or 'laplace'")
        if self.mechanism == "gaussian" and not 0 < self.delta < 1:
            raise SettingError(f"delta = {self.delta!r}: expected a number between 0 and 1 with Gaussian noise")
        if self.mechanism == "laplace" and self.delta != 0:
            raise SettingError(f"delta = {self.delta!r}: expected 0 with Laplace noise, which needs no delta")
        if self.clip_norm not in (None, "l1", "l2", "linf"):
            raise SettingError(f"clip_norm = {self.clip_norm!r}: expected 'l1', 'l2' or 'linf'")
        if self.noise not in ("independent", "correlated"):
            raise SettingError(f"noise = {self.noise!r}: expected 'independent' or 'correlated'")
        if self.noise == "correlated" and self.mechanism != "gaussian":
            raise SettingError(
                "noise = 'correlated': needs mechanism = 'gaussian', the only mechanism with a privacy proof for this "
                "noise"
            )
        if self.noise == "correlated" and self.steps > MAX_STEPS:
            raise SettingError(
                f"epochs = {self.epochs}: expected at most {MAX_STEPS:,} steps (epochs x batches) with correlated "
                f"noise, found {self.steps:,}"
            )

    @property
    def steps(self) -> int:
        """The number of answers the owner gives."""
        return self.epochs * self.batches

    @property
    def band(self) -> Band | None:
        """The band that correlates noise across steps; None for independent noise."""
        if self.noise != "correlated":
            return None
        return best_band(self.batches, self.epochs, usual_momentum(self.optimiser))

    @property
    def norm(self) -> Norm:
        """The norm in which noise is calibrated."""
        return mechanism_norm(self.mechanism)

    def series(self, question: NetworkGradientQuestion | MixedGradientQuestion) -> Series:
        """Return all answers of this question, with the noise that makes them cost what is promised."""
        return question.series(ReleasePlan(self.mechanism, exact(self.epsilon), Fraction(str(self.delta)), self.steps))


@dataclass(frozen=True)
class Speed:
    """The device: it changes how long training takes, and no guarantee."""

    device: str = "cpu"


@dataclass(frozen=True)
class Progress:
    """The state of a training run; `accuracy` is that on public validation rows, None without them."""

    step: int
    steps: int
    epsilon_spent: float
    accuracy: float | None


@dataclass(frozen=True, eq=False)
class TrainedNetwork:
    """A module with its learned parameters, and their cost.

    Formal guarantee (`released`): all answers together are (`epsilon_spent`, `delta`)-DP for `adjacency`, one record
    replaced by any other; the number of records is public.
    """

    module: Any  # torch.nn.Module
    epsilon_spent: float
    delta: float
    adjacency: Adjacency
    released: bool
    accuracy: float | None  # on the public validation rows
    binary: bool = False  # whether its one number is the log-odds of class 1

    def scores(self, X: ArrayLike) -> Floats:
        """Return the outputs for rows [n, outputs]."""
        return module_scores(self.module, np.asarray(X, dtype=np.float32))

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the class number of each row [n]."""
        return np.asarray(_by_class(self.scores(X), self.binary).argmax(axis=1))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the probability of each class for each row [n, classes]."""
        said = _by_class(self.scores(X), self.binary)
        odds = np.exp(said - said.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _by_class(said: Floats, binary: bool) -> Floats:
    """Return scores by class [n, classes]; log-odds [n, 1] give class 0 the score 0."""
    return np.hstack([np.zeros_like(said), said]) if binary else said


def train_network(
    module: Any,
    X: ArrayLike,
    y: ArrayLike,
    plan: NetworkPlan | StablePlan,
    *,
    loss: Literal["cross-entropy", "binary-cross-entropy", "squared"] | Losses = "cross-entropy",
    ledger: AnyLedger | None = None,
    owner: str = "owner",
    checkpoint: str | Path | None = None,
    validation: tuple[ArrayLike, ArrayLike] | None = None,
    seed: int | None = None,
    speed: Speed | None = None,
    progress: Callable[[Progress], None] = lambda state: None,
) -> TrainedNetwork:
    """Train a copy of a module from its present parameters.

    Parameters
    ----------
    module, X, y
        An `nn.Sequential` of listed layers (docs/networks.md), or in a study any PyTorch module; rows [n, ...] and
        targets [n].
    plan
        The promise and the training plan; a `StablePlan` is for studies alone.
    loss
        "binary-cross-entropy" takes one output, the log-odds of class 1. A study may pass its own function, which gives
        the loss of every row [n], each from that row alone.
    ledger, owner
        Every step is debited to this name before it is taken. What the lifetime budget cannot pay is refused before
        anything is computed. Without ledger and seed the noise is as safe, but no books are kept.
    checkpoint
        A file from which training continues; what was spent stays spent.
    validation
        Rows (X, y) that judge progress. They must be public: progress would release private ones.
    seed
        Makes it a study, whose outcome must not be released.
    speed, progress
        The device, and a callback for the progress. Neither changes a guarantee.

    Returns
    -------
    TrainedNetwork
        The module with its new parameters, and their cost.
    """
    if isinstance(plan, StablePlan):
        require_study(seed, ledger)
    if seed is not None and ledger is not None:
        raise SettingError("seed: not allowed with a ledger; a seed is only for a simulation that is not released")
    if checkpoint is not None and (ledger is None or not ledger.durable):
        raise SettingError("checkpoint: needs a ledger, so that a resumed run never regains spent budget")
    speed = speed or Speed()
    rows, public = _rows(X, y), None if validation is None else _rows(*validation)
    answering = _answering(module, rows, plan, loss, ledger, owner, seed, speed)
    binary = loss in ("binary-cross-entropy", binary_cross_entropy)
    count, validation_module, algorithm = plan.steps, copy.deepcopy(module).to(speed.device).eval(), _algorithm(plan)
    file = None if checkpoint is None else Path(checkpoint)
    begin = algorithm.start(parameters_of(module))
    state = begin if file is None else load_training_checkpoint(file, answering.hash, begin)
    answering.accept(owner, _digest(rows))  # last, so that what is refused costs nothing
    while state.round <= count:
        value, spent = answering.answer(state.round, algorithm.thetas(state))
        state = algorithm.update(state, value)
        if not np.abs(state.theta).max() <= np.finfo(np.float32).max:
            raise SettingError(f"step: the run diverged in step {state.round - 1}; choose a smaller step size")
        if file is not None:
            TrainingCheckpoint(answering.hash, state).save(file)
        due = (state.round - 1) % plan.batches == 0
        judged = _accuracy(validation_module, state.theta, public, binary) if due and public is not None else None
        progress(Progress(state.round - 1, count, spent, judged))
    return _trained(module, state, answering, plan, public, binary)


@dataclass(frozen=True, eq=False)
class _Answering:
    """The owner's side: one question, its noise, its rows, its ledger."""

    question: NetworkGradientQuestion | MixedGradientQuestion
    series: Series | StableSteps
    tables: Tables
    ledger: AnyLedger
    noise: SafeNoise | FastNoise
    hash: str

    def accept(self, owner: str, digest: bytes) -> None:
        """Reserve the whole budget; refuse if it does not fit, or was reserved for other rows."""
        series = self.series
        budget, rho = (series.epsilon, series.delta, series.count), None
        if isinstance(series, JointSeries):  # of secret draws no rho is known
            rho = series.rho(*budget) * (1 + 2 * RHO_TOLERANCE)
        reservation = Reservation(self.hash, owner, LEARNER, *budget, rho=rho)
        self.ledger.accept(reservation, digest if self.ledger.durable else None)

    def answer(self, step: int, asked: Floats) -> tuple[Floats, float]:
        """Return (a step's noisy answer, the cost so far), debited and stored first."""
        query = self.question.asks.ask(self.hash, LEARNER, step, asked)
        self.question.check(query, ())

        def release() -> Callable[[], Floats]:
            bounded = self.question.bounded(query, self.tables, seed=self.noise.seed())
            mechanism = self.series.mechanism
            require_bounded(bounded, mechanism.norm, mechanism.sensitivity)
            return partial(mechanism.release, bounded, self.noise)

        event = self.series.event.to_dict()
        value, account = self.ledger.answer(query, self.series.spent_after, event, release, prune=True)
        return value, upper(account.spent)


def _answering(
    module: Any,
    rows: NetworkRows,
    plan: NetworkPlan | StablePlan,
    loss: str | Losses,
    ledger: AnyLedger | None,
    owner: str,
    seed: int | None,
    speed: Speed,
) -> _Answering:
    """Return the owner's side of a plan; nothing is reserved yet."""
    losses = LOSSES[loss] if isinstance(loss, str) else loss
    shape, expected = rows.X.shape[1:], len(rows) / plan.batches
    study = seed is not None
    made = RecordGradients(module, losses, shape, plan.clip, _clip_norm(plan), expected, speed.device, study)
    made.require_sound_shapes()  # now, before a budget is reserved
    if losses in (cross_entropy, binary_cross_entropy):
        _require_classes(module, rows, losses is binary_cross_entropy)
    question, series = _question(made, plan, len(rows))
    return _Answering(
        question,
        series,
        Tables(rows, rows.where(np.zeros(len(rows), dtype=np.bool_))),
        StudyLedger() if ledger is None else ledger,
        SafeNoise() if seed is None else FastNoise(seed),
        _agreement_hash(module, losses, plan, owner, len(rows)),
    )


def _question(
    made: RecordGradients, plan: NetworkPlan | StablePlan, rows: int
) -> tuple[NetworkGradientQuestion | MixedGradientQuestion, Series | StableSteps]:
    band = _plan_band(plan)
    if band is None or isinstance(plan, StablePlan):
        question = NetworkGradientQuestion.from_gradients(made, rows, plan.batches, norm=plan.norm)
        return question, plan.series(question)
    mixed = MixedGradientQuestion.from_gradients(made, rows, plan.batches, band, plan.epochs)
    return mixed, plan.series(mixed)


def _algorithm(plan: NetworkPlan | StablePlan) -> NetworkSGD:
    settings = (NetworkParameters(), plan.steps, None, plan.step, plan.optimiser)
    band, constant = _plan_band(plan), plan.decay == "none"
    if band is None:
        return NetworkSGD(*settings, constant=constant)
    return CorrelatedSGD(*settings, constant=constant, band=band)


def _clip_norm(plan: NetworkPlan | StablePlan) -> ClipNorm:
    return plan.norm if isinstance(plan, StablePlan) else plan.clip_norm or plan.norm


def _plan_band(plan: NetworkPlan | StablePlan) -> Band | None:
    return None if isinstance(plan, StablePlan) else plan.band


def _trained(
    module: Any,
    state: State,
    answering: _Answering,
    plan: NetworkPlan | StablePlan,
    public: NetworkRows | None,
    binary: bool,
) -> TrainedNetwork:
    """Return the module with the last parameters, on the CPU."""
    made = copy.deepcopy(module).cpu().eval()
    set_parameters(made, state.theta)
    return TrainedNetwork(
        made,
        upper(answering.ledger.account(answering.hash).spent),
        plan.delta,
        answering.series.event.adjacency,
        answering.noise.safe,
        None if public is None else _accuracy(made, state.theta, public, binary),
        binary,
    )


def _accuracy(module: Any, theta: Floats, public: NetworkRows, binary: bool) -> float:
    set_parameters(module, theta)
    said = _by_class(module_scores(module, public.X), binary)
    if said.shape[1] == 1:  # numbers: the share of their variance that is explained
        error, spread = public.y - said[:, 0], public.y - public.y.mean()
        return 1 - float(error @ error) / max(float(spread @ spread), math.ulp(0.0))
    return float(np.mean(said.argmax(axis=1) == public.y))


def _rows(X: ArrayLike, y: ArrayLike) -> NetworkRows:
    try:
        rows, targets = np.asarray(X, dtype=np.float32), np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):  # whose words quote a cell
        raise DataError("X, y: expected only numbers; encode names and fill missing cells first") from None
    if rows.ndim < 2 or targets.shape != (len(rows),) or not len(rows):
        raise DataError("X, y: expected rows of numbers [n, ...] and one target for each row [n]")
    return NetworkRows(rows, targets, np.isfinite(targets))


def _require_classes(module: Any, rows: NetworkRows, binary: bool) -> None:
    classes = 2 if binary else module_scores(module, np.zeros_like(rows.X[:1])).shape[-1]
    y = rows.y[rows.present]
    if not np.array_equal(y, np.clip(np.rint(y), 0, classes - 1)):
        raise DataError(f"y: expected class numbers from 0 to {classes - 1}")


def _digest(rows: NetworkRows) -> bytes:
    digest = hashlib.sha256(f"{rows.X.shape}\n".encode())
    for array in (rows.X, rows.y):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _agreement_hash(module: Any, losses: Losses, plan: NetworkPlan | StablePlan, owner: str, rows: int) -> str:
    """SHA-256 of the agreement: the initial network, its loss, the plan, the owner and the number of rows."""
    begin = hashlib.sha256(np.ascontiguousarray(parameters_of(module)).data).hexdigest()
    loss_name = getattr(losses, "__qualname__", type(losses).__qualname__)
    agreed, band = asdict(plan), _plan_band(plan)
    if band is None:
        agreed.pop("noise", None)  # as it was agreed on before noise could be anything else
    if _clip_norm(plan) == plan.norm:
        agreed.pop("clip_norm", None)
    facts = [
        "parley-network-1",
        repr(module),
        begin,
        loss_name,
        agreed,
        owner,
        rows,
        *(() if band is None else band.numbers),
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
