"""What the attacker draws by round, how it is recognised, and how well the joint network does, by what hides the
victim."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from parley.tasks.networks.architectures import module_scores, set_parameters
from parley.tasks.networks.question import NetworkRows
from parley.validate import whole
from parley_lab.papers.aarhus2020.digits import Digits
from parley_lab.papers.document import Progress, Shown, Titled
from parley_lab.papers.hitaj2017.collaboration import Images, Round, collaborate
from parley_lab.papers.hitaj2017.parties import Parties, Protection, Settings, classifier
from parley_lab.papers.hitaj2017.recognition import Judge

MAX_SNAPSHOTS = 6  # how often a run is looked at, the times between doubling
DRAWN, SHOWN = 512, 10  # images that are judged, and of them drawn in a picture
CONTROL_NAME = "control: against a network that never learned"
COLUMN_TITLES = (
    "the victim's answers",
    "taken for its digit, at best",
    "at the end",
    "distance ratio, at best",
    "network right",
)


@dataclass(frozen=True, eq=False)
class Look:
    """After one round: the share of drawn images that are taken for the victim's digit, how near they are to it, the
    share of test images that the joint network tells right, and some of the images [SHOWN, pixels]."""

    number: int
    recognised: float
    nearness: float
    accuracy: float
    images: Images


@dataclass(frozen=True, eq=False)
class Study:
    """Digits, how two owners learn them, and the seeds of which each is a run."""

    digits: Digits
    settings: Settings
    protections: Sequence[Protection]
    runs: int = 1

    @property
    def tried(self) -> dict[str, tuple[Protection, bool]]:
        """What hides the victim and whether the generator sees the joint network, by name."""
        return {each.name: (each, True) for each in self.protections} | {CONTROL_NAME: (Protection(), False)}

    def looks(self, name: str, seed: int, judge: Judge, done: Callable[[], None] = lambda: None) -> list[Look]:
        """One collaboration, looked at as it goes on; `done` hears of every round."""
        parties, at = Parties.of(self.digits, self.settings, seed), _rounds(self.settings.rounds)
        found, (protection, sees) = [], self.tried[name]
        for each in collaborate(parties, self.settings, protection, seed, sees):
            if each.number in at:
                found.append(_look(each, judge, self.settings, parties.test))
            done()
        return found


def _rounds(total: int) -> list[int]:
    """When a run of so many rounds is looked at.

    >>> _rounds(400)
    [12, 25, 50, 100, 200, 400]
    """
    return sorted({max(total >> halvings, 1) for halvings in range(MAX_SNAPSHOTS)})


def _look(now: Round, judge: Judge, settings: Settings, test: NetworkRows) -> Look:
    images, network = now.draw(DRAWN), classifier(settings.side, 0)
    set_parameters(network, now.theta)
    digits: NDArray[np.int64] = module_scores(network, test.X)[:, :10].argmax(axis=1)
    return Look(
        number=now.number,
        recognised=judge.recognised(images, settings.target),
        nearness=judge.nearness(images, settings.target),
        accuracy=float(np.mean(digits == test.y)),
        images=images[:SHOWN],
    )


def digits(bench: Study, word: str, progress: Progress) -> Shown:
    """The attack under every protection, and its control."""
    settings, runs = bench.settings, whole(bench.runs, "runs")
    parties = Parties.of(bench.digits, settings)
    judge, number = Judge.trained(parties.others), count()

    def done() -> None:
        progress(next(number) + 1, len(bench.tried) * runs * settings.rounds)

    found = {name: [bench.looks(name, seed, judge, done) for seed in range(runs)] for name in bench.tried}
    rows = [list(COLUMN_TITLES), *([name, *_cells(each)] for name, each in found.items())]
    source = "MNIST" if bench.digits.real else "SYNTHETIC digits: mnist.npz is not at hand"
    title = f"What is drawn of the victim's {settings.target} in {settings.rounds} rounds, {source}"
    return Shown(
        content={
            "attacks": {name: [[_numbers(look) for look in looks] for looks in each] for name, each in found.items()},
            "settings": vars(settings),
        },
        parts=[Titled(title, [*rows, _real(judge, parties.test, settings.target)])],
        drawn=({name: each[0] for name, each in found.items()}, settings.target),
        notes=[
            f"{settings.rows:,} images of {settings.side} by {settings.side} each, about {settings.batch} a round; δ = "
            f"{settings.delta:g}; ε is for the whole run. Judged by a network trained on other images, which may say "
            "that it sees no digit; distance ratio: to the digit's mean image, over that to the nearest other's.",
            "Where a record is the unit, ε hides a record, and not what a digit looks like.",
        ],
        real=bench.digits.real,
    )


def _real(judge: Judge, test: NetworkRows, target: int) -> list[str]:
    """What real images of the digit would have."""
    images = test.X[test.y == target]
    near = f"{judge.nearness(images, target):.2f}"
    return ["real images of it", f"{judge.recognised(images, target):.0%}", "", near, ""]


def _cells(runs: Sequence[Sequence[Look]]) -> list[str]:
    """Means over runs, with their range where there are several; who draws can keep what was best."""
    return [
        _range([max(look.recognised for look in looks) for looks in runs], ".0%"),
        _range([looks[-1].recognised for looks in runs], ".0%"),
        _range([min(look.nearness for look in looks) for looks in runs], ".2f"),
        _range([looks[-1].accuracy for looks in runs], ".0%"),
    ]


def _range(values: Sequence[float], form: str) -> str:
    middle = format(float(np.mean(values)), form)
    return middle if len(values) == 1 else f"{middle} ({min(values):{form}} to {max(values):{form}})"


def _numbers(look: Look) -> dict[str, float]:
    return {
        "round": look.number,
        "recognised": look.recognised,
        "nearness": look.nearness,
        "accuracy": look.accuracy,
    }
