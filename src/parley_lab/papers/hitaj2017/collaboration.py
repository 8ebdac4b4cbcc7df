"""Two owners learn one network of digits, round by round, and one of them attacks.

The victim's answers are those of network training: the same question about records drawn in secret, the same clip, the
same noise (`tasks.networks.question`). The attacker keeps to the protocol, too: its answer is a mean of clipped
gradients of images that it chose.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from parley.privacy.accounting import exact, make_series
from parley.privacy.mechanisms import Bounded, FastNoise
from parley.protocol.queries import ReleasePlan, Tables
from parley.tasks.networks.architectures import (
    NetworkParameters,
    cross_entropy,
    parameters_of,
    set_parameters,
    sole_copy,
)
from parley.tasks.networks.clipping import RecordGradients
from parley.tasks.networks.question import NetworkGradientQuery, NetworkGradientQuestion, NetworkRows, NetworkSGD
from parley.validate import Floats
from parley_lab.attacks.generated_images import Generator
from parley_lab.papers.hitaj2017.parties import ARTIFICIAL_CLASS, Parties, Protection, Settings, classifier

Images = NDArray[np.float32]

LOOSE_CLIP = 1e3  # a clip that no gradient here comes near
INJECTED_SHARE = 0.25  # of the images that the attacker's answer is about: drawn ones
ROUNDING_FACTOR = 1 - 2.0**-40  # more than the rounding of a norm


@dataclass(frozen=True, eq=False)
class Round:
    """Where a collaboration stands: the joint parameters [P], and what the attacker draws by now."""

    number: int
    theta: Floats
    draw: Callable[[int], Images]


def collaborate(
    parties: Parties, settings: Settings, protection: Protection, seed: int, sees: bool = True
) -> Iterator[Round]:
    """Each round as it ends. `sees` False is a control: the generator is trained against the network as it was before
    the first round, which was drawn and knows nobody's images."""
    joint, noise = classifier(settings.side, seed), FastNoise(seed)
    clip = LOOSE_CLIP if protection.epsilon is None else settings.clip
    pixels = parties.victim.X.shape[1:]
    gradients = RecordGradients(joint, cross_entropy, pixels, clip, "l2", settings.batch, settings.device)
    victim = _victim(gradients, parties.victim, settings, protection, noise)
    attacker = _Attacker(gradients, parties.attacker, settings, seed, sees)
    algorithm = NetworkSGD(NetworkParameters(), settings.rounds, None, settings.step, "adam", constant=True)
    state = algorithm.start(parameters_of(joint))
    while state.round <= settings.rounds:
        query = NetworkGradientQuery.ask("0" * 64, "learner", state.round, state.theta)
        state = algorithm.update(state, (victim(query) + attacker.answer(query.theta)) / 2)
        yield Round(state.round - 1, state.theta, attacker.generator.images)


def _victim(
    gradients: RecordGradients, rows: NetworkRows, settings: Settings, protection: Protection, noise: FastNoise
) -> Callable[[NetworkGradientQuery], Floats]:
    """What the victim answers to each question.

    Formal guarantee (of the law; studies draw fast noise, which is not to be released): with an epsilon all answers
    together are (epsilon, delta)-DP, for one record replaced as `NetworkGradientQuestion` has it, or for the owner's
    whole table replaced. Then an answer is scaled down to the clip C as a whole, so that any other table moves it by at
    most 2C, and the noise is that of so many Gaussian answers; that records are drawn in secret hides no owner.
    """
    question = NetworkGradientQuestion.from_gradients(gradients, len(rows), max(round(len(rows) / settings.batch), 2))
    tables = Tables(rows, rows.where(np.zeros(len(rows), dtype=np.bool_)))

    def exact_answer(query: NetworkGradientQuery) -> Bounded:
        return question.bounded(query, tables, seed=noise.seed())

    if protection.epsilon is None:
        return lambda query: exact_answer(query).value
    budget = exact(protection.epsilon), Fraction(str(settings.delta)), settings.rounds
    if protection.unit == "record":
        mechanism = question.series(ReleasePlan("gaussian", *budget)).mechanism
        return lambda query: mechanism.release(exact_answer(query), noise)
    of_owner = make_series("gaussian", *budget, 2 * settings.clip, coordinates=question.size).mechanism
    return lambda query: of_owner.release(_as_one(exact_answer(query).value, settings.clip), noise)


def _as_one(value: Floats, clip: float) -> Bounded:
    """An owner's whole answer, scaled down to the clip: no two of them are farther apart than twice that."""
    norm = float(np.linalg.norm(value))
    return Bounded(value * min(1.0, clip * ROUNDING_FACTOR / norm) if norm else value, 2 * clip, "l2")


class _Attacker:
    """The other owner, with its generator."""

    def __init__(
        self, gradients: RecordGradients, rows: NetworkRows, settings: Settings, seed: int, sees: bool
    ) -> None:
        self.generator = Generator(settings.side, seed, settings.device)
        self._gradients, self._rows, self._settings, self._sees = gradients, rows, settings, sees
        self._discriminator = sole_copy(classifier(settings.side, seed)).to(settings.device)
        self._random = np.random.default_rng(seed)

    def answer(self, theta: Floats) -> Floats:
        """Its answer to a question at theta [P], of which its generator learned first."""
        settings = self._settings
        if self._sees:
            set_parameters(self._discriminator, theta)
        self.generator.learn(self._discriminator, settings.target, settings.batch // 2, settings.pursuit)
        drawn = self.generator.images(round(INJECTED_SHARE * settings.batch))
        own = self._random.choice(len(self._rows), settings.batch - len(drawn))
        X = np.concatenate([self._rows.X[own], drawn])
        y = np.concatenate([self._rows.y[own], np.full(len(drawn), float(ARTIFICIAL_CLASS))])
        return self._gradients.clipped_sum(theta, X, y) / settings.batch
