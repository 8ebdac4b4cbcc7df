"""Tables 1 and 2 of Chase et al. (2017), published beside ours: every epsilon is for the whole run, replace-one.

Three norms clip a record's gradient. Gaussian noise covers each: a clip C in Linf reaches sqrt(P) C in L2. Clips are
set so that all three have the same noise; what differs is how much of the gradient the clip leaves. Beside them stand
the pure promise of L1 and Laplace noise, and L1 and L2 by the letter of A: epsilon is that of one step.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import pandas as pd
import torch

from parley.privacy.accounting import compose, make_series
from parley.privacy.events import GaussianEvent
from parley.tasks.networks.architectures import Architecture, set_parameters
from parley.tasks.networks.training import NetworkPlan, Speed, train_network
from parley.validate import whole
from parley_lab.papers.aarhus2020.digits import Digits
from parley_lab.papers.document import Progress, Shown, Titled

DELTA = 1e-3
NETWORK_BY_TABLE = {"1": "chase-small", "2": "chase-large"}
NO_NOISE = {"1": 98.5, "2": 98.9}
PUBLISHED = {  # by table and epsilon: Linf, L1, L2
    "1": {0.5: (58.5, 89.1, 82.3), 2.0: (73.7, 91.8, 87.8), 8.0: (88.1, 94.8, 92.1)},
    "2": {0.5: (24.0, 84.7, 51.8), 2.0: (61.1, 90.3, 88.4), 8.0: (80.3, 92.9, 90.4)},
}
NO_NOISE_EPSILON = 1e5  # an epsilon at which noise is no longer heard
STRICTER_DELTA = 1e-5
# How much longer steps are than in L2, by table; picked on 5,000 images that were left out of training.
L1_STEP_FACTORS, PURE_STEP_FACTOR = {"1": 5.0, "2": 1.0}, 5.0
Norm = Literal["linf", "l1", "l2"]
NORMS: tuple[Norm, ...] = ("linf", "l1", "l2")
TOTAL_TITLES = {
    "epsilon": "total ε",
    "stricter": "at δ = 10⁻⁵",
    "linf": "Linf, paper",
    "our_linf": "ours",
    "l1": "L1, paper",
    "our_l1": "ours",
    "pure": "δ = 0",
    "l2": "L2, paper",
    "our_l2": "ours",
    "sd": "sd",
}
STEP_TITLES = {
    "epsilon": "ε a step",
    "l1": "L1, paper",
    "step_l1": "ours",
    "total_l1": "its total ε",
    "l2": "L2, paper",
    "step_l2": "ours",
    "total_l2": "its total ε",
}


@dataclass(frozen=True)
class Settings:
    """How networks are trained; `device` None: a GPU where there is one."""

    runs: int
    epochs: int
    batch: int
    clip: float
    step: float
    device: str | None = None

    def batches(self, images: int) -> int:
        """Batches of an epoch, of so many images on average."""
        return max(images // whole(self.batch, "batch"), 2)

    def plan(self, epsilon: float, images: int, parameters: int, norm: Norm = "l2", pure: bool = False) -> NetworkPlan:
        """What is promised at this epsilon for the whole run, with a clip that has the same L2 bound in every norm."""
        clip = self.clip / math.sqrt(parameters) if norm == "linf" else self.clip
        mechanism: Literal["laplace", "gaussian"] = "laplace" if pure else "gaussian"
        batches, delta = self.batches(images), 0.0 if pure else DELTA
        return NetworkPlan(epsilon, delta, clip, batches, self.epochs, self.step, mechanism, clip_norm=norm)


@lru_cache(maxsize=32)
def total_of_steps(norm: Norm, epsilon: float, batches: int, steps: int) -> float:
    """The total epsilon of A's noise for so many steps, replace-one: Laplace's of scale C/epsilon on what is clipped to
    C in L1, at delta 0; the Gaussian's of C sqrt(2 ln(1.25/delta))/epsilon on what is clipped in L2, at delta 0.001.
    Each step draws a record with probability 1/batches.

    >>> total_of_steps("l1", 0.5, 1, 10)
    10.0
    """
    if norm == "l1":
        return steps * (math.log1p(math.expm1(epsilon) / batches) - math.log1p(math.expm1(-epsilon) / batches))
    event = GaussianEvent(math.sqrt(2 * math.log(1.25 / DELTA)) / (2 * epsilon), 1 / batches)
    return compose([event.times(steps)], DELTA, "pld").high


@dataclass(frozen=True, eq=False)
class Runs:
    """Digits, and how networks are trained on them."""

    digits: Digits
    settings: Settings

    def network(self, word: str) -> Architecture:
        """The table's network for these images."""
        return Architecture.from_name(NETWORK_BY_TABLE[word], self.digits.images.shape[1], 10)

    def plan(self, word: str, epsilon: float, norm: Norm = "l2", pure: bool = False) -> NetworkPlan:
        """What a run of the table's network promises."""
        plan = self.settings.plan(epsilon, len(self.digits.images), self.network(word).parameters, norm, pure)
        longer = PURE_STEP_FACTOR if pure else L1_STEP_FACTORS[word] if norm == "l1" else 1.0
        return replace(plan, step=longer * plan.step)

    def accuracies(self, word: str, plan: NetworkPlan) -> list[float]:
        """The share of test images that each run tells right, in percent."""
        digits, device = self.digits, self.settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        network, found = self.network(word), []
        for seed in range(whole(self.settings.runs, "runs")):
            module = network.module()
            set_parameters(module, network.initial(seed))
            trained = train_network(module, digits.images, digits.labels, plan, seed=seed, speed=Speed(device))
            found.append(100 * float(np.mean(trained.predict(digits.test_images) == digits.test_labels)))
        return found


Row = dict[str, float | None]


def table(bench: Runs, word: str, progress: Progress) -> Shown:
    """One of the tables: accuracies at each epsilon and in each norm, and without noise."""
    published, steps = PUBLISHED[word], bench.settings.batches(len(bench.digits.images)) * bench.settings.epochs
    rows, by_step, done = list[Row](), list[Row](), 0

    def right(plan: NetworkPlan) -> list[float]:
        nonlocal done
        progress(done, 6 * len(published) + 1)
        done += 1
        return bench.accuracies(word, plan)

    for epsilon, figures in published.items():
        printed: Row = dict(zip(NORMS, figures, strict=True))
        ours = {norm: right(bench.plan(word, epsilon, norm)) for norm in NORMS}
        pure, stricter = right(bench.plan(word, epsilon, "l1", pure=True)), _at_delta(bench, word, epsilon)
        means = {f"our_{norm}": float(np.mean(each)) for norm, each in ours.items()}
        own = {"pure": float(np.mean(pure)), "sd": float(np.std(ours["l2"]))}
        rows.append({"epsilon": epsilon, "stricter": stricter, **printed, **means, **own})
        batches, letter = bench.settings.batches(len(bench.digits.images)), Row(epsilon=epsilon, **printed)
        for norm in NORMS[1:]:
            total = total_of_steps(norm, epsilon, batches, steps)
            found = right(bench.plan(word, total, norm, pure=norm == "l1"))
            letter |= {f"step_{norm}": float(np.mean(found)), f"total_{norm}": total}
        by_step.append(letter)
    silent = right(bench.plan(word, NO_NOISE_EPSILON))
    quiet = {"l2": NO_NOISE[word], "our_l2": float(np.mean(silent)), "sd": float(np.std(silent))}
    rows.append({**dict.fromkeys(TOTAL_TITLES), **quiet})
    return _shown(bench, word, rows, by_step)


def _shown(bench: Runs, word: str, rows: list[Row], by_step: list[Row]) -> Shown:
    images, digits = len(bench.digits.images), bench.digits
    source = "MNIST" if digits.real else "SYNTHETIC digits: mnist.npz is not at hand"
    title = f"Table {word}: {NETWORK_BY_TABLE[word]}, {images:,} images, {source}"
    above = sum((row["our_l2"] or 0) > max(row[norm] or 0 for norm in NORMS) for row in rows[:-1])
    letter = f"Table {word} by the letter of A: ε is that of one step"
    return Shown(
        content={
            "tables": {word: rows},
            "by_step": {word: by_step},
            "settings": vars(bench.settings),
            "images": images,
        },
        parts=[Titled(title, _lines(TOTAL_TITLES, rows)), Titled(letter, _lines(STEP_TITLES, by_step))],
        files={f"table-{word}": pd.DataFrame(rows), f"table-{word}-by-step": pd.DataFrame(by_step)},
        notes=[
            "Gaussian noise, equal for all norms; records are drawn in secret; ε is for the whole run and replace-one. "
            f"δ = {DELTA:g} is as published; 1/n is {1 / images:.1e}, and a δ above it would let a few people be given "
            "away. Column δ = 0: L1 and Laplace noise, a pure promise for the whole run."
        ],
        findings=[[f"table {word}: our L2 above all published norms", f"{len(by_step)} places", str(above)]],
        real=digits.real,
    )


def _lines(titles: dict[str, str], rows: list[Row]) -> list[list[str]]:
    return [[*titles.values()], *([_cell(row[name]) for name in titles] for row in rows)]


def _at_delta(bench: Runs, word: str, epsilon: float) -> float:
    """What the same noise costs at a delta below 1/n."""
    plan = bench.plan(word, epsilon)
    rate = 1 / plan.batches
    series = make_series("gaussian", Fraction(str(epsilon)), Fraction(str(DELTA)), plan.steps, 1.0, rate=rate)
    return compose([GaussianEvent(series.event.multiplier, rate).times(plan.steps)], STRICTER_DELTA, "pld").high


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
