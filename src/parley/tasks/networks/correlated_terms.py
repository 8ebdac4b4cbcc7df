"""Terms of noise correlated across rounds; `terms.privacy_checks.check_mixed_batches` checks the proof's needs."""

from collections.abc import Mapping
from typing import ClassVar

from parley.privacy.mechanisms.banded import MAX_STEPS
from parley.tasks.networks.terms import NetworkSGDRules
from parley.terms.rules import AlgorithmRules
from parley.terms.sections import CheckableTerms, Learning

CORRELATED = "correlated-sgd"


class CorrelatedSGDRules(NetworkSGDRules):
    """Records are in `batches` fixed batches, one per round and the same in every epoch; each round asks all owners."""

    asks: ClassVar[str] = "mixed-network-gradient"
    sampling: ClassVar[str] = "partition"
    why: ClassVar[str] = "with correlated-sgd: the privacy proof covers fixed batches, not secret draws"
    keys: ClassVar[Mapping[str, str]] = {
        key: what
        for key, what in NetworkSGDRules.keys.items()
        if key not in ("learning.batch_seed", "privacy.clip_norm")
    }

    def check_learning(self, learning: Learning) -> None:
        """Refuse rounds that are not whole epochs of batches, and rounds that an owner may miss."""
        super().check_learning(learning)
        if (learning.batches or 1) < 2:
            raise ValueError(
                "batches|expected at least 2 with correlated-sgd, because a single batch has no other batch to "
                "correlate noise with"
            )
        if learning.horizon > MAX_STEPS:
            raise ValueError(f"horizon|expected at most {MAX_STEPS:,} rounds with correlated-sgd")
        if learning.straggler == "skip":
            raise ValueError(
                "straggler|expected 'wait' or 'stop' with correlated-sgd, because an owner that misses a round leaves "
                "noise that later rounds cannot cancel"
            )
        if learning.participation is not None:
            raise ValueError(
                "participation|not allowed with correlated-sgd, because every round asks every owner; remove "
                "participation"
            )

    def check(self, terms: CheckableTerms) -> None:
        """Refuse rounds that ask only some owners."""
        if any(owner.stride is not None for owner in terms.owners):
            raise ValueError(
                "owners.stride|not allowed with correlated-sgd, because every round asks every owner; remove stride"
            )


ALGORITHM: AlgorithmRules = CorrelatedSGDRules()
