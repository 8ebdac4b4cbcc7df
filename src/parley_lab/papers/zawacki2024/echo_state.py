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

TIMES = np.arange(1, 21)
SERIES = 5 * np.sin(TIMES**2 / 60)  # Z eq. 6.21
REACH = 5.0  # what |u| is cut to, as terms would say
ITERATIONS, TRIALS = 10_000, 10
EAGER = 1e-5, 0.9  # step and momentum with which the printed number of steps is enough
EPSILON, DELTA, RATIO = 1.0, 1e-5, 0.25
STARTS = 5  # of L-BFGS
NOTHING = float(np.mean(SERIES**2))  # what guessing zero has
PRINTED = f"as printed: step {STEP:g}, momentum {MOMENTUM:g}"
AT_SPEED = f"step {EAGER[0]:g}, momentum {EAGER[1]:g}"


def series(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.3: the series itself."""
    rows = [["t", *map(str, TIMES[::4])], ["u", *(f"{u:.3f}" for u in SERIES[::4])]]
    return bench.shown(word, {"series": SERIES.tolist()}, [Titled("Figure 6.3: the owner's series", rows)], (SERIES,))


def descents(seed: int, progress: Progress) -> dict[str, Guess]:
    """The attacker's guesses from zero, as printed and at speed; computed once for two figures."""
    found = {}
    for place, (name, settings) in enumerate({PRINTED: (STEP, MOMENTUM), AT_SPEED: EAGER}.items()):
        found[name] = _descent(seed, ITERATIONS, *settings)
        progress(place + 1, 2)
    return found


@lru_cache(maxsize=4)
def _descent(seed: int, iterations: int, step: float, momentum: float) -> Guess:
    reservoir = Reservoir.make(seed)
    return descend(reservoir, reservoir.sums(SERIES), np.zeros(len(SERIES)), iterations, step, momentum)


def evolution(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.4: every number of the guess, step by step."""
    found = descents(bench.seed, progress)
    rows = [["descent", "steps", "misfit", "mean squared error"]]
    for name, each in found.items():
        rows.append([name, f"{len(each.path) - 1:,}", number(each.misfit), number(each.error(SERIES))])
    parts: Parts = [
        Titled("Figure 6.4: guesses of the series by descent from zero", rows),
        f"Published: the guess ends at the series. Guessing zero has {number(NOTHING)}.",
    ]
    drawn = (SERIES, {name: each.path for name, each in found.items()})
    return bench.shown(word, {"errors": {name: each.error(SERIES) for name, each in found.items()}}, parts, drawn)


def errors(bench: Trials, word: str, progress: Progress) -> Shown:
    """Figure 6.5: the mean squared error, step by step, of both descents, of L-BFGS and of what is read off."""
    reservoir = Reservoir.make(bench.seed)
    sent = reservoir.sums(SERIES)
    read = read_off(reservoir, sent, len(SERIES), REACH)
    paths = {name: each.path for name, each in descents(bench.seed, progress).items()}
    paths["L-BFGS from zero"] = minimise(reservoir, sent, np.zeros(len(SERIES)), steps=3000).path
    by_step = {name: np.mean((path - SERIES) ** 2, axis=1) for name, path in paths.items()}
    level = float(np.mean((read - SERIES) ** 2))
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
        sent = reservoir.sums(SERIES)
        read.append(search(reservoir, sent, len(SERIES), REACH, 1).u)
        searched.append(search(reservoir, sent, len(SERIES), REACH, STARTS, trial, reads=False).u)
        progress(trial + 1, TRIALS)
    found = {"read off, then L-BFGS": np.array(read), f"best of {STARTS} starts of L-BFGS": np.array(searched)}
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
            noisy_sums(reservoir.sums(SERIES), RATIO, np.random.default_rng([bench.seed, trial])),
            private_sums(reservoir, SERIES[None], REACH, EPSILON, DELTA, FastNoise(bench.seed + trial)),
        )
        for guesses, each in zip(found.values(), sent, strict=True):
            guesses.append(search(reservoir, each, len(SERIES), REACH, STARTS, trial).u)
        progress(trial + 1, TRIALS)
    arrays = {name: np.array(guesses) for name, guesses in found.items()}
    return _tried(bench, word, "Figure 6.7: the series from what was sent with noise", arrays)


def _tried(bench: Trials, word: str, title: str, found: dict[str, Floats]) -> Shown:
    """Guesses [trials, T] by what was tried."""
    by_trial = {name: np.mean((guesses - SERIES) ** 2, axis=1) for name, guesses in found.items()}
    rows = [["", "mean squared error", "largest", "least", f"of {TRIALS}: below 0.01"]]
    for name, each in by_trial.items():
        cells = (number(float(value)) for value in (np.median(each), each.max(), each.min()))
        rows.append([name, *cells, str(int((each < 1e-2).sum()))])
    parts: Parts = [Titled(title, rows), f"Medians of {TRIALS} reservoirs. Guessing zero has {number(NOTHING)}."]
    content = {"errors": {name: each.tolist() for name, each in by_trial.items()}}
    return bench.shown(word, content, parts, (SERIES, found))
