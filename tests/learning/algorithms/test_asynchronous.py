"""Answers used as they come: where it ends, whom it asks what, and what it costs."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from federated import Quiet, different_tables, optimum
from samples import class_table, make_terms, regression_table

import parley
from parley.errors import ExchangeError, SettingError, TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.asynchronous import (
    POINT,
    STEP,
    AsynchronousDescent,
    on_virtual_clock,
    run_asynchronously,
)
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.start import starting_point
from parley.network.exchange.in_process import VirtualClock, read_speeds
from parley.owner.ledger import Ledger

SIZES = (40, 60, 100)


def async_terms(*sizes, answers=None, **overrides):
    """Terms of owners a, b, ... whose answers are used as they come."""
    usual = {"learning__algorithm": "gradient-descent", "learning__decay": 0.0, "learning__staleness": 1000}
    terms = make_terms(*(sizes or SIZES), **usual | overrides)
    return terms.changed(owners={name: {"answers": count} for name, count in (answers or {}).items()})


def quiet_run(terms, tables, speeds, make=lambda algorithm: algorithm):
    """(where a run without noise ends, the algorithm, its exchange)."""
    agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in tables.items()}
    setup = agreements["a"].setup
    algorithm, asked = make(make_algorithm(setup)), Quiet(agreements)
    begin = algorithm.start(starting_point(setup))
    return (
        run_asynchronously(algorithm, on_virtual_clock(asked, setup.schedule, speeds), Asker.from_setup(setup), begin),
        algorithm,
        asked,
    )


class NaiveDescent(AsynchronousDescent):
    """A mutant: a step along every answer, so that whoever answers often counts often."""

    def step_from(self, state, answer):
        return {f"{STEP} of {name}": state.theta - self.step * answer.value for name in self.names}


SPEEDS = [{"a": 1, "b": 1, "c": 1}, {"a": 8, "b": 3, "c": 1}, {"a": 1, "b": 4, "c": 8}]


@pytest.mark.parametrize("speeds", SPEEDS)
def test_it_ends_at_the_joint_optimum_however_fast_owners_are(speeds):
    """Heterogeneous quadratics, no noise. Every owner gives answers until the slowest has given 120."""
    tables = different_tables(SIZES)
    answers = {name: 120 * speed for name, speed in speeds.items()}
    terms = async_terms(answers=answers, learning__horizon=max(answers.values()), learning__step=1.5, privacy__clip=1e3)
    final, algorithm, _ = quiet_run(terms, tables, speeds)
    np.testing.assert_allclose(algorithm.model(final), optimum(tables), rtol=0, atol=1e-8)
    naive, mutant, _ = quiet_run(terms, tables, speeds, lambda found: NaiveDescent(**vars(found)))
    assert np.abs(mutant.model(naive) - optimum(tables)).max() > 1e-3


class Leaning(AsynchronousDescent):
    """A mutant: follows the model without taking off where it stood when the owner was asked."""

    def step_from(self, state, answer):
        point = state.memory[f"{POINT} of {answer.owner}"]
        return {f"{STEP} of {answer.owner}": point - self.step * answer.value}


@pytest.mark.parametrize("speeds", SPEEDS)
def test_with_a_public_sample_old_answers_follow_the_model_and_it_ends_there_all_the_same(tmp_path, speeds):
    """The sample has a law of its own, with columns that go together: owners' costs have up to twice the curvature that
    it shows."""
    tables = different_tables(SIZES)
    drawn = np.random.default_rng(1).uniform(-1, 1, (400, 3))
    spread = pd.DataFrame(drawn @ [[0.8, 0.5, 0.0], [0.0, 0.7, 0.3], [0.0, 0.0, 0.6]], columns=["x0", "x1", "x2"])
    spread.assign(y=spread["x0"]).to_csv(tmp_path / "public.csv", index=False)
    answers = {name: 60 * speed for name, speed in speeds.items()}
    keys = {"learning__horizon": max(answers.values()), "learning__step": "auto", "privacy__clip": 1e3}
    terms = async_terms(answers=answers, model__public=str(tmp_path / "public.csv"), **keys)
    agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in tables.items()}
    best = agreements["a"].setup.objective.optimum([agreement.tables.train for agreement in agreements.values()], 5.0)
    final, algorithm, _ = quiet_run(terms, tables, speeds)
    assert np.abs(algorithm.follow).max() > 0.1
    np.testing.assert_allclose(algorithm.model(final), best, rtol=0, atol=1e-8)
    wrong, mutant, _ = quiet_run(terms, tables, speeds, lambda found: Leaning(**vars(found)))
    assert np.abs(mutant.model(wrong) - best).max() > 1e-3


def test_following_saves_answers_of_the_slow_owner(tmp_path):
    """A direction of a fiftieth of another's curvature: after five answers of the slow one, a tenth of the error at
    most."""
    rng, tables = np.random.default_rng(0), {}
    for name in "ab":
        x0 = rng.normal(size=200)
        X = np.column_stack([x0, x0 + 0.3 * rng.normal(size=200), rng.normal(size=200)])
        tables[name] = pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(
            y=X @ [2.0, -1.5, 1.0] + 0.1 * rng.normal(size=200)
        )
    pd.concat(tables.values()).sample(150, random_state=0).to_csv(tmp_path / "public.csv", index=False)
    keys = {"learning__horizon": 400, "learning__step": "auto", "privacy__clip": 1e3, "model__radius": 50.0}
    terms = async_terms(200, 200, answers={"b": 5}, model__public=str(tmp_path / "public.csv"), **keys)
    agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in tables.items()}
    best = agreements["a"].setup.objective.optimum([agreement.tables.train for agreement in agreements.values()], 50.0)
    ends = [quiet_run(terms, tables, None, make)[0].theta for make in (lambda a: a, lambda a: replace(a, follow=None))]
    follows, stays = (float(np.abs(end - best).max()) for end in ends)
    assert follows < 0.1 * stays


@pytest.mark.parametrize("kind", ["logistic-regression", "softmax-regression", "least-squares-classes"])
def test_classes_follow_too(tmp_path, kind):
    """The same for costs with several classes, each of which has its own block of the parameters."""
    rng, tables = np.random.default_rng(2), {name: class_table(150, seed=place) for place, name in enumerate("abc")}
    sample = class_table(200, seed=9).assign(x1=lambda table: table["x0"] + 0.5 * rng.normal(size=200))
    sample.to_csv(tmp_path / "public.csv", index=False)
    speeds = {"a": 4, "b": 2, "c": 1}
    model = {"kind": kind, "public": str(tmp_path / "public.csv"), "regularisation": 0.05, "radius": 20.0}
    terms = async_terms(150, 150, 150, learning__horizon=640, learning__step="auto", privacy__clip=1e3)
    terms = terms.changed(model=model, owners={name: {"answers": 160 * speed} for name, speed in speeds.items()})
    agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in tables.items()}
    objective = agreements["a"].setup.objective
    start = objective.start(agreements["a"].setup.preparation)
    best = objective.optimum([agreement.tables.train for agreement in agreements.values()], 20.0, start=start)
    final, algorithm, _ = quiet_run(terms, tables, speeds)
    assert np.abs(algorithm.follow).max() > 0.1
    np.testing.assert_allclose(algorithm.model(final), best, rtol=0, atol=1e-6)


def test_equal_speeds_with_everybody_heard_are_gradient_descent():
    """Once all owners answered at the point where a round began, the model is that of the round."""
    tables, terms = different_tables(SIZES), async_terms(learning__horizon=1, privacy__clip=1e3)
    final, _, _ = quiet_run(terms, tables, None)
    waited = terms.changed(learning={"staleness": None})
    owners = [parley.Owner(name, table) for name, table in tables.items()]
    agreements = {owner.name: owner.prepare(waited) for owner in owners}
    algorithm, exchange = make_algorithm(agreements["a"].setup), Quiet(agreements)
    start = algorithm.start(np.zeros(3))
    answers = exchange.ask(algorithm.questions(start, Asker.from_setup(agreements["a"].setup)))
    step = sum(answer.records * answer.value for answer in answers) / sum(answer.records for answer in answers)
    np.testing.assert_allclose(final.theta, algorithm.update(start, step).theta, rtol=1e-14)


def test_noise_is_for_an_owners_own_number_of_answers_and_budgets_end_exactly_spent():
    terms = async_terms(40, 40, answers={"b": 2}, learning__horizon=20)
    owners = [parley.Owner(name, regression_table(40, seed=place)) for place, name in enumerate("ab")]
    setup = owners[0].prepare(terms).setup
    loud, quiet = (setup.part(name).training.series.mechanism.variance for name in "ab")
    assert loud / quiet == pytest.approx(100, rel=1e-6)  # Laplace: a tenth of the answers, a tenth of the noise
    result = parley.train(terms, owners, replicates=3, seed=1, speeds={"a": 20, "b": 1})
    assert [(o.answers, o.late, o.epsilon_spent) for o in result.owners] == [(20, 0, 1.0), (2, 0, 1.0)]
    again = parley.train(terms, owners, replicates=3, seed=1, speeds={"a": 20, "b": 1})
    np.testing.assert_array_equal(result.theta, again.theta)
    assert result.path.shape == (22, 3)


def test_an_answer_that_is_too_old_is_dropped_and_paid_for(tmp_path):
    """b takes as long as a takes for 10 answers, and the model may be 4 versions further: none of b's answers is
    used."""
    terms = async_terms(40, 40, answers={"b": 2}, learning__horizon=20, learning__staleness=4)
    owners = [
        parley.Owner(name, regression_table(40, seed=k), ledger=Ledger(tmp_path / name, lifetime=1.0))
        for k, name in enumerate("ab")
    ]
    for owner in owners:
        owner.accept(terms)
    result = parley.train(terms, owners, speeds={"a": 10, "b": 1})
    assert [(o.name, o.answers, o.late, o.epsilon_spent) for o in result.owners] == [
        ("a", 20, 0, 1.0),
        ("b", 0, 2, 1.0),
    ]
    for owner in owners:
        account = owner.ledger.account(terms.hash)
        assert (account.spent, account.answers) == (1, {"a": 20, "b": 2}[owner.name])
    entries = owners[1].ledger.head
    repeated = parley.train(terms, owners, speeds={"a": 10, "b": 1})  # a release that is run again costs nothing more
    np.testing.assert_array_equal(repeated.theta, result.theta)
    assert owners[1].ledger.head == entries
    alone = async_terms(40, 40, answers={"b": 2}, learning__horizon=20, learning__staleness=100)
    assert alone.hash != terms.hash


def test_who_never_answers_spends_nothing_and_counts_for_nothing():
    """The run ends; the model is that of the others."""
    tables = different_tables(SIZES)
    terms = async_terms(answers={"a": 100}, learning__horizon=200, learning__step=1.5, privacy__clip=1e3)
    final, algorithm, _ = quiet_run(terms, tables, {"a": 1, "b": 2, "c": 0})
    heard = {name: table for name, table in tables.items() if name != "c"}
    np.testing.assert_allclose(algorithm.model(final), optimum(heard), atol=1e-8)
    owners = [parley.Owner(name, table) for name, table in tables.items()]
    result = parley.train(terms, owners, seed=0, speeds={"a": 1, "b": 2, "c": 0}, whole_path=False)
    assert [o.epsilon_spent for o in result.owners] == [1.0, 1.0, 0.0]
    assert [o.answers for o in result.owners] == [100, 200, 0]
    with pytest.raises(ExchangeError, match="there is no model"):
        parley.train(terms, owners, seed=0, speeds=dict.fromkeys("abc", 0))


class Twice(VirtualClock):
    """Delivers every answer a second time, when another one is due."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._again, self.repeated = [], 0

    def receive(self):
        if self._again:
            self.repeated += 1
            return self._again.pop()
        answer = super().receive()
        self._again += [] if answer is None else [answer]
        return answer


def test_an_answer_that_comes_twice_is_used_once(tmp_path):
    terms = async_terms(40, 40, answers={"b": 3}, learning__horizon=12)
    speeds = read_speeds(("a", "b"), {}, {"a": 4, "b": 1})
    ends, debits = [], []
    for kind in (VirtualClock, Twice):
        owners = [parley.Owner(n, regression_table(40, seed=k)).simulate(k, 2) for k, n in enumerate("ab")]
        for owner in owners:
            owner.accept(terms)
        setup = owners[0].agreement(terms.hash).setup
        algorithm, clock = make_algorithm(setup), kind(parley.network.exchange.InProcess(owners), speeds)
        begin = algorithm.start(np.zeros(3), (2,))
        ends.append(run_asynchronously(algorithm, clock, Asker.from_setup(setup), begin))
        debits.append([owner.ledger.account(terms.hash) for owner in owners])
    assert clock.repeated >= 14
    np.testing.assert_array_equal(ends[0].theta, ends[1].theta)
    assert [end.round for end in ends] == [16, 16]
    assert debits[0] == debits[1]
    assert [(account.spent, account.answers) for account in debits[1]] == [(1, 12), (1, 3)]


def test_no_order_of_arrivals_asks_an_owner_more_often_or_out_of_turn():
    """Whatever comes when: every owner's questions are its own rounds 1, 2, ... up to its number, and the refusal of
    more is its own."""
    tables, rng = different_tables(SIZES), np.random.default_rng(3)
    answers = {"a": 5, "b": 9, "c": 2}
    terms = async_terms(answers=answers, learning__horizon=9, learning__staleness=2)

    class AnyOrder(VirtualClock):
        def receive(self):
            if not self._due:
                return None
            _, _, name, query = self._due.pop(int(rng.integers(len(self._due))))
            return self._exchange.ask({name: query})[0]

    for _ in range(20):
        agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in tables.items()}
        setup = agreements["a"].setup
        asked, algorithm = Quiet(agreements), make_algorithm(setup)
        clock = AnyOrder(asked, dict.fromkeys("abc", Fraction(1)))
        run_asynchronously(algorithm, clock, Asker.from_setup(setup), algorithm.start(np.zeros(3)))
        rounds = {name: [q.round for each in asked.asked for n, q in each.items() if n == name] for name in "abc"}
        assert rounds == {name: list(range(1, count + 1)) for name, count in answers.items()}
    part = setup.part("c")
    query = algorithm.question(algorithm.start(np.zeros(3)), Asker.from_setup(setup), "c")
    with pytest.raises(parley.errors.OutOfOrder, match="the last round for c is 2"):
        part.check(replace(query, round=3), ())


def test_averages_count_versions():
    tables = different_tables(SIZES)
    terms = async_terms(learning__horizon=8, learning__average="all", privacy__clip=1e3)
    seen = []
    agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in tables.items()}
    setup = agreements["a"].setup
    algorithm = make_algorithm(setup)
    final = run_asynchronously(
        algorithm,
        on_virtual_clock(Quiet(agreements), setup.schedule),
        Asker.from_setup(setup),
        algorithm.start(np.zeros(3)),
        lambda state, answers: seen.append(state.theta),
    )
    np.testing.assert_allclose(algorithm.model(final), np.mean(seen, axis=0), rtol=1e-12)


REFUSED = [
    ({"learning__algorithm": "averaged-subgradient", "learning__decay": None}, "only 'gradient-descent' uses answers"),
    ({"learning__decay": 0.5}, "learning.decay: expected 0.0"),
    ({"learning__decay": None}, "learning.decay: expected 0.0"),
    ({"learning__momentum": 0.5}, "learning.momentum: not allowed"),
    ({"learning__participation": 0.5}, "not allowed with participation or strides"),
    ({"learning__staleness": -1}, "expected a number >= 0"),
    ({"learning__staleness": 1.5}, "a whole number"),
    ({"learning__staleness": 1}, "expected at least 2, the number of owners minus one"),
    ({"learning__horizon": 10**6}, "all owners together may give at most"),
    (
        {"privacy__noise": "shared", "privacy__delta": 1e-6},
        "shared noise needs all answers",
    ),
]


@pytest.mark.parametrize(("keys", "sentence"), REFUSED)
def test_what_does_not_go_with_it_is_refused(keys, sentence):
    with pytest.raises(TermsError, match=sentence):
        async_terms(**keys)


def test_numbers_of_answers_belong_to_asynchronous_terms():
    with pytest.raises(TermsError, match=r"owners.answers: expected at most learning.horizon"):
        async_terms(answers={"a": 11})
    with pytest.raises(TermsError, match=r"owners.answers: allowed only with learning.staleness"):
        make_terms(40, 40).changed(owners={"a": {"answers": 3}})
    terms = async_terms(answers={"a": 3})
    waits = terms.changed(learning={"algorithm": "averaged-subgradient", "decay": None})
    assert (waits.learning.waits, waits.owner("a").answers) == (True, None)
    assert terms.changed(learning={"staleness": None}).owner("a").answers is None
    assert "answers" not in make_terms(40, 40).canonical
    assert "staleness" not in make_terms(40, 40).canonical
    with pytest.raises(SettingError, match=r"speeds: allowed only with learning\.staleness"):
        parley.train(waits, [], speeds={"a": 1})


def test_speeds_that_nobody_has_are_refused():
    owners = [parley.Owner(name, table) for name, table in different_tables(SIZES).items()]
    for speeds, sentence in (
        ({"z": 1}, "the terms have no owner 'z'"),
        ({"a": -1}, "a = -1"),
        ({"a": float("nan")}, "a = nan"),
    ):
        with pytest.raises(SettingError, match=sentence):
            parley.train(async_terms(), owners, speeds=speeds)
