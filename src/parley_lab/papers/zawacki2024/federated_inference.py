"""Z's chapter 8 again: FedAvg, SCAFFOLD, FedLin and FedInfer on three tasks, at Z's budgets for each update and at
equal total budgets.

Z fixes (eps, delta) of one update and never adds up. Here every run has a total: what so many updates of that noise
cost together, at the same delta. So the same terms, owners and code run both comparisons. Neighbours differ in one
record (Z bounds whole updates of a client); all methods have the same clip for a gradient, FedInfer one for a record's
second moments. With an owner as the unit, as in Z, the same clips bound whole answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np

from parley.learning.algorithms.algorithm import Asker, State, run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.owners import exchange_with, gather
from parley.learning.start import starting_point
from parley.owner.owner import Owner
from parley.privacy.mechanisms.gaussian import gaussian_epsilon, gaussian_ratio
from parley.protocol.aggregation import aggregation_of
from parley.protocol.queries import Answer
from parley.terms import Terms
from parley.validate import Floats
from parley_lab.papers.zawacki2024.federated_tasks import Task, biopsies, flowers, two_gaussians

Unit = Literal["record", "owner"]
UPDATE_ITERATIONS = (1, 2, 5, 10)  # of figure 8.8: how many iterations a client needs for one update
NO_NOISE_EPSILON = 1e6  # an epsilon whose noise no accuracy shows


@dataclass(frozen=True)
class Method:
    """One line of a figure: its name in Z, and the algorithm."""

    name: str
    algorithm: str
    paired: bool = False  # two answers a step

    @property
    def infers(self) -> bool:
        return self.algorithm == "fedinfer"


METHODS = (
    Method("FedAvg", "federated-averaging"),
    Method("SCAFFOLD", "scaffold"),
    Method("FedLin", "fedlin", paired=True),
    Method("FedInfer", "fedinfer"),
)


@dataclass(frozen=True)
class Figure:
    """One figure of chapter 8. `clip`: of a gradient; `moments`: of a record's z z'; `stagger`: how slow each client
    is."""

    number: str
    title: str
    draw: Callable[[np.random.Generator], Task]
    epsilon: float | None  # of one update; None: no noise
    delta: float
    iterations: int
    clip: float
    moments: float
    local_steps: int = 5
    stagger: tuple[int, ...] = ()
    published: dict[str, float] = field(default_factory=dict)  # accuracies, in percent


def _figures() -> dict[str, Figure]:
    first = {"FedAvg": 67.0, "SCAFFOLD": 85.0, "FedLin": 89.0}
    equal = {"FedAvg": 91.0, "SCAFFOLD": 91.0, "FedLin": 91.0, "FedInfer": 95.0}
    gauss, iris, cancer = (0.16, 1e-4), (1.38, 0.0095), (0.5, 0.0025)
    return {
        each.number: each
        for each in (
            Figure("8.2", "two Gaussians, no noise", two_gaussians, None, 1e-4, 20, 3.0, 3.0),
            Figure(
                "8.3",
                "two Gaussians",
                two_gaussians,
                *gauss,
                200,
                2.0,
                2.5,
                published={"SCAFFOLD": 80.0, "FedLin": 80.0},
            ),
            Figure("8.5", "Iris, dealt at random", partial(flowers, expert=False), *iris, 100, 2.0, 6.0, 50),
            Figure(
                "8.6", "Iris, each client an expert", partial(flowers, expert=True), *iris, 100, 2.0, 6.0, 50, (), first
            ),
            Figure(
                "8.7",
                "breast cancer, dealt at random",
                partial(biopsies, skewed=False),
                *cancer,
                200,
                2.0,
                6.0,
                5,
                (),
                equal,
            ),
            Figure(
                "8.8",
                "breast cancer, staggered clients",
                partial(biopsies, skewed=True),
                *cancer,
                1000,
                2.0,
                6.0,
                5,
                UPDATE_ITERATIONS,
            ),
        )
    }


FIGURES = _figures()
CLAIMS = {
    "8.2": "all reach the optimum, FedInfer in one step",
    "8.3": "noise holds SCAFFOLD and FedLin at 80 %; FedInfer reaches the optimum",
    "8.5": "all three gradient methods stay below the optimum, FedInfer reaches it",
    "8.6": "FedAvg < SCAFFOLD < FedLin < FedInfer",
    "8.7": "FedInfer 95 % after 200 iterations, the others 91 %",
    "8.8": "FedInfer is above 90 % quickly, FedLin after 1,000 iterations",
}


@dataclass(frozen=True, eq=False)
class Line:
    """What one method did in all trials: test accuracy [trials] after each step, in percent, and what it cost the owner
    that paid most. A step takes a round, or two where it takes two answers."""

    method: str
    iterations: Floats  # [T]: the iteration at which each step was done
    accuracy: Floats  # [T, trials]
    rounds: int
    epsilon: float
    delta: float
    groups: int  # draws of the split, among which trials are shared evenly
    local_steps: int  # that clients took between two answers; FedInfer's take none

    @property
    def mean(self) -> Floats:
        """The mean accuracy over the trials after each step [T]."""
        return np.asarray(self.accuracy.mean(axis=1))

    @property
    def last(self) -> Floats:
        """Each trial's accuracy [trials] over the last tenth of the steps."""
        return np.asarray(self.accuracy[-max(1, len(self.accuracy) // 10) :].mean(axis=0))

    @property
    def error(self) -> float:
        """The standard error of `last`'s mean: trials with one split go together."""
        groups = self.last.reshape(self.groups, -1)
        return float(groups.mean(axis=1).std(ddof=1) / np.sqrt(self.groups)) if self.groups > 1 else float("nan")

    def first_above(self, percent: float) -> int | None:
        """The iteration after which the mean accuracy first is above this."""
        above = np.flatnonzero(self.mean > percent)
        return int(self.iterations[above[0]]) if above.size else None


@lru_cache(maxsize=256)
def total_epsilon(epsilon: float, delta: float, answers: int) -> float:
    """What so many Gaussian answers cost together at delta, of which each alone costs (epsilon, delta)."""
    return float(f"{gaussian_epsilon(gaussian_ratio(epsilon, delta) / np.sqrt(answers), delta):.6g}")


def terms_of(
    figure: Figure, method: Method, task: Task, rounds: int, epsilons: Sequence[float], unit: Unit = "record"
) -> Terms:
    """The terms of one line: every client's own total epsilon, for as many rounds of exchange."""
    learning: dict[str, Any] = {"algorithm": method.algorithm, "horizon": rounds}
    if not method.infers:
        learning["local_steps"] = figure.local_steps
    owners: list[dict[str, Any]] = [
        {"name": name, "records": len(table), "epsilon": epsilon}
        for name, table, epsilon in zip(task.names, task.clients, epsilons, strict=True)
    ]
    for owner, slow in zip(owners, figure.stagger, strict=False):
        if method.infers and rounds > 1:
            owner["stride"] = slow
        elif method.paired:
            owner["local_steps"] = max(1, max(figure.stagger) // slow)
    model = {key: value for key, value in task.model.items() if key != "radius" or not method.infers}
    clip = figure.moments if method.infers else figure.clip
    privacy = {"mechanism": "gaussian", "delta": figure.delta, "clip": clip, "unit": unit}
    return Terms.from_dict({"model": model, "learning": learning, "privacy": privacy, "owners": owners})


def rounds_of(figure: Figure, method: Method) -> tuple[int, float]:
    """(rounds, iterations a round takes): methods that wait for everybody wait for the slowest client. Two vectors of
    one step are two rounds, and travel in one iteration."""
    each = 1 if method.infers or not figure.stagger else max(figure.stagger)
    answers = 2 if method.paired else 1
    return answers * (figure.iterations // each), each / answers


def per_update(figure: Figure, method: Method, clients: int) -> list[float]:
    """Every client's total epsilon if each of its answers has the figure's noise."""
    rounds, _ = rounds_of(figure, method)
    strides = figure.stagger if method.infers and figure.stagger else (1,) * clients
    if figure.epsilon is None:
        return [NO_NOISE_EPSILON] * clients
    return [total_epsilon(figure.epsilon, figure.delta, -(-rounds // stride)) for stride in strides]


def accuracies(terms: Terms, task: Task, replicates: int, seed: int) -> Floats:
    """Test accuracy in percent after each round [T, replicates]."""
    return followed(terms, task, replicates, seed)[0]


def followed(terms: Terms, task: Task, replicates: int, seed: int) -> tuple[Floats, Floats]:
    """(test accuracy in percent after each round [T, replicates], the models [replicates, P]): a study, by the loop
    that releases go through."""
    owners = [Owner(name, table) for name, table in zip(task.names, task.clients, strict=True)]
    parties, agreements, shape = gather(terms, owners, replicates, seed)
    setup = agreements[0].setup
    test, algorithm, found = setup.preparation.design(task.test, "test"), make_algorithm(setup), list[Floats]()

    def look(state: State, answers: Sequence[Answer]) -> None:
        scores = setup.risk.scores(test.X, algorithm.model(state))
        found.append(100 * np.mean(scores.argmax(axis=-1) == test.y, axis=-1))

    with exchange_with(setup, parties, seed) as exchange:
        begin = algorithm.start(starting_point(setup), shape)
        last = run(algorithm, exchange, aggregation_of(terms), Asker.from_setup(setup), begin, look)
    return np.array(found), algorithm.model(last)


def trace(
    figure: Figure,
    method: Method,
    trials: int,
    splits: int,
    seed: int = 0,
    rounds: int | None = None,
    epsilon: float | None = None,
    progress: Callable[[], None] = lambda: None,
    unit: Unit = "record",
) -> Line:
    """One method in `trials` trials, `splits` draws of the data with as many draws of the noise each. At the figure's
    noise of each update, or (`rounds`, `epsilon`) at a total budget spread over so many rounds."""
    usual, each = rounds_of(figure, method)
    count = usual if rounds is None else rounds
    found, largest = [], 0.0
    for split in range(splits):
        task = figure.draw(np.random.default_rng([seed, split]))
        epsilons = per_update(figure, method, len(task.clients)) if epsilon is None else [epsilon] * len(task.clients)
        terms, largest = terms_of(figure, method, task, count, epsilons, unit), max(epsilons)
        found.append(accuracies(terms, task, trials // splits, seed + split))
        progress()
    answers = 2 if method.paired else 1
    # a round that only asks for gradients moves nothing
    accuracy = np.concatenate(found, axis=1)[answers - 1 :: answers]
    iterations = np.asarray(answers * each * (np.arange(len(accuracy)) + 1.0), dtype=np.float64)
    return Line(method.name, iterations, accuracy, count, largest, figure.delta, splits, figure.local_steps)


def without_privacy(figure: Figure, splits: int, seed: int = 0) -> float:
    """Mean test accuracy, in percent, of the least-squares model of all rows together, without privacy."""
    found = []
    for split in range(splits):
        task = figure.draw(np.random.default_rng([seed, split]))
        terms = terms_of(figure, METHODS[-1], task, 1, [NO_NOISE_EPSILON] * len(task.clients)).changed(
            privacy={"clip": None}
        )
        found.append(accuracies(terms, task, 1, seed + split)[-1, 0])
    return float(np.mean(found))


TOTAL_EPSILONS = (1.0, 3.0, 10.0)  # budgets of the honest table
# (rounds, local steps) over which gradient methods may spread them
ROUNDS_AND_STEPS = ((4, 50), (16, 20), (16, 5), (64, 5), (64, 1))


def equal_totals(
    figure: Figure, trials: int, splits: int, seed: int = 0, progress: Callable[[], None] = lambda: None
) -> list[tuple[str, list[Line]]]:
    """Every method at the same total (eps, delta) of every client, for each of `TOTAL_EPSILONS`. FedInfer releases "
    "once; a gradient method has the rounds and local steps, among `ROUNDS_AND_STEPS`, that turned out best: a choice
    for which nothing is charged."""
    found = []
    for method in METHODS:
        lines = []
        for total in TOTAL_EPSILONS:
            tried = []
            for rounds, steps in ((1, 1),) if method.infers else ROUNDS_AND_STEPS:
                way = replace(figure, local_steps=steps)
                tried.append(trace(way, method, trials, splits, seed, rounds, total, progress))
            lines.append(max(tried, key=lambda line: float(line.last.mean())))
        found.append((method.name, lines))
    return found
