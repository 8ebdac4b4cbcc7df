"""Training with symmetric alpha-stable noise: for studies alone, since no safe sampler exists.

Formal guarantee: the stated cost is an upper bound for exactly sampled noise, in every direction and for replace-one
adjacency. It comes from Renyi divergences of sums of gradients clipped in L2, moved by up to twice the clip
(`accounting.releases`), with records drawn in secret (`accounting.compose.sampled_divergence`). The sampler is not
exact, so terms, ledgers and checkpoints refuse this noise.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal

from parley.errors import GuaranteeError, SettingError
from parley.owner.ledger import AnyLedger
from parley.privacy.accounting.compose import renyi_epsilon
from parley.privacy.events import Norm, StableEvent
from parley.privacy.mechanisms.gaussian import probability
from parley.privacy.mechanisms.stable import StableOnSums
from parley.privacy.mechanisms.stable_law import check_alpha
from parley.tasks.networks.question import NetworkGradientQuestion, check_steps
from parley.tasks.networks.terms import LEAST_CLIP, MOST_CLIP
from parley.validate import positive, upper, whole


@dataclass(frozen=True)
class StablePlan:
    """A training plan of `epochs` times `batches` steps. Each draws a record with probability 1/`batches`, clips its
    gradient in L2 and adds noise of `scale` clips to every number of the sum.

    Parameters
    ----------
    alpha, scale
        The stable law of the noise, and its scale in clips.
    clip
        The largest L2 norm of a record's gradient.
    batches, epochs
        The steps per epoch, and the epochs.
    step
        The step length.
    delta
        The delta at which epsilon is stated.
    optimiser, decay
        How steps follow from gradients, and whether they shrink along half a cosine.
    """

    alpha: float
    scale: float
    clip: float
    batches: int
    epochs: int
    step: float
    delta: float = 1e-5
    optimiser: Literal["plain", "momentum", "adam"] = "plain"
    decay: Literal["cosine", "none"] = "cosine"

    norm: ClassVar[Norm] = "l2"

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        positive(self.scale, "scale")
        positive(self.step, "step")
        probability(self.delta)
        whole(self.epochs, "epochs")
        check_steps(self.optimiser, self.decay)
        if whole(self.batches, "batches") < 2:
            raise SettingError(
                "batches = 1: expected at least 2; with 1 batch every record is drawn, so sampling adds no privacy"
            )
        if not LEAST_CLIP <= self.clip <= MOST_CLIP:
            raise SettingError(f"clip = {self.clip!r}: expected a number from {LEAST_CLIP:g} to {MOST_CLIP:g}")

    @property
    def steps(self) -> int:
        """The number of sums asked for."""
        return self.epochs * self.batches

    def series(self, question: NetworkGradientQuestion) -> "StableSteps":
        """Return all releases and their cost."""
        scale = self.scale * self.clip * question.batches / question.records
        mechanism = StableOnSums(self.alpha, scale, question.sensitivity)
        return StableSteps(mechanism, Fraction(str(self.delta)), self.steps, question.rate)


@dataclass(frozen=True)
class StableSteps:
    """`count` releases of one noise law, with records drawn at this rate."""

    mechanism: StableOnSums
    delta: Fraction
    count: int
    rate: float

    @property
    def event(self) -> StableEvent:
        """One release."""
        return replace(self.mechanism.event, sampling=self.rate)

    @property
    def epsilon(self) -> Fraction:
        """The cost of all releases together."""
        return self.spent_after(self.count)

    def spent_after(self, answers: int) -> Fraction:
        """Return an upper bound on the epsilon of the first `answers` releases, at delta."""
        if whole(answers, "answers", least=0) == 0:
            return Fraction(0)
        return Fraction(renyi_epsilon([self.event.times(answers)], upper(self.delta)) * (1 + 1e-12))


def require_study(seed: int | None, ledger: AnyLedger | None) -> None:
    """Refuse (GuaranteeError) stable noise without a seed or with a ledger: it could be released."""
    if seed is None or ledger is not None:
        raise GuaranteeError(
            "answers with stable noise cannot be released, because no exact sampler exists; to simulate instead, pass "
            "a seed and omit the ledger"
        )
