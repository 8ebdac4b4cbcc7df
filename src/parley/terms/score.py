"""What terms must say where a score of the finished model is released."""

from parley.terms.checkable import CheckableTerms
from parley.terms.holdout import held_out_records


def check_score(terms: CheckableTerms) -> None:
    """Refuse (ValueError) a score that leaves nothing to train with, has no rows, or has a target without bounds."""
    epsilon, model = terms.privacy.score_epsilon, terms.model
    if epsilon is None:
        return
    if model.predicts == "survival":
        raise ValueError("privacy.score_epsilon|expected none with kind = 'survival': it has no score that is released")
    for owner in terms.owners:
        if not epsilon < owner.epsilon:
            raise ValueError(
                f"privacy.score_epsilon|expected less than the epsilon of {owner.name!r}: training needs the rest"
            )
        if held_out_records(owner.records, model.holdout) < 1:
            raise ValueError(
                f"privacy.score_epsilon|expected model.holdout beside it, a share that gives {owner.name!r} a "
                f"held-out record"
            )
    bounded = model.classifies or model.target in {*model.bounds, *model.categories}
    if not bounded and model.public is None and not terms.scale_epsilon > 0:
        raise ValueError(
            f"privacy.score_epsilon|expected bounds of the target, model.bounds.{model.target}, or a public sample "
            f"beside it"
        )
