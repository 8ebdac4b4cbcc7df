"""Z section 6.3: the series of an owner of a federated echo-state network, reconstructed from the sums that it sends,
and not so once there is noise.

As printed (step 1e-8, momentum 0.1 with the sign of a brake) 10,000 steps do not come near the series; with a step of
1e-5 and a momentum of 0.9 the same number does, from some reservoirs: the misfit has other minima. Reading the series
off the range of B needs no descent. Noise of a signal-to-noise ratio promises nothing; here it is also calibrated to
(eps, delta), the unit being the owner's whole series.
"""

from functools import lru_cache

import numpy as np

from parley.numerals import number
from parley.privacy.mechanisms import FastNoise
from parley.validate import Floats
from parley_lab.attacks.reconstruction import MOMENTUM, STEP, Guess, descend, minimise, read_off, search
from parley_lab.attacks.reservoir import Reservoir, noisy_sums, private_sums
from parley_lab.papers.document import Parts, Progress, Shown, Titled
from parley_lab.papers.zawacki2024.settings import Trials

SERIES_TIMES = np.arange(1, 21)
TRUE_SERIES = 5 * np.sin(SERIES_TIMES**2 / 60)  # Z eq. 6.21
INPUT_LIMIT = 5.0  # what |u| is cut to, as terms would say
ITERATIONS, TRIALS = 10_000, 10
FAST_STEP_MOMENTUM = 1e-5, 0.9  # step and momentum with which the printed number of steps is enough
EPSILON, DELTA, RATIO = 1.0, 1e-5, 0.25
LBFGS_STARTS = 5  # of L-BFGS
ZERO_GUESS_ERROR = float(np.mean(TRUE_SERIES**2))  # what guessing zero has
PRINTED_SETTINGS = f"as printed: step {STEP:g}, momentum {MOMENTUM:g}"
AT_SPEED = f"step {FAST_STEP_MOMENTUM[0]:g}, momentum {FAST_STEP_MOMENTUM[1]:g}"


def series(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.3: the series itself."""
    rows = [["t", *map(str, SERIES_TIMES[::4])], ["u", *(f"{u:.3f}" for u in TRUE_SERIES[::4])]]
    return bench.shown(
        word, {"series": TRUE_SERIES.tolist()}, [Titled("Figure 6.3: the owner's series", rows)], (TRUE_SERIES,)
    )


def descents(seed: int, progress: Progress) -> dict[str, Guess]:
    """The attacker's guesses from zero, as printed and at speed; computed once for two figures."""
    found = {}
    for place, (name, settings) in enumerate(
        {PRINTED_SETTINGS: (STEP, MOMENTUM), AT_SPEED: FAST_STEP_MOMENTUM}.items()
    ):
        found[name] = _descent(seed, ITERATIONS, *settings)
        progress(place + 1, 2)
    return found


@lru_cache(maxsize=4)
def _descent(seed: int, iterations: int, step: float, momentum: float) -> Guess:
    reservoir = Reservoir.make(seed)
    return descend(reservoir, reservoir.sums(TRUE_SERIES), np.zeros(len(TRUE_SERIES)), iterations, step, momentum)


def evolution(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.4: every number of the guess, step by step."""
    found = descents(bench.seed, progress)
    rows = [["descent", "steps", "misfit", "mean squared error"]]
    for name, each in found.items():
        rows.append([name, f"{len(each.path) - 1:,}", number(each.misfit), number(each.error(TRUE_SERIES))])
    parts: Parts = [
        Titled("Figure 6.4: guesses of the series by descent from zero", rows),
        f"Published: the guess ends at the series. Guessing zero has {number(ZERO_GUESS_ERROR)}.",
    ]
    drawn = (TRUE_SERIES, {name: each.path for name, each in found.items()})
    return bench.shown(word, {"errors": {name: each.error(TRUE_SERIES) for name, each in found.items()}}, parts, drawn)


def errors(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.5: the mean squared error, step by step, of both descents, of L-BFGS and of what is read off."""
    reservoir = Reservoir.make(bench.seed)
    sent = reservoir.sums(TRUE_SERIES)
    read = read_off(reservoir, sent, len(TRUE_SERIES), INPUT_LIMIT)
    paths = {name: each.path for name, each in descents(bench.seed, progress).items()}
    paths["L-BFGS from zero"] = minimise(reservoir, sent, np.zeros(len(TRUE_SERIES)), steps=3000).path
    by_step = {name: np.mean((path - TRUE_SERIES) ** 2, axis=1) for name, path in paths.items()}
    level = float(np.mean((read - TRUE_SERIES) ** 2))
    rows = [["attack", "steps", "mean squared error at the end"]]
    rows += [[name, f"{len(path) - 1:,}", number(float(path[-1]))] for name, path in by_step.items()]
    rows.append(["read off the range of B", "none", number(level)])
    ends = {name: float(path[-1]) for name, path in by_step.items()} | {"read off": level}
    return bench.shown(word, {"errors": ends}, [Titled("Figure 6.5: how near a guess is", rows)], (by_step, level))


def recovered(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.6: the series as ten attackers find it, each with a reservoir of its own."""
    read, searched = [], []
    for trial in range(TRIALS):
        reservoir = Reservoir.make(bench.seed + trial)
        sent = reservoir.sums(TRUE_SERIES)
        read.append(search(reservoir, sent, len(TRUE_SERIES), INPUT_LIMIT, 1).u)
        searched.append(search(reservoir, sent, len(TRUE_SERIES), INPUT_LIMIT, LBFGS_STARTS, trial, reads=False).u)
        progress(trial + 1, TRIALS)
    found = {"read off, then L-BFGS": np.array(read), f"best of {LBFGS_STARTS} starts of L-BFGS": np.array(searched)}
    return _tried(bench, word, "Figure 6.6: the series from what was sent without noise", found)


def protected(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.7: the same with noise, of Z's signal-to-noise ratio and calibrated to (eps, delta)."""
    found: dict[str, list[Floats]] = {
        "signal to noise 1:4": [],
        f"ε = {EPSILON:g}, δ = {DELTA:g}": [],
    }
    for trial in range(TRIALS):
        reservoir = Reservoir.make(bench.seed + trial)
        sent = (
            noisy_sums(reservoir.sums(TRUE_SERIES), RATIO, np.random.default_rng([bench.seed, trial])),
            private_sums(reservoir, TRUE_SERIES[None], INPUT_LIMIT, EPSILON, DELTA, FastNoise(bench.seed + trial)),
        )
        for guesses, each in zip(found.values(), sent, strict=True):
            guesses.append(search(reservoir, each, len(TRUE_SERIES), INPUT_LIMIT, LBFGS_STARTS, trial).u)
        progress(trial + 1, TRIALS)
    arrays = {name: np.array(guesses) for name, guesses in found.items()}
    return _tried(bench, word, "Figure 6.7: the series from what was sent with noise", arrays)


def _tried(bench: Trials, word: str, title: str, found: dict[str, Floats]) -> Shown:
    """Guesses [trials, T] by what was tried."""
    by_trial = {name: np.mean((guesses - TRUE_SERIES) ** 2, axis=1) for name, guesses in found.items()}
    rows = [["", "mean squared error", "largest", "least", f"of {TRIALS}: below 0.01"]]
    for name, each in by_trial.items():
        cells = (number(float(value)) for value in (np.median(each), each.max(), each.min()))
        rows.append([name, *cells, str(int((each < 1e-2).sum()))])
    parts: Parts = [
        Titled(title, rows),
        f"Medians of {TRIALS} reservoirs. Guessing zero has {number(ZERO_GUESS_ERROR)}.",
    ]
    content = {"errors": {name: each.tolist() for name, each in by_trial.items()}}
    return bench.shown(word, content, parts, (TRUE_SERIES, found))
