"""Z's networks trained again: every row of a table so many times, all runs together on one device.

Formal guarantee: none; these are studies with a seed. Stable noise has no exact sampler, so nothing of it is released.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.validate import positive, whole
from parley_lab.papers.zawacki2024.network_images import Images
from parley_lab.papers.zawacki2024.published_networks import NetworkTable

RESULTS_FOLDER = Path(__file__).parent / "results"
STABLE_ALPHA = 1.999
ON_CPU = 4  # runs that a processor trains at once

CountProgress = Callable[[int, int], None]


@dataclass(frozen=True)
class Law:
    """The noise of a run, stable of `scale` clips, or none at scale 0; a clip of None: gradients as they are."""

    alpha: float
    scale: float
    clip: float | None

    @property
    def clipped_at_2(self) -> "Law":
        """The same noise on gradients clipped at twice the norm: half as many clips."""
        return replace(self, scale=self.scale / 2, clip=None if self.clip is None else 2 * self.clip)


@dataclass(frozen=True)
class RowRuns:
    """What the runs with one noise reached, in percent."""

    law: Law
    accuracies: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.accuracies))

    @property
    def deviation(self) -> float:
        """Of single runs; not a number where there is one alone."""
        return float(np.std(self.accuracies, ddof=1)) if len(self.accuracies) > 1 else math.nan


@dataclass(frozen=True)
class TableRuns:
    """What came out of training a table: on which images, how many, for how many epochs, and every row's runs."""

    table: str
    data: str
    images: int
    epochs: float
    step: float
    momentum: float
    decay: bool
    rows: tuple[RowRuns, ...]
    command: str

    def row(self, law: Law) -> RowRuns | None:
        """The runs with this noise."""
        return next((row for row in self.rows if row.law == law), None)

    def save(self, path: Path) -> None:
        """As JSON: numbers and names."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def kept_runs(word: str) -> TableRuns | None:
    """What long runs of a table reached, as kept in the package; None where none were kept."""
    path = RESULTS_FOLDER / f"table-{word}.json"
    if not path.is_file():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    rows = tuple(RowRuns(Law(**row["law"]), tuple(row["accuracies"])) for row in content.pop("rows"))
    return TableRuns(**content, rows=rows)


def laws(table: NetworkTable) -> list[Law]:
    """The noise of every row: none, without a clip and with it; the published ones; and alpha = 1.999 at the scale of
    the second Gaussian one: by one sound bound for both their eps are the same within 0.1 %."""
    published = [Law(row.alpha, row.scale, table.clip) for row in table.rows]
    return [Law(2.0, 0.0, None), Law(2.0, 0.0, table.clip), *dict.fromkeys([*published, equal_law(table)])]


def equal_law(table: NetworkTable) -> Law:
    """That of alpha = 1.999 whose sound eps is the second Gaussian row's."""
    return Law(STABLE_ALPHA, table.rows[1].scale, table.clip)


def trained_laws(table: NetworkTable) -> list[Law]:
    """Those of every row, and with gradients clipped at twice the norm, by which printed eps of Gaussian rows come
    out."""
    return list(dict.fromkeys([*laws(table), *(law.clipped_at_2 for law in laws(table))]))


def train_table(
    table: NetworkTable,
    images: Images,
    trials: int,
    epochs: float | None = None,
    device: str = "cpu",
    seed: int = 0,
    command: str = "",
    progress: CountProgress = lambda done, count: None,
) -> TableRuns:
    """Train every row so many times: `epochs` (those of the table where none are said) of steps that draw the table's
    batch on average."""
    from parley.tasks.networks.kernels import require_device
    from parley_lab.papers.zawacki2024.stacked_networks import StudySteps

    require_device(device)
    epochs = positive(table.epochs if epochs is None else epochs, "epochs")
    rate = min(table.batch / len(images.X), 0.5)
    steps = StudySteps(rate, math.ceil(epochs / rate), table.step, table.momentum, table.decay)
    found = _accuracies(table, images, steps, whole(trials, "trials"), device, seed, progress)
    rows = tuple(RowRuns(law, tuple(found[law])) for law in trained_laws(table))
    return TableRuns(
        table.word, images.called, len(images.X), epochs, table.step, table.momentum, table.decay, rows, command
    )


def _accuracies(
    table: NetworkTable, images: Images, steps: Any, trials: int, device: str, seed: int, progress: CountProgress
) -> dict[Law, list[float]]:
    """The accuracies of every law's trials, in percent; a trial begins at the same weights in every row."""
    import torch

    from parley.tasks.networks.architectures import Architecture
    from parley_lab.papers.zawacki2024.stacked_networks import StackedNetwork, StudyNoise, trained_runs

    network = Architecture.from_name(table.network, images.X.shape[1], images.classes)
    jobs = [(law, trial) for trial in range(trials) for law in trained_laws(table)]
    begins = [network.initial(seed + trial) for trial in range(trials)]
    at_once = table.at_once if device.startswith("cuda") else ON_CPU
    parts = [jobs[first : first + at_once] for first in range(0, len(jobs), at_once)]
    test = [torch.from_numpy(each).to(device) for each in (images.held_out, images.held_out_y)]
    found: dict[Law, list[float]] = {law: [] for law in trained_laws(table)}
    for place, part in enumerate(parts):
        noises = [StudyNoise(law.alpha, law.scale, law.clip or math.inf) for law, _ in part]
        theta = trained_runs(
            network.module(),
            np.stack([begins[trial] for _, trial in part]),
            images.X,
            images.y,
            noises,
            steps,
            seed + 1000 * (place + 1),
            device,
            lambda done, count, place=place: progress(place * count + done, len(parts) * count),  # type: ignore[misc]
        )
        judged = StackedNetwork(network.module(), device).accuracies(theta, *test)
        for (law, _), share in zip(part, judged, strict=True):
            found[law].append(round(100 * float(share), 3))
    return found
