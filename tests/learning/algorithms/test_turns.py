"""Rounds that ask a subset of the owners: in studies, in releases, between organisations, and in forecasts."""

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.errors import ExchangeError
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger
from parley.protocol.stages import make_schedule

SIZES = (300, 200, 150, 100)
STRIDES = {"a": 1, "b": 2, "c": 5, "d": 10}
UPDATES = {
    "learning__algorithm": "federated-averaging",
    "learning__local_steps": 3,
    "learning__step": "auto",
    "model__bounds": {"x0": [-1, 1], "x1": [-1, 1], "x2": [-1, 1], "y": [-3, 3]},
}


def turns_terms(turns, sizes=SIZES, horizon=12, **overrides):
    if turns == "participation":
        overrides |= {"learning__participation": 0.5, "learning__participation_seed": 3}
    terms = make_terms(*sizes, learning__horizon=horizon, **overrides)
    return terms.changed(owners={name: {"stride": s} for name, s in STRIDES.items()}) if turns == "strides" else terms


def tables(sizes=SIZES):
    return {"abcd"[i]: regression_table(n, seed=i) for i, n in enumerate(sizes)}


@pytest.mark.parametrize("turns", ["strides", "participation"])
def test_a_round_averages_those_who_are_asked_by_their_records(turns):
    """The run written out, without noise: each round the weighted mean of the gradients of those whose turn it is, no
    others."""
    terms = turns_terms(turns, epsilon=1e9)
    result = parley.train(terms, [parley.Owner(name, table) for name, table in tables().items()], seed=0)
    schedule, theta, bar, s = make_schedule(terms), np.zeros(3), np.zeros(3), 12**-0.5
    data = {name: (t[["x0", "x1", "x2"]].to_numpy(), t["y"].to_numpy()) for name, t in tables().items()}
    for k in range(1, 13):
        asked = schedule.at(k)
        assert 0 < len(asked) < 4 or k in (1, 11)
        total = sum(len(data[name][1]) for name in asked)
        gradient = np.zeros(3)
        for name in asked:
            X, y = data[name]
            residual = 2 * (X @ theta - y)
            limit = 4.0 / np.abs(X).sum(axis=1)
            gradient += np.clip(residual, -limit, limit) @ X / total
        bar = (k - 1) / (s + k) * bar + (s + 1) / (s + k) * theta
        theta = np.clip(theta - 0.2 / k**0.5 * gradient, -5, 5)
    bar = 12 / (s + 13) * bar + (s + 1) / (s + 13) * theta
    np.testing.assert_allclose(result.theta[0], bar, atol=1e-6)
    counts = [len(schedule.rounds_of(name)) for name in "abcd"]
    assert [outcome.answers for outcome in result.owners] == counts
    assert [outcome.epsilon_spent for outcome in result.owners] == [1e9] * 4


class Cut(Federation):
    """Loses the line before this round."""

    last: int

    def ask(self, questions):
        if next(iter(questions.values())).round == self.last:
            raise ExchangeError("the line broke")
        return super().ask(questions)


@pytest.mark.parametrize("turns", ["strides", "participation"])
@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6},
        UPDATES,
        {"model__holdout": 0.2, "privacy__score_epsilon": 0.2},
    ],
    ids=["laplace", "gaussian", "updates", "score"],
)
def test_a_deployed_run_takes_turns_and_goes_on_after_a_break(tmp_path, turns, overrides):
    """Every word of every owner is held against its own turns; the model is that of the stored answers, and budgets end
    whole."""
    if "privacy__score_epsilon" in overrides:
        overrides = overrides | {"model__bounds": {"y": [-2, 2]}}
    terms = turns_terms(turns, **overrides)
    delta = overrides.get("privacy__delta", 0.0)
    owners = [
        parley.Owner(name, table, ledger=Ledger(tmp_path / name, lifetime=1.0, lifetime_delta=delta))
        for name, table in tables().items()
    ]
    for owner in owners:
        owner.accept(terms)
    run, warnings = prepare_run(terms, tmp_path / "kept"), []

    def learned(kind, begin):
        federation = kind(run.setup, [LocalOwner(o) for o in owners], 20.0, warnings.append, begin.heads, begin.answers)
        federation.last = 8
        federation.fetch_statements()
        try:
            return learn(run, federation, begin)
        finally:
            federation.close()

    with pytest.raises(ExchangeError, match="the line broke"):
        learned(Cut, run.begin(resume=False))
    begin = run.begin(resume=True)
    assert begin.state.round == 8
    result, unheard = learned(Federation, begin)
    assert unheard == []
    assert warnings == []
    schedule = make_schedule(terms)
    assert [outcome.answers for outcome in result.owners] == [len(schedule.rounds_of(name)) for name in "abcd"]
    assert [outcome.epsilon_spent for outcome in result.owners] == [1.0] * 4
    for owner in owners:
        assert owner.ledger.account(terms.hash).spent == 1
        owner.ledger.verify()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)


@pytest.mark.parametrize("turns", ["strides", "participation"])
def test_the_exact_forecast_meets_the_mean_of_many_runs(turns):
    """Owners whose tables are all the pilot's: within 3 standard errors of 3,000 runs. As if all were asked always, it
    would be off."""
    table = regression_table(2000, 1)
    terms = turns_terms(turns, (2000,) * 4, horizon=20, epsilon=2.0, privacy__clip=60.0, model__radius=30.0)
    expected = parley.forecast(terms, pilot=table, resamples=2)
    assert expected.method == "exact-moments"
    runs = parley.train(terms, [parley.Owner(name, table) for name in "abcd"], replicates=3000, seed=1).path
    for k in (0, 1, 4, 10, 19):
        error = runs[k].std(ddof=1) / np.sqrt(3000)
        assert abs(runs[k].mean() - expected.path[k]) < 3 * error
    always = parley.forecast(
        turns_terms(None, (2000,) * 4, horizon=20, epsilon=2.0, privacy__clip=60.0, model__radius=30.0), table
    )
    assert abs(runs[-1].mean() - always.path[-1]) > 5 * error
