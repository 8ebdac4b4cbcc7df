"""Owners with a fault that costs somebody their privacy: each is a context in which Parley has it, and an audit must
notice."""

from contextlib import contextmanager
from unittest import mock

import numpy as np

from parley.data import parts
from parley.losses import record_bound
from parley.losses.objectives import margin
from parley.owner.ledger.study_ledger import StudyLedger
from parley.privacy.mechanisms import FastNoise

LAPLACE, GAUSSIAN, MADE = FastNoise.laplace, FastNoise.gaussian, FastNoise.__init__
SENSITIVITY, FIRST, ANSWER = record_bound.RecordBound.sensitivity, parts.first_rows, StudyLedger.answer


@contextmanager
def half_the_noise():
    with (
        mock.patch.object(FastNoise, "laplace", lambda self, v, scale, s: LAPLACE(self, v, scale / 2, s)),
        mock.patch.object(FastNoise, "gaussian", lambda self, v, sigma: GAUSSIAN(self, v, sigma / 2)),
    ):
        yield


@contextmanager
def missing_factor_two():
    """As if a record were left out instead of replaced."""

    def halved(self, *settings):
        return SENSITIVITY(self, *settings) / 2

    with mock.patch.object(record_bound.RecordBound, "sensitivity", halved):
        yield


@contextmanager
def no_clipping():
    with mock.patch.object(margin, "derivative_limit", lambda block, bound: np.full(len(block), np.inf)):
        yield


@contextmanager
def fresh_noise_on_a_retry():
    def forgetful(self, query, spent_after, event, release, prune=False):
        known = self._latest.get(query.terms_hash, ("",))[0]
        if query.id == known:
            return release()(), self.account(query.terms_hash)
        return ANSWER(self, query, spent_after, event, release, prune)

    with mock.patch.object(StudyLedger, "answer", forgetful):
        yield


@contextmanager
def fixed_seed():
    with mock.patch.object(FastNoise, "__init__", lambda self, seed=None: MADE(self, 0)):
        yield


@contextmanager
def one_noise_for_two_questions():
    def again(self, value, scale, sensitivity):
        kept = vars(self).setdefault("kept", LAPLACE(self, np.zeros_like(value), 1.0, sensitivity))
        return value + scale * kept

    with mock.patch.object(FastNoise, "laplace", again):
        yield


@contextmanager
def person_limit_ignored():
    """As many rows are kept as count, but the first ones, whoever they belong to: here the canary's come first."""

    def whoever(frame, person, limit, name):
        kept = np.array(FIRST(frame, person, limit, name))
        dropped = np.flatnonzero(~kept)
        others = np.flatnonzero(kept)[::-1][: len(dropped)]
        kept[dropped], kept[others] = True, False
        return kept

    with mock.patch.object(parts, "first_rows", whoever):
        yield


@contextmanager
def debit_without_noise():
    with (
        mock.patch.object(FastNoise, "laplace", lambda self, value, scale, sensitivity: value),
        mock.patch.object(FastNoise, "gaussian", lambda self, value, sigma: value),
    ):
        yield


MUTANTS = {
    "half the noise": half_the_noise,
    "missing factor 2": missing_factor_two,
    "no clipping": no_clipping,
    "fresh noise on a retry": fresh_noise_on_a_retry,
    "fixed seed": fixed_seed,
    "one noise for two questions": one_noise_for_two_questions,
    "person limit ignored": person_limit_ignored,
    "debit without noise": debit_without_noise,
}
