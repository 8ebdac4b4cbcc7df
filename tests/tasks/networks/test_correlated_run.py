"""Correlated noise by terms: owners learn with it, the first answer spends the whole budget, and accepting is put into
words."""

import json

import numpy as np
import pytest
from rings import rings, rings_terms

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

import parley  # noqa: E402
from parley.data.split import batch, shuffled  # noqa: E402
from parley.errors import Malformed, SettingError, TermsError  # noqa: E402
from parley.learning.checkpoint import Checkpoint, load_checkpoint  # noqa: E402
from parley.learning.deployed import prepare_run  # noqa: E402
from parley.learning.start import starting_point  # noqa: E402
from parley.network.exchange import messages  # noqa: E402
from parley.owner.acceptance_summary import acceptance_summary  # noqa: E402
from parley.owner.disclosure import record_leakage  # noqa: E402
from parley.owner.owner import reservation  # noqa: E402
from parley.privacy.accounting.meaning import NATS_PER_BIT, gaussian_bits  # noqa: E402
from parley.protocol.setup import resolve  # noqa: E402
from parley.tasks.networks.correlated import MixedGradientQuery, agreed_band  # noqa: E402

torch.set_num_threads(1)
LEARNING = {"algorithm": "correlated-sgd", "batches": 4, "epochs": 2}


@pytest.fixture(scope="module")
def terms():
    return rings_terms({"a": 200}, learning=LEARNING)


def test_with_hardly_any_noise_steps_are_those_of_gradients_of_fixed_batches():
    """Two owners of unequal size, momentum. An answer has noise of about 3e-4, which ten steps make at most 100 of."""
    sizes = {"a": 60, "b": 40}
    terms = rings_terms(sizes, 1e6, learning={**LEARNING, "batches": 5})
    tables = {name: rings(rows, rows) for name, rows in sizes.items()}
    result = parley.train(terms, [parley.Owner(n, t) for n, t in tables.items()], replicates=2, seed=0)
    setup = resolve(terms)
    theta, velocity = starting_point(setup), np.zeros(setup.parameters)
    for step in range(10):
        gradient = np.zeros(setup.parameters)
        for name, rows in sizes.items():
            held, _ = setup.preparation.designs(tables[name], terms, name)
            places = np.sort(batch(shuffled(rows, 0, "batches", 0), 5, step % 5))
            gradients = setup.part(name).training.question.gradients
            gradient += gradients.clipped_sum(theta, held.X, held.y, places) * 5 / 100
        velocity = 0.9 * velocity + gradient
        theta = theta - 0.5 * (1 + np.cos(np.pi * step / 10)) * velocity
    assert np.abs(result.theta - theta).max() < 0.02
    assert np.abs(theta - starting_point(setup)).max() > 0.2
    assert not np.array_equal(*result.theta)  # each replicate has noise of its own
    assert [owner.epsilon_spent for owner in result.owners] == [1e6, 1e6]
    assert all(0 < owner.clipped_share <= 1 for owner in result.owners)


def test_bits_about_a_person_follow_from_how_far_all_answers_move_together(terms):
    stage = resolve(terms).part("a").training
    numbers, moves, scale = stage.question.size, stage.question.moves, stage.series.mechanism.noise_scale
    round_by_round = 2 * sum(gaussian_bits(move, scale, numbers) for move in moves)  # of two epochs
    found = record_leakage(resolve(terms), "a").mutual_information
    assert round_by_round <= found < 1.01 * round_by_round
    assert (
        found < float(reservation(terms, "a").rho) / NATS_PER_BIT / 1.9
    )  # answers that all moved so far: 8 times as much


def test_replicates_that_would_fill_the_memory_are_refused(terms, monkeypatch):
    setup = resolve(terms)
    algorithm, origin = setup.task.algorithm(setup), starting_point(setup)
    monkeypatch.setattr(
        "parley.tasks.networks.correlated.MAX_REMEMBERED_NUMBERS", 3 * algorithm.band.width * len(origin)
    )
    assert algorithm.start(origin, (3,)).memory["asked"].shape[0] == 3
    with pytest.raises(SettingError, match="replicates = 4: expected at most 3 runs of a network of this size"):
        algorithm.start(origin, (4,))


def test_the_first_answer_spends_everything_and_what_accepting_means_is_said(terms, tmp_path):
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=9.0, lifetime_delta="1e-5", rule="zcdp")
    owner = parley.Owner("a", rings(200), ledger=ledger)
    setup = owner.accept(terms).setup
    most, reserved = ledger.rho
    assert 0 < reserved <= most
    theta = np.zeros((setup.part("a").training.question.band.width, setup.parameters))
    asked = MixedGradientQuery.ask(terms.hash, "learner", 1, theta)
    arrived = messages.read_query(messages.write_query(asked))
    assert (type(arrived), arrived.content) == (MixedGradientQuery, asked.content)
    with pytest.raises(Malformed, match="expected float64 numbers in `data`"):
        messages.read_query(messages.write_query(MixedGradientQuery.ask(terms.hash, "learner", 1, theta.ravel())))
    assert np.array_equal(owner.answer(arrived).value, owner.answer(asked).value)
    account = ledger.account(terms.hash)
    assert (account.answers, account.spent, account.epsilon) == (1, 8, 8)
    said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    for words in (
        "8 answers, each a mean over 50 of 200 records, in a fixed batch, mixed with the means of 3 earlier rounds",
        "The first answer spends the whole ε = 8 at δ = 1e-05. Nothing is refunded",
        "The record is always in the same batch, and everybody knows the rounds of this batch",
        "replacing a record moves all answers together by at most",
    ):
        assert words in said, said
    ledger.close()


def test_a_release_is_debited_once_and_said_again_for_free(terms, tmp_path):
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=8.0, lifetime_delta="1e-5")
    owner = parley.Owner("a", rings(200), ledger=ledger)
    owner.accept(terms)
    first, second = (parley.train(terms, [owner]) for _ in range(2))
    assert first.released
    assert np.array_equal(first.theta, second.theta)
    assert (ledger.account(terms.hash).answers, ledger.account(terms.hash).spent) == (8, 8)
    ledger.close()


def test_what_parties_must_resolve_alike_names_the_diagonals(terms):
    found = resolve(terms).numbers.arrays
    assert (found["bound"].tolist(), found["diagonals"].tolist()) == ([1.0], [4.0])


def test_questions_are_no_longer_than_agreed_and_networks_too_large_for_two_rounds_are_refused(terms):
    assert agreed_band(terms.learning, 1 << 17).width == 4
    assert agreed_band(terms.learning, (1 << 17) + 1).width == 3
    with pytest.raises(TermsError, match="expected at most 262,144 weights with correlated-sgd"):
        agreed_band(terms.learning, (1 << 18) + 1)


def test_a_checkpoint_without_what_was_asked_and_solved_is_refused(terms, tmp_path):
    run = prepare_run(terms, tmp_path / "terms.checkpoint")
    assert run.start.memory.keys() == {"velocity", "asked", "solved"}
    Checkpoint(terms.hash, run.start, {}, {}).save(run.checkpoint)
    assert load_checkpoint(run.checkpoint, terms, run.start).state.memory["asked"].shape == (3, 99)
    for lost in ("asked", "solved"):
        memory = {name: array for name, array in run.start.memory.items() if name != lost}
        state = type(run.start)(1, run.start.theta, memory)
        Checkpoint(terms.hash, state, {}, {}).save(run.checkpoint)
        assert lost not in json.loads(run.checkpoint.read_text())["memory"]
        with pytest.raises(SettingError, match="not a Parley checkpoint"):
            run.begin(resume=True)
