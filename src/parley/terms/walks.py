"""What terms must say for owners to take local steps: rules of federated averaging and its kin."""

from parley.terms.catalogue import MODELS
from parley.terms.model import Model
from parley.terms.sections import Learning, OwnerTerms


def check_walks(model: Model, learning: Learning, uneven: bool, shared: bool) -> None:
    """Refuse (ValueError) walks of which nobody knows how far one record moves them, and steps of owners that take none."""
    algorithm = learning.algorithm
    if not learning.facts.walks:
        if uneven:
            raise ValueError(
                "owners.local_steps|expected none, and no step, but with federated-averaging and its kin: owners walk there alone"
            )
        return
    if not MODELS[model.kind].walks:
        raise ValueError(
            f"learning.algorithm|expected another than {algorithm} for {model.kind}: how far one record moves a walk on it is not known"
        )
    if not model.smooth:
        raise ValueError(
            f"learning.algorithm|expected another than {algorithm} for linear-svm: across the hinge's corner a local step "
            "of any length may drive close points apart, so one record may move a walk further than it moves a gradient"
        )
    if model.radius is None:
        raise ValueError(
            f"model.radius|expected a number beside {algorithm}: the rounding of an owner's local path is bounded within a box"
        )
    if shared and learning.facts.corrects:
        raise ValueError(
            f"privacy.noise|expected 'each-owner' beside {algorithm}: it asks each owner a question of its own, corrected by what that "
            "owner released before, which a sum does not show; an owner that kept it to itself would carry one record from round to round"
        )
    if shared and uneven:
        raise ValueError(
            "privacy.noise|expected 'each-owner' beside owners.local_steps or owners.step: a sum does not say who walked how far"
        )


def local_steps(learning: Learning, owner: OwnerTerms) -> int:
    """s_l: how many steps an owner takes between two answers."""
    return owner.local_steps or learning.local_steps or 1
