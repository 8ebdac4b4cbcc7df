"""Owners with a fault that costs somebody their privacy: each is a context in which Parley has it, and an audit must
notice."""

from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa

from parley.data import Preparation, holdout, rowwise, table
from parley.errors import DataError
from parley.losses import loss, score
from parley.losses.objectives import margin
from parley.owner.ledger.account import StudyLedger
from parley.privacy.mechanisms import FastNoise
from parley.privacy.mechanisms.randomised_response import WORD_COUNT, RandomisedResponse
from parley.privacy.mechanisms.shared_noise import draw_plainly

IN_PLACE = Preparation._in_place
LAPLACE, GAUSSIAN, MADE = FastNoise.laplace, FastNoise.gaussian, FastNoise.__init__
GEOMETRIC, ANSWERS = FastNoise.geometric, RandomisedResponse._answers
DECLARED, NAMED = table._declared, table.cell_name
SENSITIVITY, FIRST, ANSWER = loss.RecordBound.sensitivity, holdout.first_rows, StudyLedger.answer


@contextmanager
def divided_by_who_counts():
    """Where people are held out, means are over the rows that count, as many as the owner happens to have."""

    def designs(self, parts, held_out, name, means_over):
        return tuple(
            replace(each, mean_over=max(np.count_nonzero(each.present), 1))
            for each in IN_PLACE(self, parts, held_out, name, means_over)
        )

    with mock.patch.object(Preparation, "_in_place", designs):
        yield


@contextmanager
def people_counted_at_no_cost():
    """The number of held-out rows as it is beside the sums over them, under the noise of the sums."""
    with mock.patch.object(score, "ROW_COUNT_WEIGHT", 1.0):
        yield


@contextmanager
def half_the_noise():
    with (
        mock.patch.object(FastNoise, "laplace", lambda self, v, scale, s: LAPLACE(self, v, scale / 2, s)),
        mock.patch.object(FastNoise, "gaussian", lambda self, v, sigma: GAUSSIAN(self, v, sigma / 2)),
        mock.patch.object(FastNoise, "geometric", lambda self, v, scale: GEOMETRIC(self, v, scale / 2)),
        mock.patch.object(RandomisedResponse, "_answers", truthful_answers),
    ):
        yield


def truthful_answers(self, counts, draw):
    """Of answers that are not meant half are."""
    return ANSWERS(replace(self, truthful=self.truthful + (WORD_COUNT - self.truthful) // 2), counts, draw)


@contextmanager
def missing_factor_two():
    """As if a record were left out instead of replaced."""

    def halved(self, *settings):
        return SENSITIVITY(self, *settings) / 2

    with mock.patch.object(loss.RecordBound, "sensitivity", halved):
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

    with mock.patch.object(holdout, "first_rows", whoever):
        yield


@contextmanager
def debit_without_noise():
    with (
        mock.patch.object(FastNoise, "laplace", lambda self, value, scale, sensitivity: value),
        mock.patch.object(FastNoise, "gaussian", lambda self, value, sigma: value),
    ):
        yield


@contextmanager
def margins_by_products():
    """Margins of rows that were drawn in secret by one product of matrices: who else was drawn changes their last
    digit."""
    with mock.patch.object(rowwise, "products", lambda X, flat: np.asarray(flat @ X.T)):
        yield


def read_by_pandas(frame, column, name):
    """A declared column by way of pandas, which makes floats of whole numbers beside a gap."""
    if isinstance(frame, pd.DataFrame) and not isinstance(frame[column].dtype, pd.ArrowDtype):
        return DECLARED(frame, column, name)
    cells = frame.column(column) if isinstance(frame, pa.RecordBatch) else pa.array(frame[column].array)
    try:
        return pa.table({column: cells}).to_pandas()[column]
    except Exception as error:
        raise DataError(f"{name}: column {column!r}: the cells cannot be read ({type(error).__name__})") from None


@contextmanager
def a_gap_renames_all_others():
    """Columns of Parquet files by way of pandas, and cells named as they print: beside a gap, 1 is called 1.0."""
    with (
        mock.patch.object(table, "_declared", read_by_pandas),
        mock.patch.object(table, "cell_name", lambda cell: repr(cell) if isinstance(cell, float) else NAMED(cell)),
        mock.patch.object(table, "plain_name", lambda name: name),
    ):
        yield


@contextmanager
def shared_noise_drawn_by_one_host():
    """Host 0 draws the number by itself, and hands out shares of it that look as they should."""

    def alone(party, recipe, size):
        masks = party.random(size)
        part = np.zeros(size, dtype=np.uint64) if party.index == 2 else masks.first
        if party.index == 0:
            part = draw_plainly(recipe.recipe, (size,), np.random.default_rng()).view(np.uint64) - masks.second
        return party.complete(part)

    with mock.patch("parley.audit.served.one_host.draw", alone):
        yield


HOLES = {
    "secret draws round each other": margins_by_products,
    "a gap renames all others": a_gap_renames_all_others,
}
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
