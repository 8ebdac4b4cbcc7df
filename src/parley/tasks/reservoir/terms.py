"""What terms must say about an echo-state network."""

from typing import ClassVar

from parley.terms import Model, Terms
from parley.terms.rules import OneRelease, Rules

_USELESS = (
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
)


class ReservoirRules(Rules):
    """Inputs and a target within declared bounds, and the reservoir that the inputs drive."""

    def check_model(self, model: Model) -> None:
        """Refuse a reservoir without columns or bounds, and what it has no use for."""
        for key in _USELESS:
            if getattr(model, key) not in (None, {}, ()):
                raise ValueError(f"{key}|expected none beside kind = 'echo-state': inputs and target have bounds alone")
        if model.coding != "integer" or model.missing != "refuse":
            raise ValueError("missing|expected no missing or coding beside kind = 'echo-state'")
        if model.reservoir is None:
            raise ValueError("reservoir|expected a section [model.reservoir] with recording, samples and washout")
        if not model.features:
            raise ValueError("features|expected the inputs that drive the reservoir")
        if model.reservoir.recording in (*model.features, model.target):
            raise ValueError("reservoir.recording|expected another column than inputs and target")
        for column in (*model.features, model.target):
            if column not in model.bounds:
                raise ValueError(f"bounds.{column}|expected [low, high] of every input and the target")
        for column in model.bounds:
            if column not in (*model.features, model.target):
                raise ValueError(f"bounds.{column}|expected bounds of inputs and the target alone")

    def check(self, terms: Terms) -> None:
        """Refuse units within a recording, and what has no proof beside one release."""
        privacy = terms.privacy
        for key in ("score_epsilon", "scale_epsilon", "difference_epsilon", "clip_norm"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|expected none beside kind = 'echo-state'")
        if privacy.person is not None or privacy.records_per_person > 1:
            raise ValueError(
                "privacy.person|expected none beside kind = 'echo-state', and one record a person: a record is a "
                "whole recording"
            )


class ReadOutRules(OneRelease):
    asks: ClassVar[str] = "state-moments"


RULES = ReservoirRules()
ALGORITHM = ReadOutRules()
