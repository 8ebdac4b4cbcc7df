"""The cost of coding names as 0, 1, 2, ... in one column, measured on the public sample alone."""

from dataclasses import dataclass, replace

import numpy as np

from parley import losses as objectives
from parley.data import Design, Preparation
from parley.errors import DataError
from parley.losses import EmpiricalRisk
from parley.numerals import number
from parley.protocol.task import task_of
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION
from parley.validate import printable

FOLDS = 2
MAX_ROWS = 4000  # of the public sample that are looked at
MAX_PARAMETERS = 500  # above, a fit takes longer than the answer is worth
MIN_RELATIVE_GAIN = 0.005  # of the cost, below which two codings are as good


@dataclass(frozen=True)
class CodingCost:
    """Costs of the model without privacy on held-out rows of the public sample, in the target's own units."""

    integer: float
    one_hot: float
    rows: int

    @property
    def matters(self) -> bool:
        """Whether one-hot columns are clearly better."""
        return self.one_hot < (1 - MIN_RELATIVE_GAIN) * self.integer

    def words(self) -> str:
        """Compare the costs of both codings in a sentence."""
        costs = f"names as 0, 1, 2, … give a cost of {number(self.integer)}, one-hot columns {number(self.one_hot)}"
        better = "one-hot columns would not be better here"
        if self.matters:
            better = f'coding = "one-hot" would be better by {number(self.integer - self.one_hot)}'
        return f"Coding: on rows of the public sample held back, without privacy, {costs}: {better}."


def coding_warning(terms: Terms) -> str | None:
    """Warn the author of terms that code names as 0, 1, 2, ... in one column; None if that costs nothing."""
    cost = coding_cost(terms)
    if cost is not None and not cost.matters:
        return None
    instead = 'Write coding = "one-hot" under [model], and plan again.'
    if cost is not None:
        more = f" ({number(100 * (cost.integer / cost.one_hot - 1), 2)} % more)" if cost.one_hot > 0 else ""
        return (
            "Coding: these terms read names as 0, 1, 2, … in one column. That gives a cost of "
            f"{number(cost.integer)} where one-hot columns give {number(cost.one_hot)}{more}, without privacy, on "
            f"public rows held back. {instead}"
        )
    model = terms.model
    features = [column for column, names in model.categories.items() if column != model.target and len(names) > 2]
    linear = terms.task == PREDICTION and model.columns is None and model.coding == "integer"
    if not (linear and features and model.public is None):
        return None
    return (
        f"Coding: these terms read the names in {', '.join(printable(each, 60) for each in features)} as 0, 1, 2, … in "
        "one column, as if the third were twice as far from the first as the second. Without a public sample nobody "
        f"can measure what that costs. {instead}"
    )


def coding_cost(terms: Terms) -> CodingCost | None:
    """Return both codings' cross-validated costs; None if terms are one-hot, or nothing can be measured."""
    if terms.model.coding != "integer" or terms.model.public is None:
        return None
    preparation, public = task_of(terms).preparation(terms)
    if public is None or not any(len(preparation.categories.get(column, ())) > 2 for column in preparation.features):
        return None
    bounds = {column: ends for column, ends in terms.model.bounds.items() if column not in preparation.categories}
    one_hot = terms.changed(model={"coding": "one-hot", "bounds": bounds})
    other, other_public = task_of(one_hot).preparation(one_hot)
    objective = objectives.make(terms.model)
    if other_public is None or objective.parameters(other) > MAX_PARAMETERS or len(public) < 2 * FOLDS:
        return None
    costs = [_held_back(objective, terms, *each) for each in ((preparation, public), (other, other_public))]
    return None if None in costs else CodingCost(float(costs[0] or 0), float(costs[1] or 0), min(len(public), MAX_ROWS))


def _held_back(objective: EmpiricalRisk, terms: Terms, preparation: Preparation, public: Design) -> float | None:
    """Return the mean cost of rows under other folds' models; a ridge of weight 1 over all rows keeps fits finite."""
    places = np.random.default_rng(0).permutation(len(public))[:MAX_ROWS]
    total = 0.0
    for fold in range(FOLDS):
        held = np.arange(len(places)) % FOLDS == fold
        fit, test = public.where(places[~held]), public.where(places[held])
        ridged = replace(objective, regularisation=max(objective.regularisation, 1 / len(fit)))
        try:
            theta = ridged.optimum([fit], terms.model.radius, start=objective.start(preparation))
        except DataError:
            return None
        if theta is None:
            return None
        total += float(replace(objective, regularisation=0.0).cost(test, theta)) * len(test)
    return total / len(places) * preparation.target_scale**2
