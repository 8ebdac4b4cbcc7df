"""What terms must say about a plant that is learned from trajectories."""

from typing import TYPE_CHECKING

from parley.terms.catalogue import MODELS

if TYPE_CHECKING:
    from parley.terms.model import Model
    from parley.terms.sections import Learning, Privacy

DYNAMICS = "delayed-dynamics"
KEYS = ("states", "inputs", "trajectory", "period", "max_delay", "samples")


def check_plant(model: "Model") -> None:
    """Refuse (ValueError) a plant without its columns and times, and those keys for anything else."""
    plant = MODELS[model.kind].trajectories
    for key in KEYS:
        if (getattr(model, key) is not None) is not plant:
            raise ValueError(f"{key}|expected " + (f"beside kind = {DYNAMICS!r}" if plant else f"only with kind = {DYNAMICS!r}"))
    if not plant:
        return
    states, inputs, samples, lags = model.states or (), model.inputs or (), model.samples or 0, model.max_delay or 0
    columns = [*states, *inputs, str(model.trajectory)]
    if not states or not inputs or len(set(columns)) < len(columns):
        raise ValueError("states|expected at least one state and one input, all of them and the trajectory different columns")
    if samples < lags + 3:
        raise ValueError(f"samples|expected at least max_delay + 3 = {lags + 3}: shorter trajectories say nothing about the delay")
    for key in (
        "class_weight",
        "categories",
        "transforms",
        "centres",
        "scales",
        "public",
        "preparation",
        "components",
        "regularisation",
        "radius",
    ):
        if getattr(model, key):
            raise ValueError(f"{key}|expected none for a plant: states and inputs are cut to their bounds and scaled by them")
    if model.holdout or model.coding != "integer" or model.missing != "refuse" or model.positive is not None or model.intercept:
        raise ValueError("kind|expected no holdout, coding, missing, positive or intercept for a plant")


def check_identification(model: "Model", learning: "Learning", privacy: "Privacy") -> None:
    """Refuse (ValueError) another algorithm for a plant, identification of anything else, scores of a plant, and units within a record."""
    if learning.facts.identifies is not MODELS[model.kind].trajectories:
        raise ValueError(f"learning.algorithm|expected 'identification' with kind = {DYNAMICS!r}, and with no other")
    if not learning.facts.identifies:
        return
    if privacy.score_epsilon is not None or privacy.scale_epsilon is not None:
        raise ValueError("privacy.score_epsilon|expected none, and no scale_epsilon, beside identification")
    if privacy.person is not None or privacy.records_per_person > 1:
        raise ValueError(
            "privacy.person|expected none beside identification, and one record a person: a record is a whole trajectory"
        )
