"""The federated family: where each of them ends without noise, that they are the published ones, and that owners
remember nothing."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from federated import CORRECTED, EXACT, FAMILY, Quiet, different_tables, family_terms, moments, optimum, quiet_run
from samples import class_table, iris_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import Malformed, OutOfOrder, OutsideBox, TermsError
from parley.learning.algorithms.algorithm import Asker
from parley.learning.algorithms.catalogue import make_algorithm
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.ledger import Ledger
from parley.protocol.queries import CorrectedQuery, GradientQuery, UpdateQuery
from parley.protocol.schedule import make_schedule
from parley.protocol.setup import resolve

TABLES = different_tables()
UNEQUAL = {"a": {"local_steps": 6}, "b": {"local_steps": 20}, "c": {"local_steps": 12}}
LONG = {"privacy__clip": None, "learning__horizon": 200, "learning__local_steps": 12}


def steps_of(terms):
    """rho_l and s_l of every owner."""
    setup = resolve(terms)
    return {
        part.name: (setup.local_update_of(part.name).step, setup.local_update_of(part.name).steps)
        for part in terms.owners
    }


def weighted_end(tables, weights, ridge=0.0):
    """Where sum W_l (H_l theta - b_l) = 0, H_l with the penalty."""
    found = moments(tables)
    left = sum(weights[name] @ (H + ridge * np.eye(3)) for name, (_, H, _) in found.items())
    return np.linalg.solve(left, sum(weights[name] @ b for name, (_, _, b) in found.items()))


def closed_form(name, terms):
    """The fixed point of the three that miss the optimum, from the owners' second moments."""
    ridge, mu, weights = terms.model.penalty, terms.learning.proximal or 0.0, {}
    for owner, (rho, s) in steps_of(terms).items():
        p, H, _ = moments(TABLES)[owner]
        A = H + (ridge + mu) * np.eye(3)
        far = (np.eye(3) - np.linalg.matrix_power(np.eye(3) - rho * A, s)) @ np.linalg.inv(A)
        weights[owner] = p * far / (rho * s if name == "fednova" else 1.0)
    return weighted_end(TABLES, weights, ridge)


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("own", [None, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", ["federated-averaging", "fedprox", "fednova"])
def test_without_noise_they_end_at_their_closed_form_fixed_points(name, own, ridge):
    terms = family_terms(name, own=own, model__regularisation=ridge, **LONG)
    end, _ = quiet_run(terms, TABLES)
    np.testing.assert_allclose(end, closed_form(name, terms), rtol=0, atol=1e-8)
    assert np.abs(end - optimum(TABLES, ridge)).max() > 1e-3  # which is not the optimum


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("own", [None, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", EXACT)
def test_without_noise_corrected_steps_end_at_the_optimum(name, own, ridge):
    end, _ = quiet_run(family_terms(name, own=own, model__regularisation=ridge, **LONG), TABLES)
    np.testing.assert_allclose(end, optimum(TABLES, ridge), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", EXACT)
def test_owners_that_take_turns_end_at_the_optimum_too(name):
    """What an owner released last stands in for it."""
    terms = family_terms(name, learning__participation=0.7, **LONG | {"learning__horizon": 600})
    end, asked = quiet_run(terms, TABLES)
    assert {len(questions) for questions in asked.asked} == {2}
    np.testing.assert_allclose(end, optimum(TABLES), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", EXACT)
def test_costs_that_are_not_quadratic_end_at_their_optimum_too(name):
    """Logistic regression with class weights of its owners' own: where the joint gradient vanishes."""
    tables = {
        n: class_table(80 + 40 * i, seed=i).assign(x0=lambda t, i=i: t["x0"] * (0.3 + 0.3 * i))
        for i, n in enumerate("ab")
    }
    settings = {"model__kind": "logistic-regression", "model__bounds": {f"x{j}": [-4, 4] for j in range(3)}}
    terms = family_terms(name, 80, 120, model__regularisation=0.3, **settings, **LONG | {"learning__local_steps": 40})
    end, asked = quiet_run(terms, tables)
    designs = [agreement.tables.train for agreement in asked.agreements.values()]
    best = asked.agreements["a"].setup.objective.optimum(designs, 5.0)
    np.testing.assert_allclose(end, best, rtol=0, atol=1e-7)


def test_the_bias_of_fednova_falls_with_the_step_and_that_of_averaging_unequal_steps_does_not():
    longest = resolve(family_terms("fednova")).local_update.step
    bias = {}
    for name in ("fednova", "federated-averaging"):
        bias[name] = [
            np.abs(
                closed_form(name, family_terms(name, own=UNEQUAL, learning__step=float(longest / halved)))
                - optimum(TABLES)
            ).max()
            for halved in (4, 8, 16, 32, 64)
        ]
    ratios = np.array(bias["fednova"][:-1]) / bias["fednova"][1:]
    assert abs(ratios[-1] - 2) < 0.02
    assert (np.abs(np.diff(ratios)) < 0.2).all()
    assert bias["federated-averaging"][-1] > 0.9 * bias["federated-averaging"][0] > 0.05


def published_scaffold(terms, tables, option):
    """As published: clients that keep their control variates, all of them asked, weighted by records."""
    found, steps, theta = moments(tables), steps_of(terms), np.zeros(3)
    own, server = {name: np.zeros(3) for name in tables}, np.zeros(3)
    for _ in range(terms.learning.horizon // terms.learning.pace):
        moved, fresh = np.zeros(3), {}
        for name, (p, H, b) in found.items():
            y, (rho, s) = theta, steps[name]
            for _ in range(s):
                y = y - rho * (H @ y - b - own[name] + server)
            moved += p * (y - theta)
            fresh[name] = H @ theta - b if option == 1 else own[name] - server + (theta - y) / (rho * s)
        theta, own = theta + moved, fresh
        server = sum(found[name][0] * own[name] for name in tables)
    return theta


def published_fedlin(terms, tables):
    found, steps, theta = moments(tables), steps_of(terms), np.zeros(3)
    for _ in range(terms.learning.horizon // 2):
        joint, moved = sum(p * (H @ theta - b) for p, H, b in found.values()), np.zeros(3)
        for name, (p, H, b) in found.items():
            w, (rho, s) = theta, steps[name]
            for _ in range(s):
                w = w - rho * ((H @ w - b) - (H @ theta - b) + joint)
            moved += p * (w - theta)
        theta = theta + moved
    return theta


def published_fedsplit(terms, tables):
    """With exact proxes."""
    found, mu, z = moments(tables), terms.learning.proximal, {name: np.zeros(3) for name in tables}
    for _ in range(terms.learning.horizon):
        x = sum(found[name][0] * z[name] for name in z)
        for name, (_, H, b) in found.items():
            prox = np.linalg.solve(H + mu * np.eye(3), b + mu * (2 * x - z[name]))
            z[name] = z[name] + 2 * (prox - x)
    return sum(found[name][0] * z[name] for name in z)


@pytest.mark.parametrize(
    ("name", "published", "more"),
    [
        ("scaffold", lambda terms: published_scaffold(terms, TABLES, 2), {}),
        ("scaffold, gradients", lambda terms: published_scaffold(terms, TABLES, 1), {}),
        ("fedlin", lambda terms: published_fedlin(terms, TABLES), {}),
        ("fedsplit", lambda terms: published_fedsplit(terms, TABLES), {"learning__local_steps": 600}),
    ],
)
def test_they_are_the_published_ones_with_memory_at_the_learner_instead_of_the_owners(name, published, more):
    own = UNEQUAL if name != "fedsplit" else None
    terms = family_terms(name, own=own, **LONG | {"learning__horizon": 6} | more)
    end, _ = quiet_run(terms, TABLES)
    np.testing.assert_allclose(end, published(terms), rtol=0, atol=1e-11)
    assert np.abs(end - optimum(TABLES)).max() > 1e-4  # still on its way


def test_fedlin_goes_equally_far_and_owners_may_have_steps_of_their_own():
    found = steps_of(family_terms("fedlin", own=UNEQUAL))
    assert len({round(rho * s, 12) for rho, s in found.values()}) == 1
    assert {s for _, s in found.values()} == {6, 20, 12}
    own = steps_of(family_terms("fedlin", own=UNEQUAL | {"c": {"local_steps": 12, "step": 0.05}}))
    assert own["c"] == (0.05, 12)
    assert own["b"] == found["b"]


@pytest.mark.parametrize("own", [None, UNEQUAL], ids=["equal", "unequal"])
@pytest.mark.parametrize("name", FAMILY)
def test_replicates_are_an_axis(name, own):
    """Four runs at once from four starts, each to the last bits the run by itself."""
    terms = family_terms(name, own=own, learning__horizon=6, privacy__clip=0.8, model__radius=0.9)
    starts = np.random.default_rng(1).uniform(-0.9, 0.9, (4, 3))
    together, _ = quiet_run(terms, TABLES, start=starts)
    for start, end in zip(starts, together, strict=True):
        np.testing.assert_allclose(quiet_run(terms, TABLES, start=start)[0], end, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", FAMILY)
def test_a_study_takes_the_same_steps_with_noise(name):
    """Very large budgets: the study's replicates lie around the run without noise; usual ones: not."""
    laplace = {"privacy__mechanism": "laplace", "privacy__delta": 0.0}
    terms = family_terms(name, own=UNEQUAL, epsilon=1e7, learning__horizon=6, **laplace)
    owners = [parley.Owner(n, t) for n, t in TABLES.items()]
    quiet, _ = quiet_run(terms, TABLES)
    study = parley.train(terms, owners, replicates=5, seed=2)
    assert study.path.shape == (6, 5)
    np.testing.assert_allclose(study.theta, np.broadcast_to(quiet, (5, 3)), atol=1e-3)
    noisy = parley.train(terms.changed(everyone={"epsilon": 1.0}), owners, replicates=5, seed=2)
    assert np.abs(noisy.theta - quiet).max() > 0.01
    assert [each.epsilon_spent for each in noisy.owners] == [1.0] * 3


# What an owner answers, and what it refuses.


def released(tmp_path, terms, name="a"):
    owner = parley.Owner(
        name, TABLES[name], ledger=Ledger(tmp_path / f"{name}.ledger", terms.owner(name).epsilon, 1e-6)
    )
    owner.accept(terms)
    return owner


@pytest.mark.parametrize("name", CORRECTED)
def test_an_owner_does_not_trust_the_question(tmp_path, name):
    """Corrections beyond the agreed size, of another shape, not finite; other numbers of steps; other kinds: refused,
    and nothing spent."""
    terms = family_terms(name, epsilon=0.5, learning__horizon=4)
    owner = released(tmp_path, terms)
    local = owner.prepare(terms).setup.local_update
    assert local.reach == pytest.approx(5.0 / local.step + 4.0)
    agreed, zero, ask = local.steps_in(1), np.zeros(3), CorrectedQuery.ask
    assert agreed == (0 if local.paired else 5)
    over = np.array([0.0, np.nextafter(local.reach, np.inf), 0.0])
    for query, refusal in (
        (ask(terms.hash, "learner", 1, zero, over, agreed), OutsideBox),
        (ask(terms.hash, "learner", 1, zero, -over, agreed), OutsideBox),
        (ask(terms.hash, "learner", 1, zero, np.array([0.0, 1e300, 0.0]), agreed), Malformed),
        (ask(terms.hash, "learner", 1, zero, np.array([0.0, np.nan, 0.0]), agreed), Malformed),
        (ask(terms.hash, "learner", 1, zero, np.array([np.inf, 0.0, 0.0]), agreed), Malformed),
        (ask(terms.hash, "learner", 1, zero, np.zeros(2), agreed), Malformed),
        (ask(terms.hash, "learner", 1, zero, np.zeros((1, 3)), agreed), Malformed),
        (ask(terms.hash, "learner", 1, zero, zero.astype(np.float32), agreed), Malformed),
        (ask(terms.hash, "learner", 1, np.array([0.0, 5.1, 0.0]), zero, agreed), OutsideBox),
        (ask(terms.hash, "learner", 1, zero, zero, 5 - agreed), Malformed),
        (ask(terms.hash, "learner", 1, zero, zero, -1), Malformed),
        (ask(terms.hash, "learner", 1, zero, zero, False), Malformed),
        (UpdateQuery.ask(terms.hash, "learner", 1, zero, 5), Malformed),
        (GradientQuery.ask(terms.hash, "learner", 1, zero), Malformed),
        (ask(terms.hash, "learner", 2, zero, zero, 5), OutOfOrder),
    ):
        with pytest.raises(refusal):
            owner.answer(query)
    assert owner.ledger.account(terms.hash).spent == 0
    owner.answer(ask(terms.hash, "learner", 1, zero, np.full(3, local.reach), agreed))  # as large as agreed: answered


@pytest.mark.parametrize("name", CORRECTED)
def test_no_correction_is_refused_by_an_owner_whose_machine_rounds_otherwise(name):
    """Its step may be the neighbouring one of six digits, and what it takes that much smaller."""
    setup = resolve(family_terms(name, own=UNEQUAL))
    for owner in setup.parts:
        local = setup.local_update_of(owner)
        smaller = (
            setup.limits.radius / (local.step * (1 + 1e-5))
            + setup.objective.record_bound(setup.preparation, setup.limits, "l2").value
        )
        assert make_algorithm(setup).owner(owner).reach <= smaller < local.reach


@pytest.mark.parametrize("name", FAMILY)
def test_a_release_spends_exactly_epsilon_one_debit_a_vector(tmp_path, name):
    """Two vectors a step are two ledger rounds: half as many steps, the same budget. The model is that of the stored
    answers."""
    terms = family_terms(name, own=UNEQUAL, epsilon=0.5, learning__horizon=6)
    owners = [released(tmp_path, terms, n) for n in TABLES]
    result = parley.train(terms, owners)
    for owner, outcome in zip(owners, result.owners, strict=True):
        account = owner.ledger.account(terms.hash)
        assert (account.answers, account.spent) == (6, Fraction(1, 2))
        assert (outcome.answers, outcome.epsilon_spent) == (6, 0.5)
        owner.ledger.verify()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)  # asked again: stored, free
    setup = owners[0].prepare(terms).setup
    algorithm, state = make_algorithm(setup), make_algorithm(setup).start(np.zeros(3))
    stays = [make_state(algorithm, state, k) for k in range(1, 7)]
    paired = setup.terms.learning.paired
    assert [asked == 0 for asked in stays] == ([True, False] * 3 if paired else [False] * 6)


def make_state(algorithm, state, number):
    """How many steps round `number` asks of the first owner."""
    asker = Asker("t", "l", make_schedule(family_terms("scaffold", learning__horizon=6)))
    return algorithm.questions(replace(state, round=number), asker)["a"].steps


def test_what_an_owner_reads_before_it_accepts(tmp_path):
    terms = family_terms("fedlin", epsilon=0.5, learning__horizon=4)
    owner = released(tmp_path, terms)
    said = " ".join(acceptance_summary(owner, owner.prepare(terms), None, relay=False))
    assert (
        "4 answers, each in turn a mean gradient and the mean direction of 5 local steps, in which 40 records have "
        "their say" in said
    )
    assert "a correction made of earlier answers" in said
    terms = family_terms("fedprox", epsilon=0.5)
    assert "5 local steps, held back towards where they begin" in resolve(terms).part("a").training.question.words()


class Remembering(Quiet):
    """The mutant: owners that keep the gradient of their last steps to themselves, and correct the next ones by it, as
    published."""

    def __init__(self, agreements):
        super().__init__(agreements)
        self.kept = {}

    def answered(self, name, query):
        own = self.kept.get(name, 0.0)
        answer = super().answered(name, replace(query, correction=query.correction - own))
        self.kept[name] = answer.value - (query.correction - own)
        return answer


def history(kind, tables, terms, questions):
    """Every answer of an owner to questions that are the same whatever its table is: what the learner may ask is
    public."""
    exchange = kind({"a": parley.Owner("a", tables).prepare(terms)})
    return [exchange.ask({"a": query})[0].value for query in questions]


@pytest.mark.parametrize(("kind", "sound"), [(Quiet, True), (Remembering, False)])
def test_an_owner_that_remembers_is_caught(kind, sound):
    """A sequence of fixed questions on neighbouring tables: each answer moves by at most its sensitivity, unless a
    gradient is kept.

    The replaced row pulls one way at the first start and the other way at the second: what was kept adds up to what is
    answered.
    """
    terms = family_terms("scaffold", 40, privacy__clip=1.0, learning__local_steps=1)
    table, worst = TABLES["a"].copy(), 0.0
    sensitivity = resolve(terms).part("a").training.question.sensitivity
    starts = [np.full(3, 4.0), np.full(3, -4.0)]
    questions = [CorrectedQuery.ask(terms.hash, "learner", k + 1, at, np.zeros(3), 1) for k, at in enumerate(starts)]
    pairs = [((1, -1, 0.1, 0), (-1, 1, 0.1, 0)), ((1, 1, 1, 3), (1, 1, 1, -3)), ((1, 1, 1, 0), (1, -1, 1, 0))]
    for one, other in pairs:
        answers = []
        for row in (one, other):
            table.iloc[7] = row
            answers.append(history(kind, table, terms, questions))
        worst = max(worst, *(np.linalg.norm(a - b) / sensitivity for a, b in zip(*answers, strict=True)))
    assert bool(worst <= 1) is sound
    assert worst > (0.99 if sound else 1.9)


@pytest.mark.parametrize("name", FAMILY)
def test_an_answer_depends_on_its_question_alone(name):
    """Asked after other questions, before them, or of an owner that was never asked anything: the same to the bit."""
    terms = family_terms(name, 40, learning__horizon=6, privacy__clip=0.5)
    _, asked = quiet_run(terms, {"a": TABLES["a"]})
    questions = [each["a"] for each in asked.asked]
    fresh = Quiet({"a": parley.Owner("a", TABLES["a"]).prepare(terms)})
    backwards = [fresh.ask({"a": query})[0].value for query in reversed(questions)][::-1]
    for query, value in zip(questions, backwards, strict=True):
        np.testing.assert_array_equal(asked.ask({"a": query})[0].value, value)
    if name in EXACT and name != "scaffold, gradients":
        kept = Remembering({"a": fresh.agreements["a"]})
        assert not np.array_equal(*(kept.ask({"a": questions[-1]})[0].value for _ in range(2)))


@pytest.mark.parametrize("name", EXACT)
def test_noise_beyond_what_owners_take_is_cut_off_by_the_learner(name):
    """Tiny budgets drive variates and duals far out; no question is refused, and the run goes on within its box."""
    terms = family_terms(name, epsilon=1e-4, learning__horizon=12)
    owners = [parley.Owner(n, t) for n, t in TABLES.items()]
    study = parley.train(terms, owners, replicates=20, seed=0)
    assert np.abs(study.theta).max() <= 5.0


# Terms.


@pytest.mark.parametrize(
    ("name", "changes", "match"),
    [
        ("fedprox", {"learning__proximal": None}, r"learning\.proximal: expected a number beside it"),
        ("fedsplit", {"learning__proximal": None}, r"learning\.proximal: expected a number beside it"),
        (
            "fednova",
            {"learning__proximal": 1.0},
            r"learning\.proximal: expected only with algorithm = 'fedprox' or 'fedsplit'",
        ),
        ("fedprox", {"learning__proximal": 0.0}, r"learning\.proximal = 0\.0: expected a number > 0"),
        ("fedprox", {"learning__proximal": float("nan")}, r"learning\.proximal = nan: expected"),
        (
            "fedprox",
            {"learning__proximal": 1e300},
            r"learning\.proximal = 1e\+300: expected a number from 1e-50 to 1e\+50",
        ),
        (
            "fedlin",
            {"learning__variates": "gradients"},
            r"learning\.variates: expected only with algorithm = 'scaffold'",
        ),
        ("fedlin", {"learning__horizon": 5}, r"learning\.horizon: expected an even number"),
        ("scaffold, gradients", {"learning__horizon": 5}, r"learning\.horizon: expected an even number"),
        (
            "scaffold",
            {"model__kind": "linear-svm", "model__bounds": {}},
            "expected another than scaffold for linear-svm",
        ),
        ("fedsplit", {"model__radius": None}, r"model\.radius: expected a number beside fedsplit"),
    ],
)
def test_terms_that_make_no_sense_are_refused(name, changes, match):
    with pytest.raises(TermsError, match=match):
        family_terms(name, **changes)


def test_owners_take_local_steps_only_where_they_are_asked():
    with pytest.raises(TermsError, match=r"owners\.local_steps: expected none"):
        family_terms("fednova").changed(learning={"algorithm": "gradient-descent", "local_steps": None}, owners=UNEQUAL)
    plain = family_terms("fedprox", own=UNEQUAL).changed(
        learning={"algorithm": "averaged-subgradient", "local_steps": None}
    )
    assert plain.learning.proximal is None
    assert not plain.uneven
    assert family_terms("fednova", own=UNEQUAL).changed(learning={"algorithm": "fedlin"}).uneven


@pytest.mark.parametrize("name", FAMILY)
def test_hosts_see_sums_so_owners_must_be_alike(name):
    shared = {"privacy": {"noise": "shared", "delta": 1e-6}, "hosts": ["a", "b", "c"]}
    if name in CORRECTED:
        with pytest.raises(TermsError, match=r"privacy\.noise: expected 'each-owner' beside"):
            family_terms(name).changed(**shared)
        return
    owners = [parley.Owner(n, t) for n, t in TABLES.items()]
    plain = family_terms(name, epsilon=8.0, learning__horizon=4)
    end, _ = quiet_run(plain, TABLES)
    study = parley.train(plain.changed(**shared), owners, replicates=400, seed=0).theta
    assert (np.abs(study.mean(axis=0) - end) < 4.5 * study.std(axis=0) / 20).all()
    with pytest.raises(TermsError, match=r"a sum does not say who walked how far"):
        family_terms(name, own=UNEQUAL).changed(**shared)


@pytest.mark.parametrize("name", ["fedprox", "fedsplit"])
@pytest.mark.parametrize("proximal", [1e-50, 3.0, 1e50])
def test_the_longest_step_counts_the_pull(name, proximal):
    """Whatever its weight: the automatic step is below 1/(L + mu), and one beyond 2/(L + mu) is refused by
    everybody."""
    terms = family_terms(name, learning__proximal=proximal)
    setup = resolve(terms)
    largest = setup.objective.largest_curvature(setup.preparation) + proximal
    assert 0.9999 < setup.local_update.step * largest <= 1
    if proximal < 1e50:
        longer = family_terms(name, learning__proximal=proximal, learning__step=2.001 / largest)
        with pytest.raises(TermsError, match=r"learning\.step = .*: expected at most"):
            resolve(longer).part("a")
        own = family_terms(name, learning__proximal=proximal, own={"b": {"step": 2.001 / largest}})
        with pytest.raises(TermsError, match=r"owners\.b\.step = .*: expected at most"):
            resolve(own).part("b")


def test_hashes_say_what_was_agreed():
    base = family_terms("scaffold")
    hashes = {
        base.hash,
        family_terms("fedlin").hash,
        family_terms("scaffold, gradients").hash,
        family_terms("scaffold", own={"a": {"local_steps": 2}}).hash,
        family_terms("scaffold", own={"a": {"step": 0.1}}).hash,
        family_terms("fedprox").hash,
        family_terms("fedprox", learning__proximal=0.8).hash,
    }
    assert len(hashes) == 7
    assert family_terms("scaffold", learning__variates="walks").hash == base.hash


def test_steps_of_two_rounds_ask_the_same_owners_twice():
    terms = family_terms("fedlin", learning__participation=0.7, learning__horizon=12)
    schedule = make_schedule(terms)
    for k in range(1, 13, 2):
        assert schedule.at(k) == schedule.at(k + 1)
    assert len({schedule.at(k) for k in range(1, 13)}) > 1
    strides = make_schedule(family_terms("fedlin", own={"b": {"stride": 3}}, learning__horizon=12))
    assert list(strides.rounds_of("b")) == [1, 2, 7, 8]


@pytest.mark.parametrize("name", FAMILY)
def test_several_classes_take_local_steps_too(name):
    """Iris between three experts, each of whom has mostly flowers of one kind: softmax, rows shortened instead of
    gradients clipped."""
    flowers = iris_table()
    order = flowers.sort_values("species", kind="stable").reset_index(drop=True)
    tables = {n: order.iloc[50 * i : 50 * i + 50].reset_index(drop=True) for i, n in enumerate("abc")}
    content = family_terms(name, 50, 50, 50).model_dump()
    content["model"] = {
        "kind": "softmax-regression",
        "target": "species",
        "features": ["sepal length", "sepal width", "petal length", "petal width"],
        "bounds": {
            "sepal length": [4.0, 8.0],
            "sepal width": [2.0, 4.5],
            "petal length": [1.0, 7.0],
            "petal width": [0.0, 2.5],
        },
        "categories": {"species": ["setosa", "versicolor", "virginica"]},
        "radius": 5.0,
        "regularisation": 1.0,
    }
    content["learning"] |= {"horizon": 120, "local_steps": 4}
    content["privacy"]["clip"] = None
    end, asked = quiet_run(parley.Terms.from_dict(content), tables)
    designs = [agreement.tables.train for agreement in asked.agreements.values()]
    objective = asked.agreements["a"].setup.objective
    best = objective.optimum(designs, 5.0, start=np.zeros(len(end)))
    joint, least = (float(np.mean([objective.cost(d, theta) for d in designs])) for theta in (end, best))
    assert (joint - least < 2e-4) is (name in EXACT)


@pytest.mark.parametrize("name", FAMILY)
def test_a_terms_file_says_it_and_the_command_trains_by_it(tmp_path, name):
    """Written, read back to the same hash, and run by `parley train`."""
    for owner, table in TABLES.items():
        table.to_csv(tmp_path / f"{owner}.csv", index=False)
    data = {owner: {"data": str(tmp_path / f"{owner}.csv"), **UNEQUAL[owner]} for owner in TABLES}
    terms = family_terms(name, own=data, learning__horizon=4)
    parley.terms.write_terms(terms, tmp_path / "terms.toml")
    assert parley.load_terms(tmp_path / "terms.toml").hash == terms.hash
    done = CliRunner().invoke(
        app, ["train", str(tmp_path / "terms.toml"), "--replicates", "3", "--seed", "1", "--json"]
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [owner["answers"] for owner in result["owners"]] == [4, 4, 4]
    # per update, beside the total
    assert all(0 < owner["step_epsilon"] < owner["epsilon"] == 1.0 for owner in result["owners"])


def test_owners_of_one_size_and_budget_take_their_own_steps():
    """Owners alike share what is resolved; steps of their own make them different."""
    terms = family_terms("fednova", 60, 60, 60, own={"b": {"step": 0.01}, "c": {"local_steps": 7}})
    setup = resolve(terms)
    local = {name: setup.part(name).training.question.local for name in "abc"}
    assert local["b"].step == 0.01 != local["a"].step
    assert local["c"].steps == 7 != local["a"].steps
