"""No centre: where owners on a graph end without noise, that a complete graph is gradient descent, and what a release
spends."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from federated import Quiet, different_tables, moments, optimum, quiet_run
from gossiping import GRAPHS, NAMES, PATH, SIZES, gossip_terms, radius_of
from samples import class_table

import parley
from parley.errors import SettingError, TermsError
from parley.learning.algorithms.algorithm import Asker, State, run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.algorithms.gossip import Gossip, spectral_gap
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.losses import LinearRegression
from parley.owner.ledger import Ledger
from parley.protocol.aggregation import aggregation_of
from parley.report.words.training import consensus_line
from parley.terms import load_terms
from parley.terms.topology import edges

TABLES = different_tables(SIZES)


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
    assert f"at most {ring.consensus_error:.3g} away from the model (consensus error)" in consensus_line(ring)
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
        run(rule, Halfway(agreements), aggregation_of(terms), Asker.from_setup(setup), start, keep)
    kept = load_checkpoint(file, terms, start).state
    assert kept.round == 4
    assert kept.memory.keys() == {f"{what} of {name}" for what in ("point", "tracker", "gradient") for name in TABLES}
    resumed = run(rule, Quiet(agreements), aggregation_of(terms), Asker.from_setup(setup), kept)
    whole, _ = quiet_run(terms, TABLES)
    np.testing.assert_array_equal(resumed.theta, whole)
    forgetful = replace(kept, memory={**kept.memory, "tracker of c": np.zeros(3)})
    assert not np.array_equal(
        run(rule, Quiet(agreements), aggregation_of(terms), Asker.from_setup(setup), forgetful).theta, whole
    )
    with pytest.raises(SettingError, match="not a Parley checkpoint"):
        load_checkpoint(file, terms, State(1, np.zeros(3)))


# Terms.


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (
            {"learning__topology": None},
            r"learning\.topology: required with algorithm = 'gossip'; expected 'ring', 'grid'",
        ),
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
            r"learning\.topology: expected pairs of owners; found a name that no owner has",
        ),
        (
            {"learning__topology": PATH[:-1]},
            r"learning\.topology: expected a connected graph, but no path leads from 'a' to 'f'; add a pair",
        ),
        ({"learning__topology": PATH[1:]}, r"expected a connected graph, but no path leads from 'a' to 'b'"),
        ({"learning__algorithm": "gradient-descent"}, r"learning\.topology: allowed only with algorithm = 'gossip'"),
        ({"learning__local_steps": 3}, r"learning\.local_steps: allowed only with"),
        ({"learning__momentum": 0.5}, r"learning\.momentum: allowed only with"),
    ],
)
def test_terms_that_make_no_sense_are_refused(changes, match):
    with pytest.raises(TermsError, match=match):
        gossip_terms("ring", **changes)


def test_hosts_see_sums_so_there_is_nothing_to_mix():
    shared = {"privacy": {"noise": "shared", "delta": 1e-6}, "hosts": ["a", "b", "c"]}
    with pytest.raises(
        TermsError, match=r"privacy\.noise: expected 'each-owner' with gossip, .* shared noise reveals only their sum"
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
    with pytest.raises(TermsError, match=r"learning\.topology: no readable text file .* expected 'ring'"):
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
    with pytest.raises(TermsError, match=r"learning\.algorithm: expected at most 256 owners with gossip"):
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
