"""What terms must say where the noise of a network's answers is correlated across rounds.

Formal guarantee: the noise is proved for Gaussian noise that every owner adds itself, for records in fixed batches that
come in every epoch, and for people with one record each (`correlated.MixedGradientQuestion`). All else is refused here.
"""

from collections.abc import Mapping
from typing import ClassVar

from parley.tasks.networks.terms import NetworkSGDRules
from parley.terms import Terms
from parley.terms.algorithm_rules import AlgorithmRules
from parley.terms.sections import Learning

CORRELATED = "correlated-sgd"
MOST_ROUNDS = 1_000_000  # for which a band is looked for


class CorrelatedSGDRules(NetworkSGDRules):
    """Records are in `batches` fixed batches, one a round and the same in every epoch; each round asks everybody."""

    asks: ClassVar[str] = "mixed-network-gradient"
    sampling: ClassVar[str] = "partition"
    why: ClassVar[str] = "beside correlated-sgd: its noise is proved for fixed batches, not for secret draws"
    keys: ClassVar[Mapping[str, str]] = {
        key: what for key, what in NetworkSGDRules.keys.items() if key != "learning.batch_seed"
    }

    def check_learning(self, learning: Learning) -> None:
        """Refuse rounds that are no epochs of batches, and rounds that somebody may miss."""
        super().check_learning(learning)
        if (learning.batches or 1) < 2:
            raise ValueError("batches|expected at least 2 beside correlated-sgd: one batch follows no other")
        if learning.horizon > MOST_ROUNDS:
            raise ValueError(f"horizon|expected at most {MOST_ROUNDS:,} beside correlated-sgd")
        if learning.straggler == "skip":
            raise ValueError(
                "straggler|expected 'wait' or 'stop' beside correlated-sgd: who misses a round leaves noise that "
                "nobody takes back"
            )
        if learning.participation is not None:
            raise ValueError("participation|expected none beside correlated-sgd: every round asks everybody")

    def check(self, terms: Terms) -> None:
        """Refuse noise and people that the proof is not about."""
        privacy = terms.privacy
        if any(owner.stride is not None for owner in terms.owners):
            raise ValueError("owners.stride|expected none beside correlated-sgd: every round asks everybody")
        if terms.noise.summed:
            raise ValueError(
                "privacy.noise|expected 'each-owner' beside correlated-sgd: hosts draw a noise for one round, which no "
                "other takes back"
            )
        if privacy.mechanism != "gaussian":
            raise ValueError("privacy.mechanism|expected 'gaussian' beside correlated-sgd: no other noise is proved")
        if privacy.records_per_person > 1:
            raise ValueError(
                "privacy.records_per_person|expected 1 beside correlated-sgd: an answer mixes several batches, and "
                "would be about several records of a person"
            )


ALGORITHM: AlgorithmRules = CorrelatedSGDRules()
