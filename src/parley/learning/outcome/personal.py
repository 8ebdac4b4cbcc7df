"""What an owner makes of its own rows: a model alone, and a personal one that starts from the joint model. Both stay
with the owner.

W lets the learning owner set its own budget to infinity. That leaks: theta[k] travels to the other owners, and with two
owners the other one reads the noiseless gradient off two successive queries. Here the learner's own answers carry the
noise of its own eps_l like everybody's, so whatever travels is eps_l-DP; noiseless own rows enter only after the last
query, in a model that never leaves.

Formal guarantee: none. Both are functions of private rows without noise.
"""

import numpy as np

from parley.errors import ModelError
from parley.learning.outcome.model import JointModel, make_model
from parley.learning.outcome.ridge import Centre, Ridge, RidgeModel
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.terms import Terms
from parley.validate import Floats

ALONE, JOINT = "no model", "the joint model"


def own_model(agreement: Agreement) -> RidgeModel:
    """What the owner gets without the others: its own training rows, pulled towards no model as cross-validation says,
    no noise."""
    return _ridge(agreement).average([nothing(agreement.setup)])


def personal_model(agreement: Agreement, joint: Floats) -> RidgeModel:
    """The joint model [P] and the owner's own training rows together: ridges towards the joint model, weighed by
    cross-validation, the intercept with it or free, since owners differ most in how common things are. Where the rows
    say that the joint model is of no use, the model alone is what counts.

    The joint model has seen these rows too, through noise and among all others, which makes it look a little better
    than it is.
    """
    return _ridge(agreement).average(centres(agreement.setup, joint))


def own_and_personal(agreement: Agreement, joint: Floats) -> tuple[RidgeModel, RidgeModel]:
    """Both (`own_model`, `personal_model`), in less time than one after the other: models that are pulled to none are
    made once."""
    none = nothing(agreement.setup)
    own, personal = _ridge(agreement).averages([[none], centres(agreement.setup, joint, none)])
    return own, personal


def alone(terms: Terms, owner: Owner) -> Floats:
    """The parameters [P] of the owner's own model (`own_model`)."""
    return own_model(owner.prepare(terms)).theta


def refine(model: JointModel, terms: Terms, owner: Owner) -> tuple[JointModel, RidgeModel]:
    """The owner's personal model, ready to be saved and scored, and how it came about."""
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained by other terms; expected the terms it carries the hash of")
    agreement = owner.prepare(terms)
    found = personal_model(agreement, model.theta_)
    return make_model(agreement.setup.preparation, found.theta, terms.hash, released=False), found


def _ridge(agreement: Agreement) -> Ridge:
    return Ridge(agreement.setup.risk, agreement.setup.preparation, agreement.tables.train.in_memory().targeted())


def centres(setup: Setup, joint: Floats, none: Centre | None = None) -> list[Centre]:
    """What a personal model may be pulled to: the joint model, or `none`."""
    ways = [Centre(JOINT, joint, free=False), nothing(setup) if none is None else none]
    if setup.preparation.model.has_intercept:
        ways.insert(1, Centre(JOINT, joint, free=True))
    return ways


def nothing(setup: Setup) -> Centre:
    """No model: what the model alone is pulled to."""
    return Centre(ALONE, np.zeros(setup.parameters), free=setup.preparation.model.has_intercept)
