"""An owner's verdict on the joint, its own and its personal model, on its own held-out rows. For its eyes only."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import stdtrit

from parley.data import Design
from parley.errors import ModelError
from parley.learning.outcome.correction import JOINT, MadeOf, rows_with_trees
from parley.learning.outcome.metrics import Metrics, no_target_sentence, task_metrics
from parley.learning.outcome.model import JointModel
from parley.learning.outcome.personal import alone_and_personal_models, plain_columns
from parley.losses import EmpiricalRisk
from parley.owner.owner import Owner
from parley.terms import Terms
from parley.validate import Floats

CONFIDENCE = 0.9
LEAST_GAIN = 0.005  # of the cost alone: what joining must save to count
CONSTANT_BASELINE_TASKS = (
    "number",
    "two classes",
    "count",
    "survival",
)  # for which one answer can be given to all rows
MAX_LOG_ODDS = 30.0  # on a logarithmic scale
FEW_HELD_OUT_ROWS = 100  # held-out rows below which a verdict says how few they are


@dataclass(frozen=True)
class Estimate:
    """A mean over held-out rows, with a 90 % confidence interval (Student's t) for the mean over all such rows."""

    mean: float
    low: float
    high: float

    @classmethod
    def from_values(cls, values: Floats) -> "Estimate":
        """
        >>> Estimate.from_values(np.array([1.0, 3.0])).mean
        2.0
        """
        mean, count = float(values.mean()), len(values)
        if count < 2:
            return cls(mean, -np.inf, np.inf)
        reach = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(count))
        return cls(mean, mean - reach, mean + reach)

    def moved(self, by: float) -> "Estimate":
        """Shift all values."""
        return Estimate(self.mean + by, self.low + by, self.high + by)

    def to_json(self) -> dict[str, float | None]:
        return {name: value if np.isfinite(value) else None for name, value in vars(self).items()}


@dataclass(frozen=True)
class Verdict:
    """Held-out metrics and mean costs of three models on one owner's rows. Computed from private data: it carries no
    guarantee. `joint_gain` and `personal_gain` are paired: row by row, the savings against the model alone."""

    owner: str
    rows: int
    together: Metrics
    alone: Metrics
    personal: Metrics
    costs: dict[str, Estimate]  # of together, alone and personal
    joint_gain: Estimate
    personal_gain: Estimate
    # whether the owner's training rows show a single class, so that alone it can tell nothing apart
    one_class: bool = False
    joint_share: float = 1.0  # of the personal model: of what was pulled towards the joint one
    alone_model: MadeOf = "linear"
    personal_model: MadeOf | Literal["refined"] = "linear"
    refined: bool = False  # whether what is called together and personal is a personal model with trees, from `refine`
    target_words: str | None = None  # which targets count as 1 and which as 0, where there are two classes
    # of always predicting the same, the best for the owner's training rows: its mean, the share of a class, the hazards
    # of all; None where there are several classes
    same_for_all: Estimate | None = None
    target_range: tuple[float, float] | None = None  # to which targets are cut, here too
    rows_per_person: int = 1  # of which some may be held out and others learned from

    @property
    def cost_together(self) -> float:
        return self.costs["together"].mean

    @property
    def cost_alone(self) -> float:
        return self.costs["alone"].mean

    @property
    def gain(self) -> float:
        """What the joint model saves this owner: cost alone less cost together."""
        return self.joint_gain.mean

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley score --json` prints."""
        costs = {f"cost_{name}": estimate.mean for name, estimate in self.costs.items()}
        return {
            **{name: getattr(self, name) for name in ("owner", "rows", "together", "alone", "personal")},
            **costs,
            "costs": self.costs_to_json(),
            "gain": self.gain,
            "joint_gain": self.joint_gain.to_json(),
            "personal_gain": self.personal_gain.to_json(),
            "joint_share": self.joint_share,
            "alone_model": self.alone_model,
            "personal_model": self.personal_model,
            "target_words": self.target_words,
            "same_for_all": None if self.same_for_all is None else self.same_for_all.to_json(),
            "owners": [self.row_to_json()],
        }

    def row_to_json(self) -> dict[str, Any]:
        """Return one of the objects under `owners` in `parley score --json`."""
        gain = self.personal_gain
        costs = {name: self.costs[name].mean for name in ("alone", "together", "personal")}
        gains = {"gain": gain.mean, "gain_low": gain.to_json()["low"], "gain_high": gain.to_json()["high"]}
        gain_json = {"joint_gain": self.joint_gain.to_json(), "personal_gain": gain.to_json()}
        made = {"alone_model": self.alone_model, "personal_model": self.personal_model}
        head = {"name": self.owner, **costs, **gains, "verdict": self.measured}
        return {**head, "rows": self.rows, **made, "costs": self.costs_to_json(), **gain_json}

    @property
    def measured(self) -> Literal["join", "stay", "unsure"]:
        """Whether joining was worth it, by the interval of its savings on held-out rows."""
        least = LEAST_GAIN * self.cost_alone
        return "join" if self.personal_gain.low > least else "stay" if self.personal_gain.high < least else "unsure"

    def costs_to_json(self) -> dict[str, dict[str, float | None]]:
        return {name: estimate.to_json() for name, estimate in self.costs.items()}


def score(terms: Terms, owner: Owner, model: JointModel) -> Verdict:
    """Score the joint model on the rows this owner held out, against models of its own rows without noise.

    The personal model corrects the joint one, as `refine` does; the model alone comes from the same procedure without a
    joint model (`compared`). A personal model with trees is scored in place of the joint one and not corrected again.

    Formal guarantee: none. It is for the owner's own eyes.

    Parameters
    ----------
    terms
        Terms of the model; `model.holdout` says which rows judge it.
    owner
        Owner whose rows judge it.
    model
        Joint model from `train`, or personal model from `refine`.

    Returns
    -------
    Verdict
        Costs and metrics together, alone and personal, and the saving per row, with 90 % intervals.

    Examples
    --------
    >>> import parley
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]}, "radius": 30.0,
    ...               "holdout": 0.2},
    ...     "learning": {"horizon": 2, "step": 1e-6},
    ...     "privacy": {"clip": 2e4},
    ...     "owners": [{"name": "bank", "records": 300, "epsilon": 1.0}],
    ... })
    >>> bank = Owner("bank", parley.data.synthetic_lending(300))
    >>> verdict = score(terms, bank, parley.train(terms, [bank], seed=1).model)
    >>> verdict.rows, verdict.cost_alone < verdict.cost_together
    (60, True)
    """
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained under other terms; give the terms file that it was trained with")
    agreement = owner.prepare(terms)
    held_out, objective, preparation = (
        agreement.tables.held_out.in_memory(),
        agreement.setup.risk,
        agreement.setup.preparation,
    )
    if not len(held_out):
        raise ModelError("model.holdout: these terms hold out no rows for scoring; train under terms with a holdout")
    held_out = held_out.targeted()
    if not len(held_out):
        raise ModelError(no_target_sentence(owner.name))
    columns, new_columns = plain_columns(owner, agreement)
    refined = model.trees_ is not None
    own, personal = alone_and_personal_models(agreement, np.array([model.theta_] * (not refined)), columns)
    made = {"together": (model.theta_, model.trees_), "alone": (own.theta, own.trees)}
    made["personal"] = (personal[0].theta, personal[0].trees) if personal else made["together"]
    shown = {
        name: rows_with_trees(objective, held_out, theta, trees, new_columns) for name, (theta, trees) in made.items()
    }
    losses = {name: objective.record_losses(*each) * preparation.target_scale**2 for name, each in shown.items()}
    train = agreement.tables.train.in_memory().targeted()
    always = _same_hazards if preparation.model.predicts == "survival" else _same_number
    same = always(objective, train, held_out) if preparation.model.predicts in CONSTANT_BASELINE_TASKS else None
    metrics = {name: task_metrics(objective, preparation, *each) for name, each in shown.items()}
    return Verdict(
        owner=owner.name,
        rows=len(held_out),
        **metrics,
        costs={name: Estimate.from_values(values) for name, values in losses.items()},
        joint_gain=Estimate.from_values(losses["alone"] - losses["together"]),
        personal_gain=Estimate.from_values(losses["alone"] - losses["personal"]),
        one_class=preparation.model.classifies and _one_class(train),
        joint_share=personal[0].shares[JOINT] if personal else 1.0,
        alone_model=own.made_of,
        personal_model=personal[0].made_of if personal else "refined",
        refined=refined,
        target_words=preparation.target_words,
        same_for_all=None if same is None else Estimate.from_values(same * preparation.target_scale**2),
        target_range=None if preparation.model.classifies else terms.model.bounds.get(terms.model.target),
        rows_per_person=terms.privacy.records_per_person if terms.model.holdout_by is None else 1,
    )


def _same_number(objective: EmpiricalRisk, train: Design, held_out: Design) -> Floats:
    """Return held-out losses of the constant raw prediction that is best for the training rows."""

    def losses(rows: Design, raw: float) -> Floats:
        return objective.record_losses(Design(np.ones((len(rows), 1)), rows.y, rows.weight), np.array([raw]))

    far = max(MAX_LOG_ODDS, float(np.abs(train.y).max(initial=0.0)))
    best = minimize_scalar(lambda raw: losses(train, raw).mean(), bounds=(-far, far), method="bounded")
    return losses(held_out, float(best.x))


def _same_hazards(objective: EmpiricalRisk, train: Design, held_out: Design) -> Floats:
    """Return held-out losses of constant hazards: the training rows' Kaplan-Meier shares in each period."""
    happened = train.y % 2 == 1
    periods_observed = (np.floor(train.y / 2) + happened).astype(int)  # periods in which a subject was there
    many = max(int(rows.y.max(initial=0.0)) // 2 + 1 for rows in (train, held_out))
    at_risk = np.array([train.weight[periods_observed > period].sum() for period in range(many)])
    events = np.array([train.weight[(periods_observed == period + 1) & happened].sum() for period in range(many)])
    share = np.divide(events, at_risk, out=np.full(many, events.sum() / at_risk.sum()), where=at_risk > 0)
    with np.errstate(divide="ignore"):
        odds = np.clip(np.log(share) - np.log1p(-share), -MAX_LOG_ODDS, MAX_LOG_ODDS)
    return objective.record_losses(
        Design(np.zeros((len(held_out), 1)), held_out.y, held_out.weight), np.append(odds, 0)
    )


def _one_class(rows: Design) -> bool:
    return bool(np.unique(rows.y).size < 2)
