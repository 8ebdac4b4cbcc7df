"""What checks of terms look at: the sections, and the few things that follow from them."""

from fractions import Fraction
from typing import Protocol

from parley.terms.catalogue import NoiseFacts
from parley.terms.model import Model
from parley.terms.sections import Aggregation, Host, Learning, OwnerTerms, Privacy


def training_records(records: int, holdout: float) -> int:
    """How many of `records` rows remain when a share `holdout` is kept for scoring."""
    return records - held_out_records(records, holdout)


def held_out_records(records: int, holdout: float) -> int:
    """How many of `records` rows are kept for scoring."""
    return int(records * holdout)


class CheckableTerms(Protocol):
    """Terms, as far as their checks need to know them (`terms.agreement.Terms`)."""

    model: Model
    learning: Learning
    privacy: Privacy
    owners: tuple[OwnerTerms, ...]
    hosts: tuple[Host, ...]
    aggregation: Aggregation | None

    @property
    def task(self) -> str:
        """The name of what owners do together by these terms."""
        ...

    @property
    def noise(self) -> NoiseFacts:
        """Where noise is drawn, and what follows from it."""
        ...

    @property
    def uneven(self) -> bool:
        """Whether some owners take local steps of their own."""
        ...

    @property
    def asked_a_round(self) -> int:
        """How many owners a round asks."""
        ...

    @property
    def score_epsilon(self) -> Fraction:
        """What of every owner's epsilon is set aside for a score."""
        ...

    @property
    def scale_epsilon(self) -> Fraction:
        """What is set aside for column statistics."""
        ...

    @property
    def difference_epsilon(self) -> Fraction:
        """What is set aside to tell how much owners differ."""
        ...

    def owner(self, name: str) -> OwnerTerms:
        """The part of the owner called `name`."""
        ...
