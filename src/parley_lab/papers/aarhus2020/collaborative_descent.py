"""A: the Aarhus report of 2020 on private collaborative machine learning: its settings, what it published, and one run
of each kind.

Ten logistic regressions, one against the rest, on MNIST: 50 epochs of batches of 20,000 records in all, rate 0.3, each
batch split at random into ten parts, a record's gradient clipped to C and noise on every sum: Laplace's of scale C/eps
(L1), or the Gaussian's of sigma = C sqrt(2 ln(1.25/delta))/eps (L2, delta = 1e-3). That is eps for one step and for a
record that is added or left out. We count one that is replaced (twice as far) and all epochs: a record is in one batch
of each.

A is read by the letter: a step is the rate times the *sum* of a part's gradients (its algorithm 1, listing 2), and the
search starts at "a random sample of weights", here standard normal ones. From zero ours would be six to eight points
better at some places with most clips. But from there A's figure 7 could not show digits, as it says it does: ours do in
what was learned, the weights less where they started.
"""

import math
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from parley.learning.train import train
from parley.privacy.accounting import compose
from parley.privacy.events import LaplaceEvent
from parley.privacy.mechanisms.gaussian import gaussian_epsilon
from parley.terms import Terms
from parley.validate import Floats
from parley_lab.papers.aarhus2020.digits import CLASSES, PIXELS, Digits

Norm = Literal["l1", "l2"]
Who = Literal["alone", "own noise", "one noise", "softmax"]

OWNERS, EPOCHS, BATCHES, RATE, DELTA = 3, 50, 3, 0.3, 1e-3  # A does not say how many peers it has
NO_NOISE = {"alone": 85.59, "one noise": 83.56}
EPSILONS: dict[Norm, tuple[float, ...]] = {
    "l1": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "l2": (0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.14, 0.16, 0.18, 0.20),
}
TABLES: dict[int, tuple[Who, Norm]] = {
    3: ("alone", "l1"),
    4: ("alone", "l2"),
    5: ("one noise", "l1"),
    6: ("one noise", "l2"),
}
PUBLISHED: dict[int, tuple[float, ...]] = {
    3: (60.25, 70.80, 76.67, 78.20, 77.18, 81.48, 82.41, 79.39, 82.18, 82.33),
    4: (53.18, 65.93, 74.17, 75.53, 77.54, 80.58, 80.08, 83.99, 82.82, 82.19),
    5: (58.28, 69.76, 74.52, 77.88, 79.98, 82.04, 82.76, 81.84, 80.40, 79.48),
    6: (55.26, 67.97, 74.53, 73.86, 79.28, 81.68, 82.25, 79.82, 80.94, 81.01),
}
# Among which C is looked for.
TRIED_CLIPS: dict[Norm, tuple[float, ...]] = {"l1": (0.05, 0.08, 0.12), "l2": (0.005, 0.008, 0.012)}
# without noise, alone and together have one law: both figures say where it lies
MEAN_WITHOUT_NOISE = sum(NO_NOISE.values()) / len(NO_NOISE)
NO_NOISE_EPSILON: dict[Norm, float] = {"l1": 1e9, "l2": 1e6}  # an epsilon whose noise no digit shows

# hosts draw Laplace noise in agreements of at most this epsilon, one after the other: of more, no delta pays for bits
AGREED, BITS = 10.0, 1e-6

SOFTMAX_CLIP, SOFTMAX_EPOCHS, SOFTMAX_STEP = 1.0, 40, 3.0  # of all records at once, with momentum


@dataclass(frozen=True)
class Cell:
    """One kind of run: who learns, in which norm, with A's epsilon for a step (None: no noise)."""

    who: Who
    norm: Norm
    epsilon: float | None
    clip: float
    runs: int = 1
    draw: int = 0
    epochs: int = EPOCHS
    place: int = 0  # of an agreement among those of a run

    def measure(self, digits: Digits) -> tuple[Floats, Floats]:
        """The accuracy of each run [runs], in percent, and what the first one learned: its weights less those it
        started with [10, 785]."""
        owners = digits.owners(1 if self.who in ("alone", "softmax") else OWNERS)
        theta = starts = self.starts
        for part in self.agreements:
            terms = part.terms(len(digits.images))
            theta = train(terms, owners, self.runs, seed=part.seed, measure=False, start=theta).theta
        return 100 * digits.accuracy(theta), (theta[0] - starts[0]).reshape(len(CLASSES), -1)

    @property
    def hosted(self) -> bool:
        """Whether three hosts draw the noise."""
        return self.who == "one noise" and self.epsilon is not None

    @property
    def agreements(self) -> list["Cell"]:
        """The agreements that a run is made of, each beginning where the last one ended: one, or as many as hosts need.

        >>> [part.epochs for part in Cell("one noise", "l1", 0.3, 0.1).agreements]
        [16, 16, 16, 2]
        """
        if not (self.hosted and self.norm == "l1" and self.epsilon is not None):
            return [self]
        max_epochs = max(1, int(AGREED / (2 * self.epsilon) + 1e-9))
        lengths = [min(max_epochs, self.epochs - done) for done in range(0, self.epochs, max_epochs)]
        return [replace(self, epochs=length, place=place) for place, length in enumerate(lengths)]

    @property
    def seed(self) -> int:
        """Of batches, which its runs share, and of their starts and noise. Of two cells that share it, one has another
        clip."""
        later = f"/{self.place}" if self.place else ""
        return zlib.crc32(f"{self.who}/{self.norm}/{self.epsilon}/{self.draw}{later}".encode())

    @property
    def starts(self) -> Floats:
        """Where the runs begin [runs, 7850]."""
        shape = self.runs, len(CLASSES) * (len(PIXELS) + 1)
        return np.zeros(shape) if self.who == "softmax" else np.random.default_rng(self.seed).normal(size=shape)

    def terms(self, records: int) -> Terms:
        """The agreement for so many images in all."""
        count = 1 if self.who in ("alone", "softmax") else OWNERS
        names = [f"owner-{i + 1}" for i in range(count)]
        owners = [
            {"name": n, "records": records // count, "epsilon": e}
            for n, e in zip(names, self._budgets(count), strict=True)
        ]
        kind = "softmax-regression" if self.who == "softmax" else "one-vs-all"
        return Terms.from_dict(
            {
                "model": {
                    "kind": kind,
                    "target": "digit",
                    "features": list(PIXELS),
                    "categories": {"digit": list(CLASSES)},
                },
                "learning": self._learning(records),
                "privacy": self._privacy(),
                "owners": owners,
                **({"hosts": [{"name": name} for name in names]} if self.hosted else {}),
            }
        )

    def _learning(self, records: int) -> dict[str, object]:
        if self.who == "softmax":
            return softmax_learning(min(self.epochs, SOFTMAX_EPOCHS))
        batches = {"batches": BATCHES, "epochs": self.epochs, "batch_seed": self.seed}
        summed = records / BATCHES / len(CLASSES)  # our steps are along means, A's along sums over a part
        return {"algorithm": "private-sgd", **batches, "step": RATE * summed}

    def _privacy(self) -> dict[str, object]:
        if self.who == "softmax":
            return {"mechanism": "gaussian", "clip": SOFTMAX_CLIP, "delta": DELTA}
        where = {"noise": "shared"} if self.hosted else {}
        if self.norm == "l2":
            return {"mechanism": "gaussian", "clip": self.clip, "delta": DELTA, **where}
        return {"mechanism": "laplace", "clip": self.clip, **({"delta": BITS, **where} if self.hosted else {})}

    def _budgets(self, count: int) -> list[float]:
        """Each owner's epsilon over all epochs of the agreement, such that the noise is A's."""
        if self.epsilon is None:
            return [NO_NOISE_EPSILON["l2" if self.who == "softmax" else self.norm]] * count
        if self.who == "softmax":
            return [total_epsilon(self.norm, self.epsilon, self.epochs)]
        if self.norm == "l2":
            return [total_epsilon("l2", self.epsilon, self.epochs)] * count
        return [round(2 * self.epochs * self.epsilon, 9)] * count


def softmax_learning(epochs: int = SOFTMAX_EPOCHS) -> dict[str, object]:
    """All records in every step: under one budget, k batches an epoch would each carry the noise of all and have a k-th
    of the signal."""
    steps = {"batches": 1, "epochs": epochs, "step": SOFTMAX_STEP, "optimiser": "momentum"}
    return {"algorithm": "private-sgd", **steps}


def multiplier(norm: Norm, epsilon: float) -> float:
    """A's noise over the distance that one replaced record makes, 2 C.

    >>> multiplier("l1", 0.5)
    1.0
    """
    return 1 / (2 * epsilon) if norm == "l1" else math.sqrt(2 * math.log(1.25 / DELTA)) / (2 * epsilon)


def step_epsilon(norm: Norm, epsilon: float) -> float:
    """What one of A's steps costs a person whose record is replaced: pure for L1, at delta for L2."""
    return 2 * epsilon if norm == "l1" else gaussian_epsilon(multiplier(norm, epsilon), DELTA)


@lru_cache(maxsize=256)
def total_epsilon(norm: Norm, epsilon: float, epochs: int = EPOCHS) -> float:
    """What all epochs cost at delta, by the tightest accounting."""
    if norm == "l2":
        return gaussian_epsilon(multiplier(norm, epsilon) / math.sqrt(epochs), DELTA)
    return compose([LaplaceEvent(multiplier(norm, epsilon), count=epochs)], DELTA).high


def fit_clip(clips: tuple[float, ...], accuracies: Floats, wanted: float = MEAN_WITHOUT_NOISE) -> float:
    """The C at which the accuracy without noise is A's, on a straight line in ln C between those tried; the nearest of
    them if none is.

    >>> fit_clip((1.0, 4.0), np.array([80.0, 90.0]), 85.0)
    2.0
    """
    rising = np.maximum.accumulate(accuracies)
    return float(f"{math.exp(float(np.interp(wanted, rising, np.log(clips)))):.3g}")


def apart(cell: Cell) -> list[Cell]:
    """As many cells as it has runs, which share nothing: batches, starts and noise of their own."""
    return [replace(cell, runs=1, draw=draw) for draw in range(1, cell.runs + 1)]
