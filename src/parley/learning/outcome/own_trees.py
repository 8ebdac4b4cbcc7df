"""Boosted trees of an owner's own rows, beside its ridge alone. Inside: neither ever leaves the owner.

Formal guarantee: none. Both are functions of private rows without noise.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from parley.data import Design
from parley.learning.outcome.boosting import BoostedTrees, TreeRows, boosted, lead, tree_raw
from parley.learning.outcome.ridge import RidgeModel, judged_rows
from parley.owner.owner import Agreement, Owner
from parley.validate import Floats

LEAST_OWN = 200  # rows of an owner: fewer take trees for better that are not


@dataclass(frozen=True, eq=False)
class OwnTrees:
    """Trees that are better than the owner's ridge by a standard error or more, and the loss of each row
    (`judged_rows`) by trees that it is not in, counted from the ridge's."""

    trees: BoostedTrees
    losses: Floats


def own_trees(owner: Owner, agreement: Agreement, ridge: RidgeModel) -> OwnTrees | None:
    """Trees of the owner's own training rows, whose model alone is this ridge; None where rows are too few for trees,
    or where those are not better."""
    rows, objective = tree_rows(owner, agreement)[0], agreement.setup.risk
    some, fold = judged_rows(len(rows))
    judged, linear = rows.where(some), np.empty(len(some))
    if len(judged) < LEAST_OWN or not judged.enough:
        return None
    design = agreement.tables.train.in_memory().targeted().where(some)
    for k, theta in enumerate(ridge.without):
        linear[fold == k] = judged.where(fold == k).scored(objective.scores(design.X[fold == k], theta))
    known = "own trees", linear.tobytes()  # one owner scores several models
    found = agreement.tables.train.derived(known, partial(boosted, judged, linear))
    if found is None:
        return None
    gain, error = lead(linear, found.losses)
    return OwnTrees(found, ridge.losses - linear + found.losses) if gain > error else None


def tree_design(found: OwnTrees, train: TreeRows, held_out: TreeRows) -> tuple[Design, Floats]:
    """(rows, parameters) that have the raw predictions of trees: a column for each of them."""
    raw = tree_raw(train, held_out, found.trees.leaves, (found.trees.iterations,))[0]
    X = np.atleast_2d(raw).T
    return Design(X, held_out.y, held_out.weight), np.eye(X.shape[1]).ravel()


def tree_rows(owner: Owner, agreement: Agreement) -> tuple[TreeRows, TreeRows]:
    """(training, held-out) rows that have a target, as trees take them."""
    setup, tables = agreement.setup, agreement.tables
    train, held_out = (
        TreeRows.of(setup.risk, setup.preparation, rows.in_memory().targeted(), columns)
        for rows, columns in zip((tables.train, tables.held_out), plain_columns(owner, agreement), strict=True)
    )
    return train, held_out


def plain_columns(owner: Owner, agreement: Agreement) -> tuple[Floats, Floats]:
    """(training, held-out) rows that have a target, with their columns before any rotation, basis or leaves [n,
    columns]: what trees look at."""
    setup = agreement.setup
    plain = setup.preparation.unturned
    designs = agreement.tables.train, agreement.tables.held_out
    own = designs if plain is setup.preparation else plain.designs(owner.table, setup.terms, owner.name)
    train, held_out = (rows.in_memory().targeted().X for rows in own)
    return train, held_out
