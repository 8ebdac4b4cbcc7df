"""The exact forecast for owners that differ and take turns, against many runs."""

from dataclasses import replace

import numpy as np
import pytest
from owners_moments import Moments, expected_path
from samples import make_terms, regression_table

import parley
from parley.errors import SettingError

SIZES, STRIDES, RUNS = (4000, 3000, 5000, 2000), (1, 2, 5, 10), 3000


def differing(algorithm="averaged-subgradient", step=0.5):
    """Four owners, each with another law, asked in every, every second, fifth and tenth round."""
    terms = make_terms(
        *SIZES, epsilon=2.0, privacy__clip=60.0, model__radius=50.0, learning__horizon=30, learning__step=step
    )
    terms = terms.changed(
        learning={"algorithm": algorithm}, owners={name: {"stride": s} for name, s in zip("abcd", STRIDES, strict=True)}
    )
    tables = [regression_table(n, i).assign(y=lambda d, i=i: d["y"] + 0.3 * i * d["x0"]) for i, n in enumerate(SIZES)]
    return terms, [parley.Owner(name, table) for name, table in zip("abcd", tables, strict=True)]


@pytest.mark.parametrize(("algorithm", "step"), [("averaged-subgradient", 0.5), ("gradient-descent", 300.0)])
def test_it_meets_the_mean_of_3000_runs_and_every_ledger_ends_at_its_epsilon(algorithm, step):
    terms, owners = differing(algorithm, step)
    result = parley.train(terms, owners, replicates=RUNS, seed=3)
    moments = {owner.name: Moments.of(owner.prepare(terms).tables.train) for owner in owners}
    expected = expected_path(owners[0].prepare(terms).setup, moments)
    error = result.path.std(axis=1, ddof=1) / RUNS**0.5
    assert (np.abs(result.path.mean(axis=1) - expected) < 3 * error).all()
    assert [(o.epsilon_spent, o.answers) for o in result.owners] == [(2.0, 30), (2.0, 15), (2.0, 6), (2.0, 3)]
    alike = dict.fromkeys("abcd", replace(moments["d"]))  # a mutant: as if all were like one of them
    assert not (
        np.abs(result.path.mean(axis=1) - expected_path(owners[0].prepare(terms).setup, alike)) < 3 * error
    ).all()


def test_it_says_what_it_cannot_forecast():
    terms, owners = differing()
    setup = owners[0].prepare(terms).setup
    with pytest.raises(SettingError, match="descent on linear-regression only"):
        expected_path(replace(setup, objective=parley.losses.LogisticRegression()), {})
