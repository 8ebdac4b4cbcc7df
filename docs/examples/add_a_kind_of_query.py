"""Add a kind of query: the mean of the target, asked once; and the algorithm that makes a constant model of it.

Checks, noise, debits, messages, and what a learner believes follow from what one owner's answer is and how far a person
can move it.

In the package: terms/catalogue.py, terms/algorithms.py, protocol/queries/__init__.py,
protocol/queries/mean.py (new), learning/algorithms/catalogue.py, learning/algorithms/constant_model.py (new)
"""

import numpy as np

import parley
from parley.learning.algorithms.algorithm import Algorithm, State
from parley.learning.algorithms.catalogue import register
from parley.losses import RecordBound
from parley.protocol.queries import QUESTION_KINDS, Query, Question
from parley.protocol.queries.question import rows_and_slack
from parley.terms.rules import OneRelease


class MeanQuery(Query):
    kind = "mean"


class MeanQuestion(Question):
    """Targets lie within their public bounds, B at most, so replacing k of n rows moves their mean by at most 2 k
    B/n."""

    asks = MeanQuery

    @classmethod
    def resolve(cls, context, owner):
        k, (rows, slack, _) = context.terms.privacy.records_per_person, rows_and_slack(context, owner)
        bound = RecordBound(context.preparation.target_bound, context.norm, clips=False)
        return cls(1, rows, 1, context.norm, bound.sensitivity(rows, slack, k), bound.extent(slack), bound)

    def exact(self, query, tables):
        return tables.train.sum(lambda block: np.array([block.y.sum()])) / len(tables.train)


class ConstantModelRules(OneRelease):
    asks = "mean"


class ConstantModel(Algorithm):
    def query(self, state, asker):
        return MeanQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state, combined, answers=()):
        return State(2, self.project(np.eye(state.theta.shape[-1])[-1] * combined))


QUESTION_KINDS["mean"] = MeanQuestion
register("constant-model", ConstantModelRules(), ConstantModel)

book = parley.data.synthetic_lending(4000, seed=1)
model = {
    "kind": "linear-regression",
    "target": "int_rate",
    "features": ["fico"],
    "bounds": {"int_rate": [5, 31]},
    "intercept": True,
}
owners = [{"name": "bank", "records": 4000, "epsilon": 1.0}]
terms = parley.Terms.from_dict({"model": model, "learning": {"algorithm": "constant-model"}, "owners": owners})
result = parley.train(terms, [parley.Owner("bank", book)], seed=0)
assert abs(result.model.predict(book)[0] - book["int_rate"].mean()) < 0.1
