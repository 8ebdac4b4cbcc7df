"""The keys and checks of terms for an echo-state network."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from parley.terms import Model
from parley.terms.keys import Count, Name, Section
from parley.terms.rules import OneRelease
from parley.terms.sections import CheckableTerms

UNUSED_KEYS = (
    "class_weight",
    "radius",
    "categories",
    "transforms",
    "dates",
    "merged",
    "centres",
    "scales",
    "positive",
    "public",
    "preparation",
    "components",
    "whitening",
    "basis",
    "columns",
    "bins",
    "intercept",
    "coding",
    "missing",
)


class Reservoir(Section):
    """A ring of nodes with weights drawn by the seed; it is not learned and is the same for all."""

    recording: Name  # the column that tells recordings apart
    samples: Count  # of a recording that count at most
    washout: Annotated[int, Field(ge=0, strict=True)]  # samples at the beginning whose states teach nothing yet
    nodes: Annotated[int, Field(ge=1, le=200, strict=True)] = 50
    spectral_radius: Annotated[float, Field(gt=0, lt=1, strict=True)] = 0.9
    leak: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    input_scale: Annotated[float, Field(ge=1e-3, le=1e3, strict=True)] = 0.2
    seed: Annotated[int, Field(ge=0, le=2**63 - 1, strict=True)] = 0

    @model_validator(mode="after")
    def _some_rows(self) -> Self:
        if not self.samples > self.washout:
            raise ValueError(
                "washout|expected fewer samples than `samples`, so that every recording has samples left for training"
            )
        return self

    @property
    def rows(self) -> int:
        """The largest number of samples of a recording that count in training."""
        return self.samples - self.washout


class EchoStateModel(Model):
    """Inputs and a target within declared bounds, and the reservoir that the inputs drive."""

    reservoir: Reservoir

    expected: ClassVar[Mapping[str, str]] = {
        "reservoir": "a section [model.reservoir] with recording, samples and washout"
    }

    def check(self) -> None:
        """Refuse a reservoir without columns or bounds, and keys that it does not use."""
        self.refuse(UNUSED_KEYS, "with kind = 'echo-state', whose inputs and target have only bounds")
        if not self.features:
            raise ValueError("features|expected the columns of inputs that drive the reservoir")
        if self.reservoir.recording in (*self.features, self.target):
            raise ValueError("reservoir.recording|expected a column other than the inputs and the target")
        for column in (*self.features, self.target):
            if column not in self.bounds:
                raise ValueError(f"bounds.{column}|expected [low, high] for every input and for the target")
        for column in self.bounds:
            if column not in (*self.features, self.target):
                raise ValueError(f"bounds.{column}|expected bounds of the inputs and the target only")

    def check_terms(self, terms: CheckableTerms) -> None:
        """Refuse units within a recording, and settings without a proof for one release."""
        privacy = terms.privacy
        for key in ("score_epsilon", "scale_epsilon", "difference_epsilon", "clip_norm"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|not allowed with kind = 'echo-state'")
        if privacy.person is not None or privacy.records_per_person > 1:
            raise ValueError(
                "privacy.person|not allowed with kind = 'echo-state', because a record is a whole recording; remove "
                "person and records_per_person"
            )


class ReadOutRules(OneRelease):
    asks: ClassVar[str] = "state-moments"


ALGORITHM = ReadOutRules()
