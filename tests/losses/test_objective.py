"""What each objective can do beside gradients, asked for and never refused by a stub."""

from types import SimpleNamespace

import pytest

from parley.errors import GuaranteeError
from parley.losses import KINDS, EmpiricalRisk, Objective
from parley.losses.local_update import LocallyUpdated
from parley.losses.moments import SufficientMoments
from parley.losses.objective import SplitBatches
from parley.losses.objective_perturbation import Perturbable
from parley.protocol.queries.question import Context
from parley.tasks.dynamics.task import DelayedDynamics
from parley.tasks.ratings.task import ItemObjective
from parley.terms.catalogue import MODELS

CAN = {
    "linear-regression": {LocallyUpdated, SufficientMoments},
    "linear-svm": {LocallyUpdated},
    "logistic-regression": {LocallyUpdated, Perturbable},
    "softmax-regression": {LocallyUpdated, Perturbable},
    "one-vs-all": {SplitBatches},
    "least-squares-classes": {LocallyUpdated, SufficientMoments},
    "poisson-regression": {LocallyUpdated},
    "survival": set(),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_objective_can_do_is_what_the_catalogue_says(kind):
    objective, facts = KINDS[kind](), MODELS[kind]
    assert {
        able for able in (LocallyUpdated, SufficientMoments, Perturbable, SplitBatches) if isinstance(objective, able)
    } == CAN[kind]
    assert objective.loss.smooth is facts.smooth
    assert isinstance(objective, Perturbable) is facts.perturbs
    assert isinstance(objective, SufficientMoments) is facts.squared


@pytest.mark.parametrize("kind", [DelayedDynamics, ItemObjective])
def test_what_is_not_learned_by_gradients_has_none(kind):
    objective = kind()
    assert isinstance(objective, Objective)
    assert not isinstance(objective, EmpiricalRisk)
    context = Context(SimpleNamespace(model=SimpleNamespace(kind="plant")), None, None, objective)
    with pytest.raises(GuaranteeError, match="'plant': this model is not trained by gradients of records"):
        context.risk  # noqa: B018
