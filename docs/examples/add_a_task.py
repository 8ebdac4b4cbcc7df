"""Add a task: the share of records whose target lies above a public threshold. Nothing is predicted; owners only count.

A task says how tables are prepared, what is asked and how it runs; acceptance, ledgers, hosts and messages follow.

In the package: terms/catalogue.py, tasks/shares/__init__.py (new), tasks/shares/terms.py (new),
tasks/shares/task.py (new)
"""

from typing import ClassVar

import numpy as np

import parley
from parley.data import fit_preparation
from parley.learning.algorithms.algorithm import Algorithm, State
from parley.learning.deployed import ask_here
from parley.losses import Objective
from parley.privacy.mechanisms import Extent
from parley.protocol.queries import Query, Question
from parley.protocol.task import register
from parley.tasks.records import BoundedRecords
from parley.terms import catalogue
from parley.terms.rules import OneRelease, register_rules

THRESHOLD = 13.0


class ShareQuery(Query):
    kind = "share"


class ShareQuestion(Question):
    """A record is above or not, so replacing k of n moves the share by at most k/n."""

    asks = ShareQuery

    @classmethod
    def resolve(cls, context, owner):
        k, rows = context.terms.privacy.records_per_person, context.terms.train_rows(owner)
        moved = k / rows * (1 + rows * 2.0**-52)
        return cls(1, rows, 1, context.norm, moved, Extent(0.0, 1.0, 1.0, context.norm), None)

    def exact(self, query, tables):
        return tables.train.sum(lambda block: np.array([np.count_nonzero(block.y > THRESHOLD)])) / len(tables.train)


class ShareRules(OneRelease):
    asks = "share"


class Share(Algorithm):
    def start(self, origin, replicates=()):
        return State(1, np.zeros((*replicates, 1)))

    def query(self, state, asker):
        return ShareQuery.ask(asker.terms_hash, asker.learner, state.round)

    def update(self, state, combined, answers=()):
        return State(2, combined)


class OneShare(Objective):
    def parameters(self, preparation):
        return 1


class Shares(BoundedRecords):
    name = "shares"
    refusal = "learning.algorithm: these terms count records; parley.train runs them"
    questions: ClassVar = {"share": ShareQuestion}

    def preparation(self, terms, example=None, redraw=None):
        return fit_preparation(terms, example, redraw)

    def objective(self, model):
        return OneShare()

    def purpose(self, agreement):
        return [f"No model: the share of records whose target lies above {THRESHOLD:g}."]

    def algorithm(self, setup):
        return Share.make(setup)

    def run(self, terms, owners, settings):
        begin = lambda setup: (Share.make(setup), np.zeros(1))  # noqa: E731
        asked = ask_here(terms, owners, begin, settings.replicates, settings.seed)
        return asked.final.theta[..., 0]


catalogue.TASKS["shares"] = catalogue.TaskFacts(home=__name__, algorithm="share")
register_rules("share", ShareRules(), task="shares")
register(Shares())

book = parley.data.synthetic_lending(4000, seed=1)
model = {"kind": "linear-regression", "target": "int_rate", "features": ["fico"]}
owners = [{"name": "bank", "records": 4000, "epsilon": 1.0}]
terms = parley.Terms.from_dict({"model": model, "learning": {"algorithm": "share"}, "owners": owners})
found = parley.train(terms, [parley.Owner("bank", book)], replicates=100, seed=0)
assert abs(found.mean() - (book["int_rate"] > THRESHOLD).mean()) < 4 * 2**0.5 / 4000 / 10
