"""Federated algorithms on networks: what a plain PyTorch loop computes, and what every local step costs."""

import json
import math
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from rings import rings, rings_content, rings_terms
from scipy.optimize import brentq
from scipy.stats import norm

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

import parley  # noqa: E402
from parley.errors import ContradictionError, Malformed, TermsError  # noqa: E402
from parley.network.exchange import messages  # noqa: E402
from parley.network.exchange.answer_checks import Scrutiny  # noqa: E402
from parley.owner.acceptance_summary import acceptance_summary  # noqa: E402
from parley.privacy.mechanisms import FastNoise  # noqa: E402
from parley.protocol.setup import resolve  # noqa: E402
from parley.tasks.networks.local_steps import (  # noqa: E402
    CorrectedNetworkUpdateQuery,
    NetworkUpdateQuery,
    NetworkUpdateQuestion,
)

torch.set_num_threads(1)
HOSTS = [{"name": f"host-{place}"} for place in range(3)]


class Silent(FastNoise):
    """No noise at all."""

    safe = True  # so that studies keep it

    def gaussian(self, value, sigma):
        return np.array(value)


def local_terms(algorithm, sizes=None, epsilon=8.0, **sections):
    learning = {"algorithm": algorithm, "batches": None, "epochs": None, "horizon": 4, "local_steps": 3, "step": 0.5}
    learning |= sections.pop("learning", {})
    return rings_terms(sizes or {"a": 60}, epsilon, learning=learning, **sections)


def quiet_run(terms, tables):
    owners = [parley.Owner(name, table, noise=Silent(0)) for name, table in tables.items()]
    return parley.train(terms, owners, seed=0, measure=False).theta[0]


class Loop:
    """Plain gradient descent in PyTorch, which shares no code with the owners'."""

    def __init__(self, terms, tables):
        setup = resolve(terms)
        self.theta = torch.tensor(setup.objective.start(setup.preparation))
        self.data = {name: self.tensors(table) for name, table in tables.items()}

    @staticmethod
    def tensors(table):
        rows = torch.tensor(table[["u", "v"]].to_numpy() / 4)
        return rows, torch.tensor([["inner", "middle", "outer"].index(each) for each in table["ring"]])

    def gradient(self, name, theta):
        rows, classes = self.data[name]
        theta = theta.clone().requires_grad_()
        first, bias, second, last = theta.split([32, 16, 48, 3])
        hidden = torch.tanh(rows @ first.reshape(16, 2).T + bias)
        said = hidden @ second.reshape(3, 16).T + last
        torch.nn.functional.cross_entropy(said, classes).backward()
        return theta.grad

    def walked(self, name, steps, length, proximal=0.0, correction=0.0):
        w = self.theta.clone()
        for _ in range(steps):
            w = w - length * (self.gradient(name, w) + correction + proximal * (w - self.theta))
        return w


def cosine(step, steps):
    return (1 + math.cos(math.pi * step / steps)) / 2


@pytest.mark.parametrize(("algorithm", "proximal"), [("federated-averaging", 0.0), ("fedprox", 0.7)])
def test_without_noise_local_steps_are_those_of_a_plain_loop(algorithm, proximal):
    """Two owners, one of them with steps of its own; nothing is clipped."""
    tables = {"a": rings(60, 1), "b": rings(30, 2)}
    learning = {"proximal": proximal} if proximal else {}
    terms = local_terms(algorithm, {"a": 60, "b": 30}, learning=learning, privacy={"clip": 1e6})
    for own in ({}, {"b": {"local_steps": 5, "step": 0.2}}):
        agreed, loop = terms.changed(owners=own), Loop(terms, tables)
        for place in range(4):
            share = cosine(place, 4)
            ends = [
                loop.walked("a", 3, 0.5 * share, proximal),
                loop.walked("b", 5, 0.2 * share, proximal) if own else loop.walked("b", 3, 0.5 * share, proximal),
            ]
            loop.theta = (60 * ends[0] + 30 * ends[1]) / 90
        assert quiet_run(agreed, tables) == pytest.approx(loop.theta.numpy(), abs=2e-6)


def test_without_noise_one_owner_descends():
    tables = {"a": rings(60, 1)}
    terms = local_terms("federated-averaging", privacy={"clip": 1e6})
    loop = Loop(terms, tables)
    for place in range(4):
        loop.theta = loop.walked("a", 3, 0.5 * cosine(place, 4))
    assert quiet_run(terms, tables) == pytest.approx(loop.theta.numpy(), abs=2e-6)
    assert np.abs(loop.theta.numpy() - Loop(terms, tables).theta.numpy()).max() > 0.05


def test_without_noise_corrected_steps_are_those_of_a_plain_loop():
    tables = {"a": rings(60, 1), "b": rings(30, 2)[lambda f: f["ring"] != "inner"].head(15)}
    terms = local_terms("fedlin", {"a": 60, "b": 15}, learning={"horizon": 6}, privacy={"clip": 1e6})
    terms, loop = terms.changed(owners={"b": {"local_steps": 6}}), Loop(terms, tables)
    for place in range(3):
        g = {name: loop.gradient(name, loop.theta) for name in "ab"}
        average, share = (60 * g["a"] + 15 * g["b"]) / 75, cosine(place, 3)
        ends = [
            loop.walked("a", 3, 0.5 * share, correction=average - g["a"]),
            loop.walked("b", 6, 0.25 * share, correction=average - g["b"]),
        ]
        loop.theta = (60 * ends[0] + 15 * ends[1]) / 75
    assert quiet_run(terms, tables) == pytest.approx(loop.theta.numpy(), abs=2e-6)


@pytest.mark.parametrize("optimiser", ["plain", "momentum", "adam"])
def test_with_one_local_step_it_is_todays_run_to_the_bit(optimiser):
    tables, learning = [parley.Owner("a", rings(80))], {"batches": 4, "optimiser": optimiser}
    usual = rings_terms({"a": 80}, learning=learning | {"epochs": 3})
    local = local_terms(
        "federated-averaging", {"a": 80}, learning=learning | {"horizon": 12, "local_steps": 1, "step": 1.0}
    )
    runs = [parley.train(terms, tables, seed=3, replicates=2, measure=False) for terms in (usual, local)]
    assert np.array_equal(runs[0].theta, runs[1].theta)
    assert resolve(usual).part("a").training.series == resolve(local).part("a").training.series


def theirs(event, count, delta):
    """dp_accounting's epsilon of so many releases, which know nothing of rounds; a replacement moves two clips."""
    accountant = PLDAccountant(NeighboringRelation.REPLACE_ONE, value_discretization_interval=5e-4)
    noise = GaussianDpEvent(event.multiplier * 2) if event.sampling < 1 else GaussianDpEvent(event.multiplier)
    if event.sampling < 1:
        accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(event.sampling, noise), count))
        return float(accountant.get_epsilon(delta))
    special = PLDAccountant(NeighboringRelation.REPLACE_SPECIAL, value_discretization_interval=5e-4)
    special.compose(SelfComposedDpEvent(noise, count))
    return float(special.get_epsilon(delta))


CASES = [  # algorithm, batches, releases by round
    ("federated-averaging", 4, [3, 3, 3, 3]),
    ("fedprox", None, [3, 3, 3, 3]),
    ("fedlin", 4, [1, 3, 1, 3]),
]


def charges_by_the_round(series, releases, delta):
    """Whether the noise costs what is promised: every local step composed, as dp_accounting counts."""
    return theirs(series.event, sum(releases), delta) == pytest.approx(float(series.epsilon), rel=4e-3)


@pytest.mark.parametrize(("algorithm", "batches", "releases"), CASES)
def test_every_local_step_is_charged(algorithm, batches, releases, tmp_path, monkeypatch):
    learning = {"batches": batches} | ({"proximal": 0.5} if algorithm == "fedprox" else {})
    terms = local_terms(algorithm, {"a": 80}, 2.0, learning=learning)
    part = resolve(terms).part("a")
    series = part.training.series
    assert series.count == sum(releases)
    assert charges_by_the_round(series, releases, 1e-5)
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=2.0, lifetime_delta="1e-5")
    owner = parley.Owner("a", rings(80), ledger=ledger)
    owner.accept(terms)
    first, second = (parley.train(terms, [owner]) for _ in range(2))
    assert first.released
    assert np.array_equal(first.theta, second.theta)  # asked again, stored answers come back at no cost
    rows = [row for row in ledger.entries() if row["kind"] == "answer"]
    assert [json.loads(row["event"])["count"] for row in rows] == releases
    for place, row in enumerate(rows):
        assert Fraction(row["balance"]) <= 2
        done = sum(sorted(releases[: place + 1], reverse=True))
        assert float(Fraction(row["balance"])) >= theirs(series.event, done, 1e-5) * (1 - 2e-3)
    assert ledger.account(terms.hash).spent == 2
    assert ledger.verify() > len(rows)
    ledger.close()
    monkeypatch.setattr(NetworkUpdateQuestion, "most_releases", 1)  # a mutant: one charge a round
    monkeypatch.setattr(NetworkUpdateQuestion, "releases", lambda self, number: 1)
    cheaper = resolve(terms).part("a").training.series
    assert not charges_by_the_round(cheaper, releases, 1e-5)
    assert theirs(cheaper.event, sum(releases), 1e-5) > 2 * 1.3


def test_an_owner_that_misses_rounds_pays_no_less_than_for_what_it_answered():
    terms = local_terms("fedlin", {"a": 80, "b": 80}, learning={"horizon": 8, "straggler": "skip", "quorum": 1})
    training = resolve(terms).part("a").training
    assert [training.uses(8, k) for k in range(9)] == [0, 3, 6, 9, 12, 13, 14, 15, 16]
    assert [training.uses(k, k) for k in range(9)] == [0, 1, 4, 5, 8, 9, 12, 13, 16]
    assert training.uses(8, 9) > training.series.count  # more answers than rounds are refused by the ledger


def test_acceptance_states_what_steps_cost(tmp_path):
    terms = local_terms("fedlin", {"a": 200}, 1.0, learning={"batches": 4})
    with closing(parley.Ledger(tmp_path / "a.ledger", lifetime=1.0, lifetime_delta="1e-5")) as ledger:
        owner = parley.Owner("a", rings(200), ledger=ledger)
        said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    once = float(resolve(terms).part("a").training.series.spent_after(3))
    for words in (
        "each in turn a mean over about 50 of 200 records, drawn in secret, each with probability 1/4 and the mean "
        "direction of 3 local steps",
        "Every local step is charged as a release, so an answer of 3 steps costs ε = 0.",
        "The total of all 8 releases, which the terms promise and the ledger debits, is ε = 1 at δ = 1e-05",
        "Every local step adds noise of scale",
    ):
        assert words in said, said
    assert once < 1


def answers(terms, table, query, runs, seed):
    """Noisy answers [runs, P] of an owner of this table to one question."""
    setup = resolve(terms)
    question, mechanism = setup.part("a").training.question, setup.part("a").training.series.mechanism
    tables = parley.Owner("a", table).prepare(setup).tables
    noise = FastNoise(seed)
    repeated = NetworkUpdateQuery("q", "h", "l", 1, np.broadcast_to(query.theta, (runs, query.theta.size)), query.steps)
    return question.released(repeated, tables, (runs,), mechanism, noise)()


def shown_advantage(a, b, along):
    """A lower bound on how much more often a test says b of b's answers than of a's: by a threshold halfway along a
    direction, less three standard errors."""
    a, b = a @ along, b @ along
    cut = (a.mean() + b.mean()) / 2
    right, wrong = np.mean(b > cut), np.mean(a > cut)
    return right - wrong - 3 * math.sqrt((right * (1 - right) + wrong * (1 - wrong) + 1 / len(a)) / len(a))


def promised_advantage(epsilon, delta):
    """The most that any test has on one Gaussian release that is (epsilon, delta)-DP, and so on all of them together
    (Dong, Roth and Su 2022, Corollary 1)."""

    def spare(mu):
        return norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2) - delta

    return 2 * norm.cdf(brentq(spare, 1e-3, 20) / 2) - 1


def worst_neighbours(step, starts=(0.0, 3.0), steps=8, runs=160):
    """The largest advantage by neighbours whose last record is of another class, over starts. At 0 their clipped
    gradients are 1.73 clips apart, in every step while steps are short."""
    terms = local_terms(
        "federated-averaging",
        {"a": 6},
        3.0,
        model={"architecture": "logistic", "layers": None},
        learning={"horizon": 1, "local_steps": steps, "step": step},
    )
    found, rng, setup = [], np.random.default_rng(0), resolve(terms)
    for size_of_start in starts:
        tables = [rings(6, 3), rings(6, 3)]
        for table, ring in zip(tables, ("outer", "middle"), strict=True):
            table.loc[5, ["u", "v"]], table.loc[5, "ring"] = 4.0, ring
        query = NetworkUpdateQuery.ask("h", "l", 1, size_of_start * rng.normal(size=setup.parameters), steps)
        prepared = [parley.Owner("a", table).prepare(setup).tables for table in tables]
        low, high = (setup.part("a").training.question.exact(query, each) for each in prepared)
        a, b = (answers(terms, table, query, runs, place) for place, table in enumerate(tables))
        found.append(shown_advantage(a, b, high - low))
    return max(found)


@pytest.mark.parametrize("step", [0.01, 30.0])
def test_bad_neighbours_show_no_more_than_is_promised(step):
    """With short steps the same gradients repeat; with long ones paths part."""
    assert worst_neighbours(step) <= promised_advantage(3.0, 1e-5)


def test_bad_neighbours_show_that_one_charge_a_round_is_too_little(monkeypatch):
    monkeypatch.setattr(NetworkUpdateQuestion, "most_releases", 1)
    monkeypatch.setattr(NetworkUpdateQuestion, "releases", lambda self, number: 1)
    assert worst_neighbours(0.01, (0.0,)) > promised_advantage(3.0, 1e-5) * 1.1


def test_with_owners_as_the_unit_the_answer_is_clipped_and_costs_one_release():
    terms = local_terms("federated-averaging", {"a": 40}, privacy={"unit": "owner", "clip": 0.05})
    training = resolve(terms).part("a").training
    assert (training.question.sensitivity, training.series.count) == (0.1, 4)
    tables = [parley.Owner("a", table).prepare(terms).tables for table in (rings(40, 1), rings(40, 2))]
    query = NetworkUpdateQuery.ask("h", "l", 1, np.ones(training.question.parameters), 3)
    values = [training.question.bounded(query, each).value for each in tables]
    assert max(map(np.linalg.norm, values)) <= 0.05
    assert np.linalg.norm(values[0] - values[1]) <= 0.1
    result = parley.train(terms, [parley.Owner("a", rings(40))], seed=0)
    assert result.owners[0].epsilon_spent == 8


def test_questions_travel_and_others_are_refused():
    setup = resolve(local_terms("fedlin", {"a": 20}))
    question, zeros = setup.part("a").training.question, np.zeros(99)
    asked = CorrectedNetworkUpdateQuery.ask(setup.hash, "l", 2, zeros, zeros + 1, 3)
    arrived = messages.read_query(messages.write_query(asked))
    assert type(arrived) is CorrectedNetworkUpdateQuery
    assert arrived.content == asked.content
    question.check(arrived, ())
    for wrong in (
        CorrectedNetworkUpdateQuery.ask("h", "l", 2, zeros, zeros, 4),
        CorrectedNetworkUpdateQuery.ask("h", "l", 1, zeros, zeros, 3),
        CorrectedNetworkUpdateQuery.ask("h", "l", 2, zeros, zeros * np.nan, 3),
        NetworkUpdateQuery.ask("h", "l", 2, zeros, 3),
    ):
        with pytest.raises(Malformed):
            question.check(wrong, ())


def test_answers_larger_than_bound_and_noise_are_not_believed():
    setup = resolve(local_terms("federated-averaging", {"a": 60}, learning={"batches": 4}))
    part, asked = setup.part("a"), NetworkUpdateQuery.ask(setup.hash, "learner", 1, np.zeros(99), 3)
    tables = parley.Owner("a", rings(60)).prepare(setup).tables
    honest = part.training.question.released(asked, tables, (), part.training.series.mechanism, FastNoise(0))()
    scrutiny = Scrutiny(part, False)
    scrutiny.check_value(asked, honest)
    with pytest.raises(ContradictionError, match="larger than the agreed bound"):
        scrutiny.check_value(asked, honest + 10 * part.training.series.mechanism.noise_scale)


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"privacy": {"noise": "shared"}, "hosts": HOSTS}, "privacy.noise: expected 'each-owner' with fedprox"),
        ({"learning": {"epochs": 2}}, "learning.epochs: not allowed with fedprox"),
        ({"learning": {"step": "auto"}}, "learning.step: expected a number"),
        ({"learning": {"proximal": None}}, "learning.proximal: expected a number"),
        ({"learning": {"proximal": 2.5}}, "learning.proximal: expected at most 2, the inverse of the longest"),
        ({"learning": {"batches": 61}}, "learning.batches: expected at most the number of training records"),
        (
            {"learning": {"batches": 4, "sampling": "partition"}},
            "learning.sampling: expected both batches and sampling = 'poisson'",
        ),
        ({"learning": {"top_k": 4}}, "learning.top_k: not allowed for networks"),
        ({"learning": {"staleness": 3}}, "learning.staleness: allowed only with"),
        ({"learning": {"algorithm": "fednova", "proximal": None}}, "requires 'network-sgd'"),
        ({"privacy": {"unit": "owner"}, "learning": {"batches": 4}}, "learning.batches: not allowed with unit"),
        ({"privacy": {"person": "who", "records_per_person": 2}}, "privacy.records_per_person: expected 1"),
    ],
)
def test_terms_without_a_proof_or_a_meaning_are_refused(sections, words):
    learning = {"algorithm": "fedprox", "batches": None, "epochs": None, "horizon": 4, "step": 0.5, "proximal": 0.1}
    content = rings_content({"a": 60}, **{**sections, "learning": learning | sections.get("learning", {})})
    with pytest.raises(TermsError) as error:
        parley.Terms.from_dict(content)
    assert words in str(error.value)


def test_terms_come_back_as_they_went_and_change_their_kind():
    terms = local_terms("fedlin", learning={"batches": 4})
    assert parley.Terms.from_dict(terms.model_dump()).canonical == terms.canonical
    assert terms.changed(title="x").changed(title="") == terms
    usual = terms.changed(learning={"algorithm": "network-sgd", "batches": 4, "epochs": 1, "local_steps": None})
    assert usual.learning.rules.asks == "network-gradient"
