"""An owner's own models: one alone, which may start from the public fit, and a personal one, which starts from the
joint model. Both stay with the owner.

W sets the learning owner's own budget to infinity, which leaks its gradient to the others through theta[k]. Here the
learner's answers carry the noise of its own eps_l like everybody's, so whatever travels is eps_l-DP. Noiseless own rows
enter only after the last query, in a model that never leaves.

Formal guarantee: none. Both are functions of private rows without noise.
"""

from collections.abc import Callable

import numpy as np

from parley.errors import ModelError
from parley.learning.outcome.correction import JOINT, NO_MODEL, PUBLIC, PersonalModel, Start, corrected
from parley.learning.outcome.model import JointModel, make_model
from parley.learning.outcome.ridge import Centre, Ridge
from parley.learning.start import public_fit
from parley.owner.owner import Agreement, Owner
from parley.protocol.setup import Setup
from parley.terms import Terms
from parley.validate import Floats


def alone_and_personal_models(
    agreement: Agreement,
    joints: Floats,
    columns: Floats | None,
    grown: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[PersonalModel, list[PersonalModel]]:
    """Return the owner's model alone, and a personal model from each joint model [k, P].

    One procedure (`correction`) makes all of them from the same rows and folds, so joining gets no credit for what own
    and public rows do by themselves. The model alone starts from the public fit, or from zero without a sample. Trees
    look at `columns` [n, columns] of the training rows (`plain_columns`; None: no trees). If `grown` is false, only
    losses are computed.
    """
    setup, rows = agreement.setup, agreement.tables.train.in_memory().targeted()
    ridge, none = Ridge(setup.risk, setup.preparation, rows), zero_centre(setup)
    known = [Start(NO_MODEL, none.theta, None)]
    if (fit := own_public_fit(setup)) is not None:
        known.append(Start(PUBLIC, fit, 0))
    alone = len(known) - 1
    starts = [*known, *(Start(JOINT, joint, alone) for joint in joints)]
    own = [none] if fit is None else [*centres(setup, known[alone]), none]
    sets = [[none], own][: len(known)] + [[*centres(setup, start), *own] for start in starts[len(known) :]]
    pulled = ridge.averages(sets, progress)
    made = corrected(ridge, pulled, starts, columns, grown)
    return made[alone], made[alone + 1 :]


def own_public_fit(setup: Setup) -> Floats | None:
    """Return the best model [P] of the terms' public sample; None if there is none."""
    if setup.public is None:
        return None
    origin = setup.objective.start(setup.preparation)
    if setup.terms.model.trees is not None:
        return origin  # leaf values that the public sample gave
    fit = public_fit(setup.risk, setup.public, setup.limits.radius, origin)
    return None if fit is None else fit.theta


def personal_model(agreement: Agreement, joint: Floats, columns: Floats | None = None) -> PersonalModel:
    """Correct the joint model [P] as far as the owner's training rows support it (`correction`). Trees look at
    `columns` [n, columns] of the training rows (`plain_columns`; None: no trees)."""
    return alone_and_personal_models(agreement, joint[None], columns)[1][0]


def own_model(agreement: Agreement) -> PersonalModel:
    """Fit the owner's model alone, without trees and without noise, from its training rows and the public fit."""
    return alone_and_personal_models(agreement, np.empty((0, agreement.setup.parameters)), None)[0]


def alone(terms: Terms, owner: Owner) -> Floats:
    """Return the parameters [P] of the owner's model alone, fitted to its own rows without noise. Keep them inside.

    Parameters
    ----------
    terms
        Preparation of the rows, and the objective.
    owner
        Owner whose table is used.

    Returns
    -------
    array [P]
        Coefficients of the prepared features, then the constant.

    Examples
    --------
    >>> import parley
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]}},
    ...     "privacy": {"clip": 2e4},
    ...     "owners": [{"name": "bank", "records": 500, "epsilon": 1.0}],
    ... })
    >>> alone(terms, Owner("bank", parley.data.synthetic_lending(500))).shape
    (3,)
    """
    return own_model(owner.prepare(terms)).theta


def refine(model: JointModel, terms: Terms, owner: Owner, trees: bool = True) -> tuple[JointModel, PersonalModel]:
    """Personalise the joint model with the owner's own training rows. No noise is added: keep the result inside.

    Parameters
    ----------
    model
        Joint model from `train`.
    terms
        Terms it was trained under.
    owner
        Owner whose rows correct it.
    trees
        Whether it may have trees of own rows.

    Returns
    -------
    (JointModel, PersonalModel)
        The personal model, ready to be saved and scored, and the cross-validated loss of every way to it.

    Examples
    --------
    >>> import parley
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]}, "radius": 30.0},
    ...     "learning": {"horizon": 2, "step": 1e-6},
    ...     "privacy": {"clip": 2e4},
    ...     "owners": [{"name": "bank", "records": 300, "epsilon": 1.0}],
    ... })
    >>> bank = Owner("bank", parley.data.synthetic_lending(300))
    >>> own, how = refine(parley.train(terms, [bank], seed=1).model, terms, bank, trees=False)
    >>> own.predict(bank.table.frame(["fico", "dti"])).shape, [way.name for way in how.ways][:2]
    ((300,), ['joint', 'ridge'])
    """
    if model.terms_hash_ != terms.hash:
        raise ModelError("this model was trained under other terms; give the terms file that it was trained with")
    if model.trees_ is not None:
        raise ModelError("this is already a personal model with trees; give the joint model")
    agreement = owner.prepare(terms)
    columns = plain_columns(owner, agreement)[0] if trees else None
    personal = personal_model(agreement, model.theta_, columns)
    setup = agreement.setup
    return make_model(setup.preparation, personal.theta, terms.hash, released=False, trees=personal.trees), personal


def plain_columns(owner: Owner, agreement: Agreement) -> tuple[Floats, Floats]:
    """Return the columns [n, columns] of (training, held-out) rows with a target, before rotation, basis or leaves."""
    setup = agreement.setup
    plain = setup.preparation.unturned
    designs = agreement.tables.train, agreement.tables.held_out
    own = designs if plain is setup.preparation else plain.designs(owner.table, setup.terms, owner.name)
    train, held_out = (rows.in_memory().targeted().X for rows in own)
    return train, held_out


def centres(setup: Setup, start: Start) -> list[Centre]:
    """Return the centres a ridge may be pulled to: with and without the intercept; none if the model is all zeros."""
    ways = (False, True) if setup.preparation.model.has_intercept else (False,)
    return [Centre(start.name, start.theta, free) for free in ways] if start.theta.any() else []


def zero_centre(setup: Setup) -> Centre:
    """Return the zero model as a centre."""
    return Centre(NO_MODEL, np.zeros(setup.parameters), free=setup.preparation.model.has_intercept)
