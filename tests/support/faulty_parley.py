"""`parley` with a fault, as a program: faulty_parley.py FAULT owner serve ... An audit of the daemon must notice."""

import os
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from parley.owner.ledger import Ledger
from parley.privacy.mechanisms import SafeNoise

ANSWER, RNG = Ledger.answer, np.random.default_rng(5)  # which `begin` makes another for every table


def laplace(value, scale):
    return value + RNG.laplace(scale=scale, size=value.shape)


def seeded() -> None:
    """No fault: noise of the agreed law, the same in every test, another for every table."""
    SafeNoise.laplace = lambda self, value, scale, sensitivity: laplace(value, scale)


def fixed_seed() -> None:
    """The same noise at every start."""
    seeded()


def half_the_noise() -> None:
    SafeNoise.laplace = lambda self, value, scale, sensitivity: laplace(value, scale / 2)


def fresh_noise_on_a_retry() -> None:
    """The ledger books and stores as it should, and what is sent is drawn anew."""
    seeded()

    def forgetful(self, query, spent_after, event, release, prune=False):
        _, account = ANSWER(self, query, spent_after, event, release, prune)
        return release()(), account

    Ledger.answer = forgetful


def one_noise_for_all_rounds() -> None:
    kept: list[np.ndarray] = []

    def again(self, value, scale, sensitivity):
        if not kept:
            kept.append(laplace(np.zeros_like(value), scale))
        return value + kept[0]

    SafeNoise.laplace = again


def one_noise_for_two_questions() -> None:
    """The second question's noise is that of the third as well."""
    drawn: list[np.ndarray] = []

    def again(self, value, scale, sensitivity):
        drawn.append(drawn[1] if len(drawn) == 2 else laplace(np.zeros_like(value), scale))
        return value + drawn[-1]

    SafeNoise.laplace = again


def noise_again_with_the_other_sign() -> None:
    drawn: list[np.ndarray] = []

    def again(self, value, scale, sensitivity):
        drawn.append(-drawn[-1] if len(drawn) % 2 else laplace(np.zeros_like(value), scale))
        return value + drawn[-1]

    SafeNoise.laplace = again


def one_number_for_all_coordinates() -> None:
    SafeNoise.laplace = lambda self, value, scale, sensitivity: value + laplace(np.zeros(1), scale)


def another_law() -> None:
    """One of two numbers, so that differences have the claimed mean size."""
    SafeNoise.laplace = lambda self, value, scale, sensitivity: (
        value + 1.5 * scale * RNG.choice([-1.0, 1.0], value.shape)
    )


FAULTS = (
    seeded,
    fixed_seed,
    half_the_noise,
    fresh_noise_on_a_retry,
    one_noise_for_all_rounds,
    one_noise_for_two_questions,
    noise_again_with_the_other_sign,
    one_number_for_all_coordinates,
    another_law,
)


def calls_fail() -> None:
    """What the system does to a pool that takes calls, by what the file "fault" in the working folder says: no thread
    for a new call ("refuse"), or a call that nobody takes ("lose")."""
    submit, fault = ThreadPoolExecutor.submit, Path("fault").resolve()

    def submit_or_fail(self, *work):
        word = fault.read_text() if fault.exists() and "metrics" not in self._thread_name_prefix else ""
        if word == "refuse":
            raise RuntimeError("can't start new thread")
        return Future() if word == "lose" else submit(self, *work)

    ThreadPoolExecutor.submit = submit_or_fail


BY_NAME = {"calls_fail": calls_fail} | {fault.__name__: fault for fault in FAULTS}


def begin(fault: str, settings_file: str) -> None:
    """Put the fault in place. Noise is the same in every test and, unless its seed is fixed, another for every table,
    by the name of the folder that the table was made in."""
    if fault != "fixed_seed":
        own = zlib.crc32(Path(settings_file).resolve().parents[1].name.encode())
        RNG.bit_generator.state = np.random.default_rng(own).bit_generator.state
    BY_NAME[fault]()


def serve(fault: str, settings_file: str, log: str) -> None:
    """`parley owner serve` with a fault; it writes its log there."""
    for place in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), place)
    begin(fault, settings_file)
    sys.argv = ["parley", "owner", "serve", settings_file]
    from parley.cli import main

    main()


@contextmanager
def served(settings_file: Path, fault: str = "seeded") -> Iterator[str]:
    """The address of such a daemon, in a process of its own that starts at once (`forked`)."""
    from forked import SERVER

    from parley.audit.served.attack import listening

    log = settings_file.with_name("daemon.log")
    log.write_bytes(b"")
    process = SERVER.Process(target=serve, args=(fault, str(settings_file), str(log)))
    process.start()
    try:
        yield listening(log, process.is_alive)
    finally:
        process.terminate()
        process.join(30)


if __name__ == "__main__":
    begin(sys.argv.pop(1), sys.argv[-1])
    from parley.cli import main

    main()
