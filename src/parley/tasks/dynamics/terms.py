"""What terms must say about a plant that is learned from trajectories."""

from typing import Any, ClassVar

from parley.terms import Model, Terms
from parley.terms.catalogue import TASKS
from parley.terms.rules import OneRelease, Rules

DYNAMICS = TASKS["dynamics"].kind


class DynamicsRules(Rules):
    """A plant has no target; what tells its records apart stands in its place, and its columns are states and
    inputs."""

    def usual_model(self, content: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(content.get("trajectory"), str):
            return content
        if {"target", "features"} & content.keys() and content.get("target") != content["trajectory"]:
            raise ValueError("target|expected none for a plant, and no features: its columns are states and inputs")
        return {**content, "target": content["trajectory"]}

    def check_model(self, model: Model) -> None:
        """Refuse a plant without its columns and times, or with what it has no use for."""
        for key in TASKS["dynamics"].keys:
            if getattr(model, key) is None:
                raise ValueError(f"{key}|expected beside kind = {DYNAMICS!r}")
        states, inputs, samples, lags = model.states or (), model.inputs or (), model.samples or 0, model.max_delay or 0
        columns = [*states, *inputs, str(model.trajectory)]
        if not states or not inputs or len(set(columns)) < len(columns):
            raise ValueError(
                "states|expected at least one state and one input, all of them and the trajectory different columns"
            )
        if samples < lags + 3:
            raise ValueError(
                f"samples|expected at least max_delay + 3 = {lags + 3}: shorter trajectories say nothing about the "
                f"delay"
            )
        for key in (
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
        ):
            if getattr(model, key):
                raise ValueError(
                    f"{key}|expected none for a plant: states and inputs are cut to their bounds and scaled by them"
                )
        if (
            model.holdout
            or model.coding != "integer"
            or model.missing != "refuse"
            or model.positive is not None
            or model.intercept
        ):
            raise ValueError("kind|expected no holdout, coding, missing, positive or intercept for a plant")

    def check(self, terms: Terms) -> None:
        """Refuse scores of a plant, and units within a record."""
        privacy = terms.privacy
        if privacy.score_epsilon is not None or privacy.scale_epsilon is not None:
            raise ValueError("privacy.score_epsilon|expected none, and no scale_epsilon, beside identification")
        if privacy.person is not None or privacy.records_per_person > 1:
            raise ValueError(
                "privacy.person|expected none beside identification, and one record a person: a record is a whole "
                "trajectory"
            )


class IdentificationRules(OneRelease):
    asks: ClassVar[str] = "trajectories"


RULES = DynamicsRules()
ALGORITHM = IdentificationRules()
