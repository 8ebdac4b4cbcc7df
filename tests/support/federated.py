"""Owners whose tables differ, and runs without noise: what tests of the federated family share."""

import numpy as np
import pandas as pd
from samples import GAUSSIAN, make_terms

import parley
from parley.learning.algorithms.algorithm import Asker, run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.protocol.aggregation import aggregation_of
from parley.protocol.queries import Answer

SIZES = (40, 60, 100)
FAMILY = {
    "federated-averaging": {},
    "fedprox": {"learning__proximal": 0.7},
    "fednova": {},
    "scaffold": {},
    "scaffold, gradients": {"learning__variates": "gradients"},
    "fedlin": {},
    "fedsplit": {"learning__proximal": 0.7},
}
EXACT = ("scaffold", "scaffold, gradients", "fedlin", "fedsplit")
CORRECTED = EXACT
UNEQUAL = {"a": {"local_steps": 6}, "b": {"local_steps": 20}, "c": {"local_steps": 12}}


def family_terms(name, *sizes, own=None, **overrides):
    """Terms of one of the family; `own` are keys of single owners."""
    usual = {"model__bounds": {"x0": [-1, 1], "x1": [-1, 1], "x2": [-1, 1], "y": [-3, 3]}, "learning__step": "auto"}
    settings = usual | {"learning__algorithm": name.split(",")[0]} | GAUSSIAN | FAMILY[name] | overrides
    terms = make_terms(*(sizes or SIZES), **settings)
    return terms.changed(owners=own) if own else terms


def different_tables(sizes=SIZES, seed=0):
    """Tables of different laws, well conditioned, each with optimum and curvature of its own."""
    rng, tables = np.random.default_rng(seed), {}
    for place, size in enumerate(sizes):
        X = rng.uniform(-1, 1, (size, 3)) * rng.uniform(0.4, 1.0, 3)
        theta = rng.uniform(-0.8, 0.8, 3)
        y = X @ theta + rng.uniform(-0.2, 0.2, size)
        tables["abcdefgh"[place]] = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(y=y)
    return tables


class Quiet:
    """Owners that check and answer as always, but without noise."""

    def __init__(self, agreements):
        self.agreements, self.asked = agreements, []

    def ask(self, questions):
        self.asked.append(questions)
        return [self.answered(name, query) for name, query in questions.items()]

    def answered(self, name, query):
        agreement = self.agreements[name]
        replicates = next(iter(query.arrays.values())).shape[:-1]
        question = agreement.part.check(query, replicates).question
        return Answer(query.id, name, question.records, question.bounded(query, agreement.tables, replicates).value)


def quiet_run(terms, tables, exchange=Quiet, start=None):
    """(where a run without noise ends, the exchange)."""
    agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in tables.items()}
    setup = agreements["a"].setup
    algorithm, asked = make_algorithm(setup), exchange(agreements)
    origin = starting_point(setup) if start is None else start
    begin = algorithm.start(origin, origin.shape[:-1])
    final = run(algorithm, asked, aggregation_of(terms), Asker.from_setup(setup), begin)
    return algorithm.model(final), asked


def moments(tables):
    """Each owner's share, Hessian and gradient at zero: f_l' = H theta - b."""
    total = sum(map(len, tables.values()))
    found = {}
    for name, table in tables.items():
        X, y = table[["x0", "x1", "x2"]].to_numpy(), table["y"].to_numpy()
        found[name] = len(y) / total, 2 * X.T @ X / len(y), 2 * X.T @ y / len(y)
    return found


def optimum(tables, ridge=0.0):
    """Of the joint cost."""
    H = sum(p * A for p, A, _ in moments(tables).values()) + ridge * np.eye(3)
    return np.linalg.solve(H, sum(p * b for p, _, b in moments(tables).values()))
