"""Networks by terms: owners on this machine learn one, it is saved, read, scored and predicted with."""

import json
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from rings import rings, rings_terms
from typer.testing import CliRunner

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

import parley  # noqa: E402
from parley.cli.app import app  # noqa: E402
from parley.errors import GuaranteeError, Malformed, ModelError, TermsError  # noqa: E402
from parley.learning.outcome import load_model  # noqa: E402
from parley.learning.owners import accepting_owners  # noqa: E402
from parley.network.exchange import messages  # noqa: E402
from parley.network.identity.settings import OwnerSettings  # noqa: E402
from parley.network.serving.offer import consider  # noqa: E402
from parley.owner.acceptance_summary import acceptance_summary  # noqa: E402
from parley.owner.warnings import find_warnings  # noqa: E402
from parley.protocol.queries import GradientQuery, Tables  # noqa: E402
from parley.protocol.setup import resolve  # noqa: E402
from parley.tasks.networks import clipping, kernels  # noqa: E402
from parley.tasks.networks.model import NetworkClassifier, NetworkRegressor  # noqa: E402
from parley.tasks.networks.question import NetworkGradientQuery  # noqa: E402
from parley.terms import write_terms  # noqa: E402

torch.set_num_threads(1)
LEARNING = {"batches": 5, "epochs": 20, "step": 2.0}


def accuracy(model, frame):
    return float(np.mean(model.predict(frame) == frame["ring"]))


@pytest.fixture(scope="module")
def result():
    terms = rings_terms({"a": 1500}, model={"holdout": 0.2}, learning=LEARNING)
    return parley.train(terms, [parley.Owner("a", rings(1500))], seed=0)


def test_rings_are_told_apart_and_the_cost_is_what_was_promised(result):
    assert isinstance(result.model, NetworkClassifier)
    assert accuracy(result.model, rings(500, 9)) > 0.9
    assert result.metrics["accuracy"] > 0.9
    assert result.owners[0].epsilon_spent == 8.0
    assert 0 < result.owners[0].clipped_share < 1
    assert result.relative_fitness is None


def test_saved_and_read_it_is_the_same_model_and_changed_weights_are_refused(result, tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed; pip install 'parley-dp[torch]'")
    file, fresh = tmp_path / "model.json", rings(50, 9)
    result.model.save(file)
    again = load_model(file)
    assert np.array_equal(again.predict_proba(fresh), result.model.predict_proba(fresh))
    assert np.array_equal(again.predict(fresh[["u", "v"]].to_numpy()), result.model.predict(fresh))
    assert again.score(fresh, fresh["ring"]) == accuracy(result.model, fresh)
    weights = tmp_path / "model.safetensors"
    blob = weights.read_bytes()
    weights.write_bytes(blob[:-1] + bytes([blob[-1] ^ 1]))
    with pytest.raises(ModelError, match=r"expected the weights that were saved with model.json"):
        load_model(file)
    weights.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        load_model(file)
    with pytest.raises(ModelError, match="another extension"):
        result.model.save(weights)


def test_numbers_are_predicted_in_their_own_units():
    terms = rings_terms({"a": 1500}, classes=False, model={"holdout": 0.2}, learning=LEARNING)
    result = parley.train(terms, [parley.Owner("a", rings(1500))], seed=0)
    assert isinstance(result.model, NetworkRegressor)
    fresh = rings(500, 9)
    error = fresh["radius"] - result.model.predict(fresh)
    assert np.mean(np.abs(error)) < 0.3
    assert result.metrics["mean_absolute_error"] == pytest.approx(np.mean(np.abs(error)), rel=0.2)


def test_one_noise_for_all_has_a_third_of_the_variance_of_three():
    """Three owners of 400 rows: the same question and the same budget, one noise or three."""
    sizes, found = dict.fromkeys("abc", 400), {}
    hosts = [{"name": f"host-{place}"} for place in range(3)]
    for noise in ("each-owner", "shared"):
        extra = {"hosts": hosts} if noise == "shared" else {}
        terms = rings_terms(sizes, 2.0, privacy={"noise": noise}, learning={"batches": 5, "epochs": 2}, **extra)
        setup = resolve(terms)
        found[noise] = setup.aggregation.noise(setup).all_together
        owners = [parley.Owner(name, rings(400, seed)) for seed, name in enumerate("abc")]
        result = parley.train(terms, owners, replicates=2, seed=0, measure=False)
        assert [owner.epsilon_spent for owner in result.owners] == [2.0] * 3
    assert found["shared"] == pytest.approx(found["each-owner"] / 3, rel=0.05)


def test_released_with_ledgers_it_is_debited_and_said_again_for_free(tmp_path):
    terms = rings_terms({"a": 200}, 1.0, learning={"batches": 4, "epochs": 2})
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=1.0, lifetime_delta="1e-5")
    owner = parley.Owner("a", rings(200), ledger=ledger)
    owner.accept(terms)
    first, second = (parley.train(terms, [owner]) for _ in range(2))
    assert first.released
    assert np.array_equal(first.theta, second.theta)
    assert ledger.account(terms.hash).spent == 1
    said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    for words in (
        "the network mlp with hidden layers of 16, 99 weights, which predicts ring from 2 columns: u, v",
        "The terms carry no code",
        "a mean over about 50 of 200 records, drawn in secret, each with probability 1/4",
        "to a norm of 1 in L2",
    ):
        assert words in said, said
    assert find_warnings(owner, owner.prepare(terms)) == []
    ledger.close()


def test_a_clip_in_linf_is_said_and_noise_grows_to_cover_it(tmp_path):
    sizes, found = {"a": 200}, {}
    for norm in ("l2", "linf"):
        terms = rings_terms(sizes, 1.0, learning={"batches": 4, "epochs": 2}, privacy={"clip_norm": norm})
        found[norm] = resolve(terms).part("a").training.series.mechanism
    assert found["linf"].sensitivity == pytest.approx(99**0.5 * found["l2"].sensitivity)  # of 99 weights
    assert found["linf"].sigma == pytest.approx(99**0.5 * found["l2"].sigma)
    owner = parley.Owner("a", rings(200), ledger=parley.Ledger(tmp_path / "a.ledger", 2.0, "1e-5"))
    said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    assert "to a norm of 1 in LINF" in said
    owner.accept(terms)
    assert parley.train(terms, [owner]).released
    owner.ledger.close()


@pytest.mark.parametrize("learning", [{}, {"algorithm": "correlated-sgd", "sampling": "partition"}])
def test_kernels_that_mix_records_are_refused_before_anything_is_reserved(tmp_path, monkeypatch, learning):
    """Of the second owner's batches alone: the first one's budget is not reserved either."""

    def mixing(computed, row, sizes, device):
        mixed = lambda rows: [each + 1e-6 * rows.sum() for each in computed(rows)]  # noqa: E731
        return kernels.sound_shapes(mixed if sizes[0] > 100 else computed, row, sizes, device)

    monkeypatch.setattr(clipping, "sound_shapes", mixing)
    terms = rings_terms(
        {"a": 80, "b": 4000}, 1.0, learning={"batches": 20, "epochs": 1} | learning, privacy={"clip": 0.37}
    )
    for name, rows in (("a", 80), ("b", 4000)):
        rings(rows, seed=rows).to_csv(tmp_path / f"{name}.csv", index=False)
    terms = terms.changed(owners={name: {"data": str(tmp_path / f"{name}.csv")} for name in "ab"})
    with pytest.raises(GuaranteeError, match="depends on other records in the batch"):
        accepting_owners(terms, tmp_path / "ledgers", 1.0, 1e-5)
    assert not (tmp_path / "ledgers").exists()
    books = tmp_path / "b.ledger"
    with closing(parley.Ledger(books, lifetime=1.0, lifetime_delta="1e-5")) as ledger:
        with pytest.raises(GuaranteeError, match="depends on other records in the batch"):
            parley.Owner("b", tmp_path / "b.csv", ledger=ledger).accept(terms)
        assert ledger.reserved == (0, 0)
    settings = OwnerSettings(name="b", table=tmp_path / "b.csv", ledger=books, accepted=tmp_path / "accepted")
    with pytest.raises(GuaranteeError, match="depends on other records in the batch"):
        consider(terms, settings)


def test_a_question_travels_as_numbers_and_an_owner_with_books_answers_it(tmp_path):
    terms = rings_terms({"a": 200}, 1.0, learning={"batches": 4, "epochs": 2})
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=1.0, lifetime_delta="1e-5")
    owner = parley.Owner("a", rings(200), ledger=ledger)
    setup = owner.accept(terms).setup
    theta = setup.objective.start(setup.preparation)
    asked = NetworkGradientQuery.ask(terms.hash, "learner", 1, theta)
    arrived = messages.read_query(messages.write_query(asked))
    assert type(arrived) is NetworkGradientQuery
    assert (arrived.id, arrived.content, arrived.theta.tobytes()) == (asked.id, asked.content, theta.tobytes())
    first, again = owner.answer(arrived), owner.answer(asked)
    assert np.array_equal(first.value, again.value)
    assert ledger.account(terms.hash).answers == 1
    ledger.close()


def test_rows_without_a_target_count_and_say_nothing():
    frame = rings(60).astype({"ring": object})
    frame.loc[::2, "ring"] = None
    setup = resolve(rings_terms({"a": 60}))
    question, theta = setup.part("a").training.question, setup.objective.start(setup.preparation)
    rows, held_out = setup.preparation.designs(frame, setup.terms, "a")
    assert (len(rows), len(held_out)) == (60, 0)
    query = NetworkGradientQuery.ask("h", "l", 1, theta)
    found = question.bounded(query, Tables(rows, held_out), seed=b"s" * 32).value
    frame[["u", "v"]] = frame[["u", "v"]].where(frame["ring"].notna(), 3.0)
    other, _ = setup.preparation.designs(frame, setup.terms, "a")
    assert np.array_equal(question.bounded(query, Tables(other, held_out), seed=b"s" * 32).value, found)
    assert found.any()


def test_a_replaced_row_of_any_doubles_moves_an_answer_by_half_the_sensitivity_when_it_is_drawn_or_not():
    """From raw tables on: the worst of random rows and points, one drawn with certainty beside one that is not."""
    setup, rng = resolve(rings_terms({"a": 4}, learning={"batches": 2})), np.random.default_rng(0)
    question = setup.part("a").training.question
    cells = [0.0, 4.0, -4.0, 1e300, -1e300, 5e-324, 1.0]
    worst = 0.0
    for _ in range(40):
        frame = rings(4, 1).assign(u=rng.choice(cells, 4), v=rng.choice(cells, 4))
        rows, _ = setup.preparation.designs(frame, setup.terms, "a")
        size = 10.0 ** rng.uniform(-2, 4) if rng.random() < 0.8 else 1e50
        theta = rng.normal(0, 1, question.parameters) * size
        query = NetworkGradientQuery.ask("h", "l", 1, np.clip(theta, -1e50, 1e50))
        question.check(query, ())
        sums = [question.gradients.clipped_sum(query.theta, rows.X[k:], rows.y[k:]) for k in (0, 1)]
        away = np.linalg.norm(sums[0] - sums[1]) * question.batches / question.records
        assert question.extent.holds(sums[0] * question.batches / question.records)
        worst = max(worst, away / (question.sensitivity / 2))
    assert 0.9 < worst <= 1


def test_other_questions_points_of_other_shapes_and_draws_without_a_secret_are_refused():
    setup = resolve(rings_terms({"a": 20}))
    question = setup.part("a").training.question
    P = question.parameters
    for query in (
        GradientQuery.ask("h", "l", 1, np.zeros(P)),
        NetworkGradientQuery.ask("h", "l", 1, np.zeros(P + 1)),
        NetworkGradientQuery.ask("h", "l", 1, np.full(P, np.nan)),
    ):
        with pytest.raises(Malformed):
            question.check(query, ())
    rows = Tables(*setup.preparation.designs(rings(20), setup.terms, "a"))
    with pytest.raises(GuaranteeError, match="a secret draw needs a seed"):
        question.bounded(NetworkGradientQuery.ask("h", "l", 1, np.zeros(P)), rows)


def asked(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_commands_train_score_and_predict(tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed; pip install 'parley-dp[torch]'")
    rings(800).to_csv(tmp_path / "a.csv", index=False)
    terms = rings_terms({"a": 800}, model={"holdout": 0.25}, learning=LEARNING)
    write_terms(terms.changed(owners={"a": {"data": str(tmp_path / "a.csv")}}), tmp_path / "terms.toml")
    words = ["train", tmp_path / "terms.toml", "--seed", 1, "--save", tmp_path / "m.json", "--json"]
    told = json.loads(asked(*words))
    assert told["metrics"]["accuracy"] > 0.8
    scored = json.loads(asked("score", tmp_path / "m.json", tmp_path / "terms.toml", "--all", "--json"))
    assert scored["owners"][0]["together"]["accuracy"] == pytest.approx(told["metrics"]["accuracy"])
    asked("predict", tmp_path / "m.json", tmp_path / "a.csv", "--out", tmp_path / "out.csv")
    assert set(pd.read_csv(tmp_path / "out.csv")["predicted_ring"]) == {"inner", "middle", "outer"}
    with pytest.raises(TermsError, match="networks cannot be forecast"):
        parley.forecast(terms)
