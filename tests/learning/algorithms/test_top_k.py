"""FedLin of whose released gradients some numbers travel: nothing costs more, and messages are shorter."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federated import FAMILY, Quiet, different_tables, family_terms, optimum, quiet_run

import parley
from parley.errors import ContradictionError, Malformed, OutOfOrder, TermsError
from parley.learning.deployed import learn, prepare_run
from parley.learning.outcome.notices import Watch
from parley.network.exchange import messages
from parley.network.exchange.answer_checks import Scrutiny
from parley.network.exchange.federation import Federation
from parley.network.exchange.remote import LocalOwner
from parley.owner.ledger import Ledger
from parley.protocol.queries import Answer, CorrectedQuery
from parley.protocol.queries.update import packed, unpacked
from parley.protocol.setup import resolve

TABLES = different_tables()
STEPS = {"learning__local_steps": 8, "learning__horizon": 200}


class Sending(Quiet):
    """Owners without noise that send what by the terms travels."""

    def answered(self, name, query):
        answer = super().answered(name, query)
        question = self.agreements[name].part.stage(query.round).question
        return replace(answer, value=question.sent(query, answer.value))


def far(**keys):
    theta, _ = quiet_run(family_terms("fedlin", **STEPS | keys), TABLES, Sending)
    return float(np.linalg.norm(theta - optimum(TABLES)))


def test_theta_rests_at_the_optimum_whatever_stays_behind_for_a_while():
    averaged, _ = quiet_run(family_terms("federated-averaging", **STEPS), TABLES)
    assert far(learning__top_k=1) < 1e-6 < np.linalg.norm(averaged - optimum(TABLES)) / 100
    assert far(learning__top_k=2) == far()  # two numbers and their places are longer than all three


def test_budgets_noise_and_books_are_those_without_it(tmp_path):
    """The ledger holds the whole answer as it was released; what is sent is made of it."""
    spent, noise = [], []
    for kept in (None, 1):
        terms = family_terms("fedlin", learning__top_k=kept, learning__horizon=4, epsilon=2.0)
        owners = [
            parley.Owner(name, table, ledger=Ledger(tmp_path / f"{name} {kept}.ledger", 2.0, 1e-4))
            for name, table in TABLES.items()
        ]
        for owner in owners:
            owner.accept(terms, other_books="compared")
        result = parley.train(terms, owners)
        spent.append([(each.epsilon_spent, each.answers) for each in result.owners])
        parts = [resolve(terms).part(owner.name).training for owner in owners]
        noise.append([(part.question.sensitivity, part.series.mechanism.noise_scale) for part in parts])
        query = CorrectedQuery.ask(terms.hash, "learner", 1, np.zeros(3), np.zeros(3), 0)
        sizes = {owner.answer(query).value.shape for owner in owners}  # stored: no further debit
        assert sizes == {(3,) if kept is None else (2,)}
        assert [owner.ledger.account(terms.hash).answers for owner in owners] == [4, 4, 4]
        for owner in owners:
            owner.ledger.close()
    assert spent[0] == spent[1]
    assert noise[0] == noise[1]


def test_answers_are_shorter_on_the_wire():
    """Of P = 200 numbers 10 travel, with their places: 1,600 bytes of numbers become 160."""
    query = CorrectedQuery.ask("ab" * 32, "learner", 1, np.zeros(200), np.zeros(200), 0)
    answer = parley.protocol.queries.Answer(query.id, "a", 40, np.linspace(-1, 1, 200))
    statement = messages.AccountStatement(1, 0, 1, 4)
    full = messages.write_answer(answer, statement)
    part = messages.write_answer(replace(answer, value=packed(answer.value, query.correction, 10)), statement)
    assert len(part) < len(full) - 1400
    got = messages.read_answer(part, query, "a", 40, 20).answer.value
    np.testing.assert_array_equal(unpacked(got, query.correction)[-5:], answer.value[-5:])


def test_places_that_are_none_are_refused():
    terms = family_terms("fedlin", learning__top_k=1)
    rules = Scrutiny(resolve(terms).part("a"), gaps=False)
    query = CorrectedQuery.ask(terms.hash, "learner", 1, np.zeros(3), np.zeros(3), 0)
    assert rules.expected(query) == (40, 2)
    rules.check_value(query, np.array([2.0, 0.1]))
    for places in ([0.0, 3.0], [-1.0, 1.0], [1.0, 1.0], [2.0, 0.0], [0.5, 1.0], [0.0, np.nan]):
        with pytest.raises(Malformed):
            unpacked(np.array([*places, 0.0, 0.0]), np.zeros(3))
    with pytest.raises(ContradictionError, match="cannot be read"):
        rules.check_value(query, np.array([3.0, 0.0]))
    with pytest.raises(ContradictionError, match="larger than the agreed bound"):
        rules.check_value(query, np.array([0.0, 1e9]))
    local = CorrectedQuery.ask(terms.hash, "learner", 2, np.zeros(3), np.zeros(3), 5)
    assert rules.expected(local) == (40, 3)


def test_nobody_is_named_for_the_places_of_its_numbers():
    """Eleven columns: a place would be a huge number for a gradient."""
    columns = [f"x{k}" for k in range(11)]
    rng = np.random.default_rng(0)
    tables = {name: pd.DataFrame(rng.uniform(-1, 1, (40, 12)), columns=[*columns, "y"]) for name in "ab"}
    bounds = {column: [-1, 1] for column in columns} | {"y": [-3, 3]}
    keys = {"model__features": columns, "model__bounds": bounds, "learning__top_k": 3, "learning__horizon": 4}
    terms = family_terms("fedlin", 40, 40, epsilon=1e4, **keys)
    result = parley.train(terms, [parley.Owner(name, table) for name, table in tables.items()], replicates=5, seed=1)
    assert result.notices == ()


def test_parts_that_nothing_explains_name_their_owner():
    """One far beyond bound and noise; and eight rounds of parts that each pass, and together do not. Rounds as large
    as the bound name nobody, and no spread is stated."""
    setup = resolve(family_terms("fedlin", learning__top_k=1, learning__horizon=16, epsilon=500.0))
    bound = setup.part("a").training.question.extent.size

    def named(size, rounds):
        watch, parts = Watch(setup), {"a": [2.0, size], "b": [0.0, 0.0]}
        for _ in range(rounds):
            watch.hear([Answer("q", name, 40, np.array([part])) for name, part in parts.items()])
        return {(notice.owner, notice.reason) for notice in watch.notices()}

    most = Watch(setup)._extents["a"].high
    assert named(1e9, 1) >= {("a", "an answer")}
    assert named(bound + 0.9 * (most - bound), 8) == {("a", "all answers")}
    assert named(bound, 8) == set()
    with pytest.raises(TermsError, match="their answers cannot be compared"):  # parts at other places would lie apart
        setup.terms.changed(aggregation={"rule": "mean", "spread": 1e-9})


def test_nobody_fishes_for_other_places_by_asking_again(tmp_path):
    """A round is one question: with another reference it is refused, and costs nothing."""
    terms = family_terms("fedlin", learning__top_k=1, learning__horizon=4)
    ledger = Ledger(tmp_path / "a", lifetime=1.0, lifetime_delta=1e-6)
    owner = parley.Owner("a", TABLES["a"], ledger=ledger)
    owner.accept(terms)
    query = CorrectedQuery.ask(terms.hash, "learner", 1, np.zeros(3), np.zeros(3), 0)
    first, spent = owner.answer(query), ledger.account(terms.hash).spent
    for held in ([0.1, 0.0, 0.0], [0.0, 5e-324, 0.0], [-0.0, 0.0, 0.0]):
        with pytest.raises(OutOfOrder):
            owner.answer(CorrectedQuery.ask(terms.hash, "learner", 1, np.zeros(3), np.array(held), 0))
    assert ledger.account(terms.hash).spent == spent
    np.testing.assert_array_equal(owner.answer(query).value, first.value)
    ledger.close()


@pytest.mark.parametrize("name", [name for name in FAMILY if name != "fedlin"])
def test_elsewhere_answers_would_be_cut_before_their_noise(name):
    with pytest.raises(TermsError, match="before noise is added"):
        family_terms(name, learning__top_k=2)


def test_it_goes_with_its_algorithm_and_not_with_one_noise():
    terms = family_terms("fedlin", learning__top_k=2)
    assert terms.changed(learning={"algorithm": "scaffold"}).learning.top_k is None
    with pytest.raises(TermsError, match="each-owner"):
        terms.changed(privacy={"noise": "shared"}, hosts=["a", "b", "c"])


def test_a_study_has_replicates_as_ever():
    terms = family_terms("fedlin", learning__top_k=1, learning__horizon=4, epsilon=50.0)
    result = parley.train(terms, [parley.Owner(name, table) for name, table in TABLES.items()], replicates=3, seed=1)
    assert result.theta.shape == (3, 3)
    assert len({*result.theta[:, 0]}) == 3


def test_over_a_federation_it_is_the_model_of_the_stored_answers(tmp_path):
    terms = family_terms("fedlin", learning__top_k=1, learning__horizon=6)
    owners = [
        parley.Owner(name, table, ledger=Ledger(tmp_path / name, lifetime=1.0, lifetime_delta=1e-6))
        for name, table in TABLES.items()
    ]
    for owner in owners:
        owner.accept(terms)
    run = prepare_run(terms, tmp_path / "kept")
    begin = run.begin(resume=False)
    federation = Federation(run.setup, [LocalOwner(o) for o in owners], 20.0, pytest.fail, begin.heads, begin.answers)
    federation.fetch_statements()
    result, _ = learn(run, federation, begin)
    federation.close()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)
    assert [owner.ledger.account(terms.hash).spent for owner in owners] == [1, 1, 1]
    for owner in owners:
        owner.ledger.close()
