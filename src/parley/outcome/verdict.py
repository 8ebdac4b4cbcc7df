"""An owner's own verdict: the joint model and its own, on its own held-out rows. For its eyes only."""

from dataclasses import dataclass
from typing import Any

from parley.errors import ModelError, SettingError
from parley.outcome.metrics import Metrics, task_metrics
from parley.outcome.model import JointModel
from parley.owner import Owner
from parley.terms import Terms
from parley.validate import Floats


@dataclass(frozen=True)
class Verdict:
    """Held-out metrics and mean costs of the two models on one owner's rows. Computed from private data: it carries no guarantee."""

    owner: str
    rows: int
    together: Metrics
    alone: Metrics
    cost_together: float
    cost_alone: float
    target_words: str | None = None  # which targets count as 1 and which as 0, where there are two classes

    @property
    def gain(self) -> float:
        """What joining saves this owner on its own customers: cost alone less cost together."""
        return self.cost_alone - self.cost_together

    def to_json(self) -> dict[str, Any]:
        """The object that `parley score --json` prints."""
        return {**vars(self), "gain": self.gain}


def score(terms: Terms, owner: Owner, model: JointModel) -> Verdict:
    """Score the joint model of these terms on the rows that this owner held out, beside the model it can train alone without noise."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained by other terms; expected the terms it carries the hash of")
    agreement = owner.prepare(terms)
    held_out, objective, preparation = agreement.tables.held_out.in_memory(), agreement.setup.objective, agreement.setup.preparation
    if not len(held_out):
        raise ModelError("model.holdout: these terms hold no rows out, so there is nothing to score on")
    own = alone(terms, owner)
    unit = preparation.target_scale**2
    penalty = [0.5 * objective.regularisation * float(t @ t) for t in (model.theta_, own)]  # the penalty is no property of new rows
    return Verdict(
        owner=owner.name,
        rows=len(held_out),
        together=task_metrics(objective, preparation, held_out, model.theta_),
        alone=task_metrics(objective, preparation, held_out, own),
        cost_together=(float(objective.cost(held_out, model.theta_)) - penalty[0]) * unit,
        cost_alone=(float(objective.cost(held_out, own)) - penalty[1]) * unit,
        target_words=preparation.target_words,
    )


def alone(terms: Terms, owner: Owner) -> Floats:
    """What the owner gets without the others: the optimum on its own training rows, without noise, for its own use."""
    agreement = owner.prepare(terms)
    objective, start = agreement.setup.objective, agreement.setup.objective.start(agreement.setup.preparation)
    best = objective.optimum([agreement.tables.train], terms.model.radius, start=start)
    if best is None:
        raise SettingError(f"model.kind = {terms.model.kind!r}: there is no way to find its best model, so nothing to compare with")
    return best
