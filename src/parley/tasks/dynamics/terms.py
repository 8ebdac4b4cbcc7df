"""The keys and checks of terms for a plant learned from trajectories."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from parley.terms import Model
from parley.terms.keys import Count, Name, Positive
from parley.terms.rules import OneRelease
from parley.terms.sections import CheckableTerms

UNUSED_KEYS = (
    "class_weight",
    "categories",
    "transforms",
    "dates",
    "merged",
    "centres",
    "scales",
    "public",
    "preparation",
    "components",
    "regularisation",
    "radius",
    "holdout",
    "coding",
    "missing",
    "positive",
    "intercept",
)


class PlantModel(Model):
    """A plant of states and inputs. It has no target; the column of trajectories stands in its place."""

    states: Annotated[tuple[Name, ...], Field(min_length=1)]
    inputs: Annotated[tuple[Name, ...], Field(min_length=1)]
    trajectory: Name  # the column that tells recordings apart
    period: Positive  # between two samples
    max_delay: Annotated[int, Field(ge=1, le=1000, strict=True)]  # in samples
    samples: Count  # of a recording that count at most

    expected: ClassVar[Mapping[str, str]] = {
        "states": "the columns of the plant's state, at least one",
        "inputs": "the columns of the plant's inputs, at least one",
        "trajectory": "the column that tells recordings apart",
    }

    @classmethod
    def usual(cls, content: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(content.get("trajectory"), str):
            return {"target": "trajectory", **content}  # the missing key is said, and no other
        if {"target", "features"} & content.keys() and content.get("target") != content["trajectory"]:
            raise ValueError("target|a plant has no target or features; list the plant's columns as states and inputs")
        return {**content, "target": content["trajectory"]}

    def check(self) -> None:
        """Refuse columns with two roles, recordings too short for the delay, and keys without a use."""
        columns = [*self.states, *self.inputs, self.trajectory]
        if len(set(columns)) < len(columns):
            raise ValueError("states|expected different columns as states, inputs and trajectory")
        if self.samples < self.max_delay + 3:
            raise ValueError(
                f"samples|expected at least max_delay + 3 = {self.max_delay + 3}, because shorter trajectories do not "
                "determine the delay"
            )
        self.refuse(
            UNUSED_KEYS,
            "for a plant, whose states and inputs are clipped to bounds and scaled by these bounds",
            (0.0,),
        )

    def check_terms(self, terms: CheckableTerms) -> None:
        """Refuse scores of a plant, and units within a record."""
        privacy = terms.privacy
        for key in ("score_epsilon", "scale_epsilon"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|not allowed for a plant")
        if privacy.person is not None or privacy.records_per_person > 1:
            raise ValueError(
                "privacy.person|not allowed for a plant, because a record is a whole trajectory; remove person and "
                "records_per_person"
            )


class IdentificationRules(OneRelease):
    asks: ClassVar[str] = "trajectories"


ALGORITHM = IdentificationRules()
