"""What terms must say for a model to be solved from second moments."""

from collections.abc import Sequence

from parley.terms.catalogue import MODELS
from parley.terms.model import Model
from parley.terms.sections import Learning, OwnerTerms


def check_moments(model: Model, learning: Learning, owners: Sequence[OwnerTerms], shared: bool) -> None:
    """Refuse (ValueError) a model that second moments do not fix, and weights of owners whose own answers nobody sees."""
    trusts = any(owner.trust is not None for owner in owners)
    if trusts and not learning.facts.repeats:
        raise ValueError("owners.trust|expected only with algorithm = 'fedinfer': others weigh owners by their records")
    if learning.facts.asks != "statistics":
        return
    if not MODELS[model.kind].squared:
        able = " and ".join(kind for kind, facts in MODELS.items() if facts.squared)
        raise ValueError(f"learning.algorithm|expected a gradient method: second moments say enough for {able} only")
    if model.class_weight:
        raise ValueError("model.class_weight|expected none beside second moments: every record counts once in them")
    some = learning.participation is not None or learning.straggler == "skip" or any(owner.stride is not None for owner in owners)
    if shared and (trusts or some):
        raise ValueError(
            "privacy.noise|expected 'each-owner' beside trust, strides, participation or skip: nobody can tell whose answers a sum has"
        )
