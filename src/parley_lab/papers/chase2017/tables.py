"""Tables 1 and 2 of Chase et al. (2017), published beside ours: every epsilon is for the whole run, replace-one."""

from dataclasses import dataclass
from fractions import Fraction

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
PUBLISHED = {  # by table and epsilon: L1, L2
    "1": {0.5: (89.1, 82.3), 2.0: (91.8, 87.8), 8.0: (94.8, 92.1)},
    "2": {0.5: (84.7, 51.8), 2.0: (90.3, 88.4), 8.0: (92.9, 90.4)},
}
NO_NOISE_EPSILON = 1e5  # an epsilon at which noise is no longer heard
STRICTER_DELTA = 1e-5
COLUMN_TITLES = {
    "epsilon": "total ε, δ = 0.001",
    "stricter": "the same at δ = 10⁻⁵",
    "l1": "published L1 %",
    "l2": "published L2 %",
    "ours": "ours, L2 %",
    "sd": "sd",
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

    def plan(self, epsilon: float, images: int) -> NetworkPlan:
        """What is promised at this epsilon."""
        batches = max(images // whole(self.batch, "batch"), 2)
        return NetworkPlan(epsilon, DELTA, self.clip, batches, self.epochs, self.step)


@dataclass(frozen=True, eq=False)
class Runs:
    """Digits, and how networks are trained on them."""

    digits: Digits
    settings: Settings

    def accuracies(self, name: str, epsilon: float) -> list[float]:
        """The share of test images that each run tells right, in percent."""
        digits, device = self.digits, self.settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
        network, found = Architecture.from_name(name, digits.images.shape[1], 10), []
        for seed in range(whole(self.settings.runs, "runs")):
            module = network.module()
            set_parameters(module, network.initial(seed))
            plan = self.settings.plan(epsilon, len(digits.images))
            trained = train_network(module, digits.images, digits.labels, plan, seed=seed, speed=Speed(device))
            found.append(100 * float(np.mean(trained.predict(digits.test_images) == digits.test_labels)))
        return found


def table(bench: Runs, word: str, progress: Progress) -> Shown:
    """One of the tables: accuracies at each epsilon, and without noise."""
    rows, above, published = list[list[float | None]](), 0, PUBLISHED[word]
    for place, (epsilon, figures) in enumerate(published.items()):
        progress(place, len(published) + 1)
        right = bench.accuracies(NETWORK_BY_TABLE[word], epsilon)
        above += float(np.mean(right)) > max(figures)
        rows.append([epsilon, _at_delta(bench, epsilon), *figures, float(np.mean(right)), float(np.std(right))])
    progress(len(published), len(published) + 1)
    right = bench.accuracies(NETWORK_BY_TABLE[word], NO_NOISE_EPSILON)
    rows.append([None, None, NO_NOISE[word], NO_NOISE[word], float(np.mean(right)), float(np.std(right))])
    frame, images = pd.DataFrame(rows, columns=list(COLUMN_TITLES)), len(bench.digits.images)
    source = "MNIST" if bench.digits.real else "SYNTHETIC digits: mnist.npz is not at hand"
    lines = [[*COLUMN_TITLES.values()], *([_cell(value) for value in row] for row in rows)]
    kept = [dict(zip(COLUMN_TITLES, row, strict=True)) for row in rows]
    return Shown(
        content={"tables": {word: kept}, "settings": vars(bench.settings), "images": images},
        parts=[Titled(f"Table {word}: {NETWORK_BY_TABLE[word]}, {images:,} images, {source}", lines)],
        files={f"table-{word}": frame},
        notes=[
            f"Gaussian noise, records drawn in secret; ε is for the whole run and replace-one. δ = {DELTA:g} is as "
            f"published; 1/n is {1 / images:.1e}, and a δ above it would let a few persons be given away."
        ],
        findings=[[f"table {word}: where ours is above both published norms", f"{len(published)} places", str(above)]],
        real=bench.digits.real,
    )


def _at_delta(bench: Runs, epsilon: float) -> float:
    """What the same noise costs at a delta below 1/n."""
    plan = bench.settings.plan(epsilon, len(bench.digits.images))
    rate = 1 / plan.batches
    series = make_series("gaussian", Fraction(str(epsilon)), Fraction(str(DELTA)), plan.steps, 1.0, rate=rate)
    return compose([GaussianEvent(series.event.multiplier, rate).times(plan.steps)], STRICTER_DELTA, "pld").high


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
