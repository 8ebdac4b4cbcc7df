"""Rounds in which a learner sees the owners' sum alone: what becomes of it, and studies that draw its one noise
themselves."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from parley.privacy.mechanisms.random_words import Words
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.protocol.queries import Answer, Query

if TYPE_CHECKING:
    from parley.owner.owner import Owner


def sum_answer(query: str, noise: SharedNoise, names: Sequence[str], records: int, words: Words) -> Answer:
    """The owners' mean over `records` rows in all, from their noisy sum in grid units."""
    return Answer(query, "", records, noise.over(records).decode(words), tuple(names))


class SimulatedSum:
    """Owners in the same process in a study: their sums are added up, and the noise of the hosts is drawn in
    the clear, of their law."""

    def __init__(self, owners: "Sequence[Owner]", seed: np.random.SeedSequence | int | None) -> None:
        self._owners, self._rng = {owner.name: owner for owner in owners}, np.random.default_rng(seed)

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        given = [self._owners[name].contribute(query)[0] for name, query in questions.items()]
        total = np.zeros_like(given[0].words)
        for contribution in given:
            total += contribution.words
        noise = given[0].noise
        total += noise.drawn(total.shape, self._rng)
        records = sum(contribution.noise.records for contribution in given)
        return [sum_answer(given[0].query, noise, list(questions), records, total)]
