"""No centre: where owners on a graph end without noise, that a complete graph is gradient descent, and what a release
spends."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from federated import Quiet, different_tables, family_terms, moments, optimum, quiet_run
from samples import class_table

import parley
from parley.errors import SettingError, TermsError
from parley.learning.algorithms.algorithm import Asker, State, run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.algorithms.gossip import Gossip
from parley.learning.algorithms.mixing import bearable, metropolis, spectral_gap
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.losses import LinearRegression
from parley.owner.ledger import Ledger
from parley.protocol.aggregation import aggregation_of
from parley.report.words.training import consensus_line
from parley.terms import load_terms
from parley.terms.topology import edges

NAMES = tuple("abcdefgh")
SIZES = (40, 60, 100, 30, 80, 50)
TABLES = different_tables(SIZES)
PATH = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "e"], ["e", "f"]]
GRAPHS = {"ring": "ring", "grid": "grid", "star": "star", "complete": "complete", "pairs": PATH}


def gossip_terms(topology, *sizes, **overrides):
    usual = {"learning__algorithm": "gossip", "learning__topology": topology}
    return family_terms("federated-averaging", *(sizes or SIZES), **usual | overrides)


def weights_of(topology, count):
    return metropolis(NAMES[:count], edges(topology, NAMES[:count]))


# Where it ends.


@pytest.mark.parametrize("ridge", [0.0, 0.2])
@pytest.mark.parametrize("graph", GRAPHS)
def test_without_noise_it_ends_at_the_pooled_optimum_on_every_graph(graph, ridge):
    """Owners of different laws and sizes; every owner's own point ends there, not their mean alone."""
    rounds = {"pairs": 1200, "star": 1000}.get(graph, 500)
    terms = gossip_terms(GRAPHS[graph], privacy__clip=None, learning__horizon=rounds, model__regularisation=ridge)
    end, asked = quiet_run(terms, TABLES)
    best = optimum(TABLES, ridge)
    np.testing.assert_allclose(end, best, rtol=0, atol=1e-8)
    for query in asked.asked[-1].values():
        np.testing.assert_allclose(query.theta, best, rtol=0, atol=1e-8)
    alike = sum(H for _, H, _ in moments(TABLES).values()) + len(SIZES) * ridge * np.eye(3)
    unweighted = np.linalg.solve(alike, sum(b for _, _, b in moments(TABLES).values()))
    assert np.abs(unweighted - best).max() > 1e-3  # records count


def test_without_tracking_it_would_end_elsewhere():
    """The mutant: points that follow their own gradients and mix, as in decentralised descent without tracking."""
    setup = parley.Owner("a", TABLES["a"]).prepare(gossip_terms("ring")).setup
    rule, found = make_algorithm(setup), moments(TABLES)
    points = np.zeros((len(SIZES), 3))
    for _ in range(3000):
        gradients = np.array([rule.scale[k] * (H @ points[k] - b) for k, (_, H, b) in enumerate(found.values())])
        points = rule.weights @ (points - rule.step * gradients)
    assert np.abs(points.mean(axis=0) - optimum(TABLES)).max() > 1e-3


def test_costs_that_are_not_quadratic_end_at_their_optimum_too():
    tables = {
        n: class_table(80 + 40 * i, seed=i).assign(x0=lambda t, i=i: t["x0"] * (0.3 + 0.3 * i))
        for i, n in enumerate("abcd")
    }
    settings = {"model__kind": "logistic-regression", "model__bounds": {f"x{j}": [-4, 4] for j in range(3)}}
    sizes = [len(table) for table in tables.values()]
    terms = gossip_terms(
        "ring", *sizes, model__regularisation=0.3, privacy__clip=None, learning__horizon=900, **settings
    )
    end, asked = quiet_run(terms, tables)
    designs = [agreement.tables.train for agreement in asked.agreements.values()]
    best = asked.agreements["a"].setup.objective.optimum(designs, 5.0)
    np.testing.assert_allclose(end, best, rtol=0, atol=1e-7)


def test_owners_that_take_turns_end_at_the_optimum_too():
    """What an owner released last stands in for it."""
    terms = gossip_terms("grid", privacy__clip=None, learning__participation=0.7, learning__horizon=900)
    end, asked = quiet_run(terms, TABLES)
    assert {len(questions) for questions in asked.asked} == {4}
    np.testing.assert_allclose(end, optimum(TABLES), rtol=0, atol=1e-8)


def test_a_box_that_binds_holds_every_point_and_the_end_is_that_of_descent():
    box = {"model__radius": 0.1, "privacy__clip": None, "learning__horizon": 400}
    end, asked = quiet_run(gossip_terms("star", **box), TABLES)
    plain = gossip_terms("star", **box).changed(
        learning={"algorithm": "gradient-descent", "decay": 0.0, "step": "auto"}
    )
    there, _ = quiet_run(plain, TABLES)
    np.testing.assert_allclose(end, there, rtol=0, atol=1e-8)
    assert np.abs(there).max() == 0.1
    assert max(np.abs(query.theta).max() for questions in asked.asked for query in questions.values()) <= 0.1


def test_a_mean_of_points_in_the_corner_does_not_round_out_of_the_box():
    """Three times 0.1 over 3 is more than 0.1; owners would refuse to score such a model."""
    terms = gossip_terms("complete", *SIZES[:3], model__radius=0.1, privacy__clip=None)
    rule = make_algorithm(parley.Owner("a", TABLES["a"]).prepare(terms).setup)
    answers = [
        parley.protocol.queries.Answer("", name, size, np.full(3, -1e3))
        for name, size in zip("abc", SIZES, strict=False)
    ]
    assert (rule.update(rule.start(np.zeros(3)), np.zeros(3), answers).theta == 0.1).all()


# Against gradient descent.


def test_a_complete_graph_is_gradient_descent_with_equal_steps_noise_included():
    """Metropolis weights are 1/K there: the same noise gives the same model."""
    terms = gossip_terms("complete", epsilon=3.0, learning__horizon=12, model__regularisation=0.1)
    plain = terms.changed(learning={"algorithm": "gradient-descent", "decay": 0.0})
    assert plain.learning.topology is None
    owners = [parley.Owner(name, table) for name, table in TABLES.items()]
    one, other = (parley.train(each, owners, replicates=5, seed=4) for each in (terms, plain))
    np.testing.assert_allclose(one.theta, other.theta, rtol=0, atol=1e-12)
    assert one.consensus_error < 1e-12
    assert other.consensus_error is None
    assert consensus_line(other) is None
    ring = parley.train(terms.changed(learning={"topology": "ring"}), owners, replicates=5, seed=4)
    assert ring.consensus_error > 0.01
    assert f"own points lie up to {ring.consensus_error:.3g} from the model" in consensus_line(ring)
    assert np.abs(ring.theta - other.theta).max() > 1e-3


def test_the_mean_of_the_points_moves_along_the_mean_of_the_gradients_on_every_graph():
    rng = np.random.default_rng(0)
    for graph in GRAPHS.values():
        setup = parley.Owner("a", TABLES["a"]).prepare(gossip_terms(graph, model__radius=None)).setup
        rule = make_algorithm(setup)
        state = rule.start(rng.normal(size=3))
        for _ in range(4):
            answers = [
                parley.protocol.queries.Answer("", name, n, rng.normal(size=3))
                for name, n in zip(TABLES, SIZES, strict=True)
            ]
            after = rule.update(state, np.zeros(3), answers)
            mean = sum(answer.records * answer.value for answer in answers) / sum(SIZES)
            np.testing.assert_allclose(after.theta, state.theta - rule.step * mean, rtol=0, atol=1e-12)
            state = after


def test_the_factor_falls_as_the_gap_grows_and_is_that_of_the_run():
    """Errors in the long run shrink by the recursion's largest eigenvalue, smaller for graphs that mix faster."""
    factors, gaps = {}, {}
    curvatures = np.array([0.9, 1.1, 0.6, 0.8, 1.2, 0.7])
    gradients = curvatures * np.array([1.0, -2.0, 0.5, 3.0, -1.0, 0.2])
    for name in ("complete", "ring", "star", "pairs"):
        graph = edges(GRAPHS[name] if name != "pairs" else tuple(map(tuple, PATH)), NAMES[:6])
        rule = Gossip(LinearRegression(), 60, None, 0.5, NAMES[:6], (50,) * 6, graph)
        state, errors = rule.start(np.zeros(1)), []
        for _ in range(60 if name == "complete" else 600):
            points = rule.points(state)
            answers = [
                parley.protocol.queries.Answer("", n, 50, curvatures[k] * points[n] - gradients[k])
                for k, n in enumerate(NAMES[:6])
            ]
            state = rule.update(state, np.zeros(1), answers)
            best = gradients.sum() / curvatures.sum()
            errors.append(max(abs(float(point[0]) - best) for point in rule.points(state).values()))
        last = 20 if name == "complete" else 200
        factors[name] = (errors[last] / errors[last - 16]) ** (1 / 16)
        gaps[name] = spectral_gap(rule.weights)
        assert factors[name] == pytest.approx(radius_of(rule.weights, curvatures[:, None, None], 0.5), rel=0.02)
    assert (
        sorted(gaps, key=gaps.get)
        == sorted(factors, key=factors.get, reverse=True)
        == ["pairs", "star", "ring", "complete"]
    )
    assert gaps["complete"] == pytest.approx(1.0)


# Weights and steps.


@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 9])
@pytest.mark.parametrize("name", ["ring", "grid", "star", "complete"])
def test_weights_are_doubly_stochastic_and_mix(name, count):
    names = tuple(f"o{k}" for k in range(count))
    joined = edges(name, names)
    W = metropolis(names, joined)
    np.testing.assert_allclose(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1)
    assert (W >= -1e-12).all()
    assert spectral_gap(W) > 0
    assert len({frozenset(pair) for pair in joined}) == len(joined)


def test_a_grid_of_nine_has_three_rows():
    joined = {frozenset(pair) for pair in edges("grid", "abcdefghi")}
    assert len(joined) == 12
    assert {frozenset("ae"), frozenset("cd")}.isdisjoint(joined)
    assert {frozenset("eb"), frozenset("ed"), frozenset("ef"), frozenset("eh")} <= joined


SHARES = [np.ones(6), np.array([3.0, 0.6, 0.6, 0.6, 0.6, 0.6]), np.array([0.1, 0.1, 0.1, 0.1, 0.1, 5.5])]


@pytest.mark.parametrize("largest", SHARES, ids=str)
@pytest.mark.parametrize("name", ["ring", "grid", "star"])
def test_no_frequency_is_worse_than_the_one_of_the_bound(name, largest):
    """1/largest + step Re G(z) >= 0 on the unit circle, G = (z - 1) W^2 (z - W)^-2: the closed form is the least step
    over all of them."""
    W, root = weights_of(name, 6), np.sqrt(largest)
    found = []
    for angle in np.linspace(1e-3, np.pi, 400):
        z = np.exp(1j * angle)
        inverse = np.linalg.inv(z * np.eye(6) - W)
        G = (z - 1) * W @ W @ inverse @ inverse
        found.append(1 / np.linalg.eigvalsh(root[:, None] * -np.real(G) * root)[-1])
    assert min(found) == pytest.approx(bearable(W, largest), rel=1e-9)
    assert min(found) == pytest.approx(found[-1], rel=1e-9)


def radius_of(W, hessians, step):
    """The factor by which errors grow a round at most in the long run, costs being quadratic with these Hessians [K, d,
    d]."""
    size, d = hessians.shape[:2]
    W, even, H = (
        np.kron(W, np.eye(d)),
        np.kron(np.full((size, size), 1 / size), np.eye(d)),
        np.zeros((size * d, size * d)),
    )
    for k, each in enumerate(hessians):
        H[k * d : (k + 1) * d, k * d : (k + 1) * d] = step * each
    twice, one = W @ W, np.eye(size * d)
    rule = np.block([[W - twice @ H, even - twice], [(W - one) @ H, W - even]])
    return float(np.abs(np.linalg.eigvals(rule)).max())


@pytest.mark.parametrize("largest", SHARES, ids=str)
@pytest.mark.parametrize("name", ["ring", "grid", "star", "pairs"])
def test_steps_below_the_bound_never_grow_whatever_owners_cost(name, largest):
    """Hessians of two directions that do not commute, many of them at their bound or at nothing, climbed towards
    growth."""
    W, rng = weights_of(GRAPHS[name] if name != "pairs" else tuple(map(tuple, PATH)), 6), np.random.default_rng(0)
    step = 0.999 * bearable(W, largest)

    def hessians(angles, ends):
        turned = np.stack([np.cos(angles), np.sin(angles)], -1)
        other = np.stack([-np.sin(angles), np.cos(angles)], -1)
        parts = [ends[k, :, None, None] * (v[:, :, None] * v[:, None, :]) for k, v in enumerate((turned, other))]
        return largest[:, None, None] * (parts[0] + parts[1])

    for _ in range(8):
        at = rng.uniform(0, np.pi, 6), rng.choice([0.0, 0.3, 1.0], (2, 6), p=[0.2, 0.2, 0.6])
        worst = radius_of(W, hessians(*at), step)
        for _ in range(25):
            near = at[0] + 0.3 * rng.normal(size=6), np.clip(at[1] + 0.3 * rng.normal(size=(2, 6)), 0, 1)
            if (found := radius_of(W, hessians(*near), step)) > worst:
                at, worst = near, found
        assert worst <= 1 + 1e-7
    if (largest == 1).all():  # where all are alike the bound is sharp
        assert radius_of(W, np.ones((6, 1, 1)), step * 1.01) > 1


@pytest.mark.parametrize(("name", "shares"), [("ring", SHARES[0]), ("grid", SHARES[1]), ("star", SHARES[2])], ids=str)
def test_costs_that_are_not_quadratic_settle_with_such_a_step(name, shares):
    """Each owner's derivative grows as its bound up to 1 and is flat beyond: convex, and its curvature jumps."""
    graph = edges(name, NAMES[:6])
    W, centres = metropolis(NAMES[:6], graph), np.array([-3.0, 1.0, 0.5, 4.0, -1.0, 2.0])
    rule = Gossip(LinearRegression(), 1, None, 0.9 * bearable(W, shares), NAMES[:6], (50,) * 6, graph)
    state = rule.start(np.array([10.0]))
    for _ in range(1500):
        points = rule.points(state)
        gradients = [shares[k] * np.clip(points[n] - centres[k], -1, 1) for k, n in enumerate(NAMES[:6])]
        state = rule.update(
            state,
            np.zeros(1),
            [parley.protocol.queries.Answer("", n, 50, s) for n, s in zip(NAMES[:6], gradients, strict=True)],
        )
    assert abs(np.sum([shares[k] * np.clip(state.theta - centres[k], -1, 1) for k in range(6)])) < 1e-6
    assert rule.consensus_error(state) < 1e-6


def test_the_automatic_step_is_what_the_graph_bears(tmp_path):
    def step(name, **changes):
        return make_algorithm(parley.Owner("a", TABLES["a"]).prepare(gossip_terms(name, **changes)).setup).step

    whole = step("complete")
    assert step("ring") == whole  # owners of about the same size within declared bounds
    uneven = gossip_terms("star", 4, 4, 4, 4, 4, 400)
    rule = make_algorithm(parley.protocol.setup.resolve(uneven))
    assert rule.step == pytest.approx(whole * bearable(rule.weights, rule.scale), rel=1e-5)
    assert rule.step < 0.7 * whole
    table = pd.concat(TABLES.values())
    table.to_csv(tmp_path / "public.csv", index=False)
    public = parley.protocol.setup.resolve(
        gossip_terms("ring", model__public=str(tmp_path / "public.csv"), model__bounds=None)
    )
    curvature = public.objective.curvature(public.public)
    excess = min(4.0, public.objective.largest_curvature(public.preparation) / curvature)
    assert excess > 1.5
    largest = np.minimum(6, excess * make_algorithm(public).scale)
    assert make_algorithm(public).step == pytest.approx(
        min(1, bearable(weights_of("ring", 6), largest)) / curvature, rel=1e-4
    )
    assert step("ring", learning__step=0.05) == 0.05  # what terms say is not touched


def test_a_run_that_diverges_is_one_sentence():
    terms = gossip_terms("ring", model__radius=None, privacy__clip=1e50, learning__step=40.0, learning__horizon=400)
    with pytest.raises(SettingError, match=r"learning\.step: the run diverged in round"):
        quiet_run(terms, TABLES)


# Releases.


def test_a_release_spends_exactly_epsilon_and_asks_each_owner_at_its_own_point(tmp_path):
    terms = gossip_terms("ring", epsilon=0.5, learning__horizon=6)
    owners = []
    for name, table in TABLES.items():
        owner = parley.Owner(name, table, ledger=Ledger(tmp_path / f"{name}.ledger", 0.5, 1e-6))
        owner.accept(terms)
        owners.append(owner)
    result = parley.train(terms, owners)
    for owner, outcome in zip(owners, result.owners, strict=True):
        account = owner.ledger.account(terms.hash)
        assert (account.answers, account.spent) == (6, Fraction(1, 2))
        assert (outcome.answers, outcome.epsilon_spent) == (6, 0.5)
        owner.ledger.verify()
    np.testing.assert_array_equal(parley.train(terms, owners).theta, result.theta)  # asked again: stored, free
    assert result.to_json()["apart"] == result.consensus_error > 0


class Halfway(Quiet):
    """Ends after three rounds, as if killed."""

    def ask(self, questions):
        if len(self.asked) == 3:
            raise KeyboardInterrupt
        return super().ask(questions)


def test_a_run_goes_on_from_its_checkpoint_to_the_bit(tmp_path):
    terms = gossip_terms("grid", learning__horizon=8)
    agreements = {name: parley.Owner(name, table).prepare(terms) for name, table in TABLES.items()}
    setup = agreements["a"].setup
    rule, file = make_algorithm(setup), tmp_path / "checkpoint.json"
    start = rule.start(np.zeros(3))

    def keep(state, answers):
        Checkpoint(terms.hash, state, {}, {}).save(file)

    with pytest.raises(KeyboardInterrupt):
        run(rule, Halfway(agreements), aggregation_of(terms), Asker.of(setup), start, keep)
    kept = load_checkpoint(file, terms, start).state
    assert kept.round == 4
    assert kept.memory.keys() == {f"{what} of {name}" for what in ("point", "tracker", "gradient") for name in TABLES}
    resumed = run(rule, Quiet(agreements), aggregation_of(terms), Asker.of(setup), kept)
    whole, _ = quiet_run(terms, TABLES)
    np.testing.assert_array_equal(resumed.theta, whole)
    forgetful = replace(kept, memory={**kept.memory, "tracker of c": np.zeros(3)})
    assert not np.array_equal(
        run(rule, Quiet(agreements), aggregation_of(terms), Asker.of(setup), forgetful).theta, whole
    )
    with pytest.raises(SettingError, match="not a checkpoint"):
        load_checkpoint(file, terms, State(1, np.zeros(3)))


# Terms.


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"learning__topology": None}, r"learning\.topology: expected beside 'gossip': 'ring', 'grid'"),
        (
            {"learning__topology": "torus"},
            r"learning\.topology: expected 'ring', 'grid', 'star' or 'complete', or a list",
        ),
        ({"learning__topology": []}, r"learning\.topology: expected 'ring'"),
        ({"learning__topology": 3}, r"learning\.topology: expected 'ring'"),
        ({"learning__topology": [["a", "b", "c"]]}, r"learning\.topology: expected 'ring'"),
        ({"learning__topology": [["a", 1]]}, r"learning\.topology: expected 'ring'"),
        ({"learning__topology": [*PATH, ["a", "a"]]}, r"learning\.topology: expected .*pairs of different owners"),
        (
            {"learning__topology": [*PATH, ["a", "x"]]},
            r"learning\.topology: expected pairs of owners, found a name that is none of theirs",
        ),
        (
            {"learning__topology": PATH[:-1]},
            r"learning\.topology: expected a connected graph: nothing leads from 'a' to 'f'; add a pair",
        ),
        ({"learning__topology": PATH[1:]}, r"expected a connected graph: nothing leads from 'a' to 'b'"),
        ({"learning__algorithm": "gradient-descent"}, r"learning\.topology: expected only with algorithm = 'gossip'"),
        ({"learning__local_steps": 3}, r"learning\.local_steps: expected only with"),
        ({"learning__momentum": 0.5}, r"learning\.momentum: expected only with"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes, match):
    with pytest.raises(TermsError, match=match):
        gossip_terms("ring", **changes)


def test_hosts_see_sums_so_there_is_nothing_to_mix():
    shared = {"privacy": {"noise": "shared", "delta": 1e-6}, "hosts": ["a", "b", "c"]}
    with pytest.raises(
        TermsError, match=r"privacy\.noise: expected 'each-owner' beside gossip: .* of a sum nobody sees them"
    ):
        gossip_terms("ring").changed(**shared)


def test_the_graph_is_part_of_the_hash_and_the_order_of_its_pairs_is_not(tmp_path):
    base = gossip_terms(PATH)
    turned = gossip_terms([["f", "e"], *PATH[:-1][::-1], ["b", "a"]])
    assert base.hash == turned.hash
    assert len({gossip_terms(graph).hash for graph in GRAPHS.values()} | {gossip_terms([*PATH, ["a", "c"]]).hash}) == 6
    assert parley.Terms.from_dict(base.model_dump()).hash == base.hash
    parley.terms.write_terms(base, tmp_path / "terms.toml")
    assert load_terms(tmp_path / "terms.toml").hash == base.hash


def test_a_file_of_edges_lies_beside_the_terms(tmp_path):
    base = gossip_terms(PATH)
    parley.terms.write_terms(base.changed(learning={"topology": "ring"}), tmp_path / "terms.toml")
    text = (tmp_path / "terms.toml").read_text().replace('topology = "ring"', 'topology = "edges.csv"')
    (tmp_path / "terms.toml").write_text(text)
    with pytest.raises(TermsError, match=r"learning\.topology: expected .* no such file beside the terms"):
        load_terms(tmp_path / "terms.toml")
    lines = ["# neighbours", "a,b", "c , b  # both ways", "", "c d", "d, e", "e,f"]
    (tmp_path / "edges.csv").write_text("\n".join(lines))
    assert load_terms(tmp_path / "terms.toml").hash == base.hash
    for wrong in ("a,secret,c\n", "a,b\nb,secret\n", "", "a,b\n" * 300_000, "secret"):
        (tmp_path / "edges.csv").write_text(wrong)
        with pytest.raises(TermsError, match=r"learning\.topology: expected") as refused:
            load_terms(tmp_path / "terms.toml")
        assert "secret" not in str(refused.value)  # it may be the wrong file


def test_owners_that_leave_take_their_pairs_with_them():
    assert gossip_terms(PATH).changed(only=["a", "b", "c"]).learning.topology == (("a", "b"), ("b", "c"))
    assert gossip_terms("ring").changed(only=["a", "b", "c"]).learning.topology == "ring"
    with pytest.raises(TermsError, match="expected a connected graph"):
        gossip_terms(PATH).changed(only=["a", "b", "d"])


def test_crowds_need_a_centre():
    with pytest.raises(TermsError, match=r"learning\.algorithm: expected at most 256 owners beside gossip"):
        many_terms(257)
    assert many_terms(256).learning.topology == "complete"


def many_terms(count):
    content = gossip_terms("complete").model_dump()
    owner = content["owners"][0]
    return parley.Terms.from_dict({**content, "owners": [owner | {"name": f"o{k}"} for k in range(count)]})


def test_one_owner_is_a_graph_too():
    terms = gossip_terms("ring", 40, privacy__clip=None, learning__horizon=600)
    end, _ = quiet_run(terms, {"a": TABLES["a"]})
    np.testing.assert_allclose(end, optimum({"a": TABLES["a"]}), rtol=0, atol=1e-8)
