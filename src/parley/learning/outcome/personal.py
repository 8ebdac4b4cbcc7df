"""What an owner makes of its own rows: a model alone, which may start from the public sample's fit, and a personal one,
which starts from the joint model. Both stay with the owner.

W lets the learning owner set its own budget to infinity. That leaks: theta[k] travels to the other owners, and with two
owners the other one reads the noiseless gradient off two successive queries. Here the learner's own answers carry the
noise of its own eps_l like everybody's, so whatever travels is eps_l-DP; noiseless own rows enter only after the last
query, in a model that never leaves.

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


def compared(
    agreement: Agreement,
    joints: Floats,
    columns: Floats | None,
    grown: bool = True,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[PersonalModel, list[PersonalModel]]:
    """The owner's model alone, and a personal one from each joint model [k, P]: what joining brings is their
    difference.

    One procedure (`correction`) makes all of them from the same training rows, judged by the same folds. The model
    alone is what it makes of the public sample's fit, which asks nobody, or of nothing where terms have no sample. So
    joining gets no credit for what own rows and public ones do by themselves. `columns` [n, columns] are those of the
    training rows at which trees look (`plain_columns`; None: no trees), and `grown` whether models are wanted, or only
    what they cost.
    """
    setup, rows = agreement.setup, agreement.tables.train.in_memory().targeted()
    ridge, none = Ridge(setup.risk, setup.preparation, rows), nothing(setup)
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
    """The best model [P] of the terms' public sample, which needs no owner; None where there is none."""
    if setup.public is None:
        return None
    origin = setup.objective.start(setup.preparation)
    if setup.terms.model.trees is not None:
        return origin  # leaf values that the public sample gave
    fit = public_fit(setup.risk, setup.public, setup.limits.radius, origin)
    return None if fit is None else fit.theta


def personal_model(agreement: Agreement, joint: Floats, columns: Floats | None = None) -> PersonalModel:
    """The joint model [P], corrected by the owner's own training rows as far as they bear it out (`correction`):
    ridges towards the joint model, the public fit, or none, weighed by cross-validation, the intercept with it or free,
    since owners differ most in how common things are; then trees, which look at `columns` [n, columns] of the training
    rows (`plain_columns`), None: no trees; and last towards the model alone."""
    return compared(agreement, joint[None], columns)[1][0]


def own_model(agreement: Agreement) -> PersonalModel:
    """Fit the owner's model alone, without trees: its own training rows and the public fit, weighed by
    cross-validation, without noise."""
    return compared(agreement, np.empty((0, agreement.setup.parameters)), None)[0]


def alone(terms: Terms, owner: Owner) -> Floats:
    """The parameters [P] of the owner's own model (`own_model`), from its own rows without noise: they stay inside.

    Parameters
    ----------
    terms
        How rows are prepared, and what is minimised.
    owner
        Whose table is learned from.

    Returns
    -------
    array [P]
        Coefficients of the prepared features, and the constant behind them.

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
    """The owner's personal model, ready to be saved and scored, and how it came about.

    The joint model is corrected by the owner's own training rows as far as they bear it out. No noise is added: both
    stay inside.

    Parameters
    ----------
    model
        The joint model that `train` made.
    terms
        By which it was trained.
    owner
        Whose rows correct it.
    trees
        Whether it may have trees of own rows.

    Returns
    -------
    (JointModel, PersonalModel)
        The personal model, and what every way to it costs in cross-validation.

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
    found = personal_model(agreement, model.theta_, columns)
    setup = agreement.setup
    return make_model(setup.preparation, found.theta, terms.hash, released=False, trees=found.trees), found


def plain_columns(owner: Owner, agreement: Agreement) -> tuple[Floats, Floats]:
    """(training, held-out) rows that have a target, with their columns before any rotation, basis or leaves [n,
    columns]: what trees look at."""
    setup = agreement.setup
    plain = setup.preparation.unturned
    designs = agreement.tables.train, agreement.tables.held_out
    own = designs if plain is setup.preparation else plain.designs(owner.table, setup.terms, owner.name)
    train, held_out = (rows.in_memory().targeted().X for rows in own)
    return train, held_out


def centres(setup: Setup, start: Start) -> list[Centre]:
    """The ways a ridge of own rows may be pulled to a model: with its intercept, or without it. Zeros are no model."""
    ways = (False, True) if setup.preparation.model.has_intercept else (False,)
    return [Centre(start.name, start.theta, free) for free in ways] if start.theta.any() else []


def nothing(setup: Setup) -> Centre:
    """The zero model, which is no model."""
    return Centre(NO_MODEL, np.zeros(setup.parameters), free=setup.preparation.model.has_intercept)
