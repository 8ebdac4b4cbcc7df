"""`parley` with a fault, as a program: faulty_parley.py FAULT owner serve ... An audit of the daemon must notice."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from parley.owner.ledger import Ledger
from parley.privacy.mechanisms import SafeNoise

ANSWER, RNG = Ledger.answer, np.random.default_rng(5)


def laplace(value, scale):
    return value + RNG.laplace(scale=scale, size=value.shape)


def seeded() -> None:
    """No fault: noise of the agreed law, the same in every test."""
    SafeNoise.laplace = lambda self, value, scale, sensitivity: laplace(value, scale)


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


def another_law() -> None:
    """One of two numbers, so that differences have the claimed mean size."""
    SafeNoise.laplace = lambda self, value, scale, sensitivity: (
        value + 1.5 * scale * RNG.choice([-1.0, 1.0], value.shape)
    )


FAULTS = (seeded, half_the_noise, fresh_noise_on_a_retry, one_noise_for_all_rounds, another_law)
BY_NAME = {fault.__name__: fault for fault in FAULTS}


def serve(fault: str, settings_file: str, log: str) -> None:
    """`parley owner serve` with a fault; it writes its log there."""
    for place in (1, 2):
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), place)
    BY_NAME[fault]()
    sys.argv = ["parley", "owner", "serve", settings_file]
    from parley.cli import main

    main()


@contextmanager
def served(settings_file: Path, fault: str = "seeded") -> Iterator[str]:
    """The address of such a daemon, in a process of its own that starts at once (`consortium`)."""
    from consortium import SERVER

    from parley.audit.served_daemon import listening

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
    BY_NAME[sys.argv.pop(1)]()
    from parley.cli import main

    main()
