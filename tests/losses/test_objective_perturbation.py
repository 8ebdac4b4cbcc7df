"""A cost with a random linear term: what its minimum tells of a person, by search; whether it has the law it should;
how near it is computed."""

import math
from dataclasses import fields, replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import gamma, kstest

import parley
from parley.data import Design
from parley.errors import GuaranteeError, TermsError
from parley.losses.objective_perturbation import LinearTermLaw, PerturbedCost, zero_sum_basis
from parley.privacy.mechanisms.exact_samplers import SeededWords
from parley.protocol.setup import resolve

KINDS = ["logistic-regression", "softmax-regression"]


def perturbed_terms(kind="logistic-regression", records=4000, epsilon=1.0, classes=3, width=2, privacy=None, **model):
    names = [f"x{j}" for j in range(width)]
    several = {"categories": {"y": [f"c{c}" for c in range(classes)]}} if kind == "softmax-regression" else {}
    return parley.Terms.from_dict(
        {
            "model": {
                "kind": kind,
                "target": "y",
                "features": names,
                "intercept": False,
                "radius": 30.0,
                **several,
                **model,
            },
            "learning": {"algorithm": "objective-perturbation"},
            "privacy": {"clip": 2.0, **(privacy or {})},
            "owners": [{"name": "a", "records": records, "epsilon": epsilon}],
        }
    )


def cost_of(*args, **keys) -> PerturbedCost:
    return resolve(perturbed_terms(*args, **keys)).part("a").training.question.cost


def rows(kind, n, rng, classes=3, width=2):
    y = rng.integers(0, classes, n).astype(float) if kind == "softmax-regression" else rng.choice([-1.0, 1.0], n)
    return Design(rng.normal(size=(n, width)), y, np.ones(n))


def shares(cost, phi, z, y):
    """Rows' gradients [B, d] and second derivatives [B, d, d] in phi [B, d], by the textbook: for two classes the score
    is phi.z, for several the scores are B phi z."""
    if cost.basis.size == 1:
        p = expit(-y * np.vecdot(phi, z))
        return (-y * p)[:, None] * z, (p * (1 - p))[:, None, None] * z[:, :, None] * z[:, None, :]
    p = softmax(np.einsum("ck,bkj,bj->bc", cost.basis, phi.reshape(len(phi), -1, cost.width), z), axis=1)
    residual = (p - np.eye(len(cost.basis))[y.astype(int)]) @ cost.basis
    curvature = (
        np.einsum("ck,bc,cl->bkl", cost.basis, p, cost.basis)
        - (p @ cost.basis)[:, :, None] * (p @ cost.basis)[:, None, :]
    )
    gradients = (residual[:, :, None] * z[:, None, :]).reshape(phi.shape)
    curvatures = np.einsum("bkl,bi,bj->bkilj", curvature, z, z).reshape(*phi.shape, -1)
    return gradients, curvatures


def log_ratio(cost, phi, others, mine, theirs):
    """ln of the densities of the minimum at phi [B, d] of two tables of n rows: by the linear term that each must have
    had, and the determinant of its Jacobian. `others`: the sums (gradients, curvatures) of the rows that both have;
    `mine`, `theirs`: a person's rows in each."""
    n, sizes, volumes = cost.records, [], []
    for person in (mine, theirs):
        parts = [shares(cost, phi, z, y) for z, y in person]
        gradient, curvature = (
            common + sum(each) for common, each in zip(others, zip(*parts, strict=True), strict=True)
        )
        sizes.append(np.linalg.norm(gradient / n + cost.penalty * phi, axis=1))
        volumes.append(np.linalg.slogdet(curvature / n + cost.penalty * np.eye(cost.numbers))[1])
    return cost.rate * (sizes[1] - sizes[0]) + volumes[0] - volumes[1]


def loudest(cost, labels, people=1, crowd=600, generations=150):
    """The largest log ratio that a search finds: over a person's rows in both tables, over phi, and over whatever
    gradient all other rows may have together (they may be many, and so sure of themselves that they have hardly any
    curvature). By differential evolution, all at once."""
    rng, d, p = np.random.default_rng(0), cost.numbers, cost.width

    def value(v):
        z = v[:, : 2 * people * p].reshape(-1, 2 * people, p)
        z = z / np.maximum(1.0, np.linalg.norm(z, axis=2, keepdims=True))
        phi, gradient = v[:, -2 * d : -d] * 10, v[:, -d:] * 10 * cost.penalty * cost.records
        mine, theirs = (
            [(z[:, k], np.full(len(v), label)) for k in range(first, first + people)]
            for label, first in zip(labels, (0, people), strict=True)
        )
        return log_ratio(cost, phi, (gradient, 0.0), mine, theirs)

    here = rng.normal(size=(crowd, 2 * people * p + 2 * d))
    best = value(here)
    for _ in range(generations):
        b, c = (here[rng.permutation(crowd)] for _ in range(2))
        lead = here[np.argsort(-best)[rng.integers(0, 20, crowd)]]
        moved = np.where(rng.random(here.shape) < 0.7, here + 0.6 * (lead - here) + 0.6 * (b - c), here)
        there = value(moved)
        better = there > best
        here[better], best[better] = moved[better], there[better]
    return float(best.max())


def promised(cost, people=1):
    """What linear term and penalty of a cost are meant to promise a person with so many rows."""
    rate, penalty = cost.rate / cost.records, cost.penalty * cost.records
    return people * (cost.size * rate + cost.law.row_cost(rate, penalty))


CASES = [("logistic-regression", (1.0, 1.0)), ("logistic-regression", (1.0, -1.0)), ("softmax-regression", (0.0, 1.0))]


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
@pytest.mark.parametrize(("kind", "labels"), CASES)
def test_no_neighbours_are_further_apart_than_epsilon_and_some_are_nearly_that_far(kind, labels, epsilon):
    cost = cost_of(kind, epsilon=epsilon)
    assert promised(cost) <= 0.99 * epsilon  # the rest hides rounding
    worst = loudest(cost, labels)
    assert (0.99 if kind == "logistic-regression" else 0.94) * promised(cost) < worst <= promised(cost)


MUTANTS = {
    "as if one of two neighbours had no row": {"rate": 2.0},
    "no room for the Jacobian": {"penalty": 0.01},
    "half the penalty": {"penalty": 0.5},
}


@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize(("kind", "labels"), CASES[1:])
def test_with_any_constant_left_out_some_neighbours_are_further_apart(kind, labels, mutant):
    cost = cost_of(kind, epsilon=0.5)
    broken = replace(cost, **{name: factor * getattr(cost, name) for name, factor in MUTANTS[mutant].items()})
    assert loudest(broken, labels) > 1.01 * 0.5


def test_a_person_with_two_rows_is_covered_and_would_not_be_as_if_it_had_one():
    one = cost_of(epsilon=0.5)
    two = cost_of(epsilon=0.5, privacy={"records_per_person": 2, "person": "who"})
    assert promised(two, people=2) == pytest.approx(promised(one), rel=1e-6)
    assert (
        0.97 * 0.495 < loudest(two, (1.0, -1.0), people=2) <= 0.495 < 1.5 * 0.495 < loudest(one, (1.0, -1.0), people=2)
    )


def test_softmax_rows_curve_more_than_one_way_so_the_rule_of_rank_one_is_not_enough(monkeypatch):
    """The largest eigenvalue of diag(p) - p p' once, where there are two: q (sqrt 2 - q), as if there were two
    classes."""
    monkeypatch.setattr(LinearTermLaw, "trace", lambda self, q: q * (math.sqrt(2) - q))
    monkeypatch.setattr(LinearTermLaw, "classes", 2, raising=False)
    rate, penalty = LinearTermLaw(2, True).choose(Fraction(495, 1000), 1, 4000, 0.0, 4)
    monkeypatch.undo()
    broken = replace(cost_of("softmax-regression"), rate=4000 * rate, penalty=penalty / 4000)
    assert loudest(broken, (0.0, 1.0)) > 1.01 * 0.5


@pytest.mark.parametrize("law", [LinearTermLaw(2, False), LinearTermLaw(3, True), LinearTermLaw(7, True)])
@pytest.mark.parametrize("epsilon", [1e-40, 1e-3, 1.0, 30.0, 1e40])
def test_linear_term_and_penalty_cost_what_they_may_at_any_epsilon(law, epsilon):
    for people, own in ((1, 0.0), (3, 0.0), (1, 1e30)):
        rate, penalty = law.choose(Fraction(epsilon), people, 1000, own, 12)
        assert 0.6 * epsilon <= people * (law.size * rate + law.row_cost(rate, penalty)) <= epsilon
        assert penalty >= own


def test_traces_are_those_of_all_probabilities():
    rng = np.random.default_rng(8)
    for classes in (2, 3, 6):
        p = rng.dirichlet(rng.choice([0.05, 0.3, 1.0, 20.0], classes), 4000)
        q = np.linalg.norm(p - np.eye(classes)[0], axis=1)
        traces, law = 1 - np.sum(p**2, axis=1), LinearTermLaw(classes, True)
        room = np.array([law.trace(each) for each in q]) - traces
        assert room.min() > -1e-12
        assert room.min() < 1e-3 or classes == 6


def test_tables_of_real_rows_show_the_same_ratio_as_the_code_that_minimises():
    """The search above takes gradients and curvatures from the textbook; the minimiser computes the same from
    tables."""
    rng = np.random.default_rng(1)
    for kind in KINDS:
        cost = cost_of(kind, records=12)
        tables = [rows(kind, 12, rng) for _ in range(2)]
        phi, ratios = rng.normal(size=(1, cost.numbers)), []
        looked = [cost.derivatives(table, phi[0], np.zeros(cost.numbers)) for table in tables]
        for table in tables:
            units = cost.unit_rows(table)
            ratios.append([(z[None], np.array([y])) for z, y in zip(units.X, units.y, strict=True)])
        by_book = log_ratio(cost, phi, (np.zeros(cost.numbers), 0.0), *ratios)[0]
        (g, H), (h, K) = looked
        by_code = (
            cost.rate * (np.linalg.norm(h) - np.linalg.norm(g)) + np.linalg.slogdet(H)[1] - np.linalg.slogdet(K)[1]
        )
        assert by_code == pytest.approx(by_book, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_minima_have_the_law_of_the_linear_term(kind):
    """The linear term that each minimum must have had measures as a gamma variable of d, over the rate, and points
    nowhere in particular."""
    rng = np.random.default_rng(2)
    cost, design, count = cost_of(kind, records=8, epsilon=2.0), rows(kind, 8, rng).for_studies(), 300
    found = cost.minima(design, b"s" * 32, count)
    terms = np.array([-cost.derivatives(design, phi, np.zeros(cost.numbers))[0] for phi in found])
    sizes, d = cost.rate * np.linalg.norm(terms, axis=1), cost.numbers
    assert kstest(sizes, gamma(d).cdf).pvalue > 1e-3
    assert kstest(sizes, gamma(d + 1).cdf).pvalue < 1e-6  # as it would be with one normal number too many
    points = terms / np.linalg.norm(terms, axis=1, keepdims=True)
    assert np.abs(points.mean(axis=0)).max() < 4 / np.sqrt(d * count)
    assert np.abs(points.T @ points / count - np.eye(d) / d).max() < 5 / np.sqrt(count) / d


def exact_minimum(cost, design, linear):
    """The minimum of F for this linear term, to 50 digits, by Newton's method on the same rows."""
    with mpmath.workdps(60):
        units, d, p = cost.unit_rows(design), cost.numbers, cost.width
        basis = [[mpmath.mpf(x) for x in row] for row in cost.basis]
        phi = mpmath.zeros(d, 1)
        for _ in range(200):
            gradient = phi * mpmath.mpf(cost.penalty) + mpmath.matrix([mpmath.mpf(x) for x in linear])
            curve = mpmath.eye(d) * mpmath.mpf(cost.penalty)
            for x, y, w in zip(units.X, units.y, units.weight, strict=True):
                z, share = [mpmath.mpf(v) for v in x], mpmath.mpf(w) / len(units)
                if cost.basis.size == 1:
                    q = 1 / (1 + mpmath.exp(y * sum(a * b for a, b in zip(phi, z, strict=True))))
                    residual, curvature = [-y * q], [[q * (1 - q)]]
                else:
                    latent = [sum(phi[k * p + j] * z[j] for j in range(p)) for k in range(d // p)]
                    powers = [mpmath.exp(sum(row[k] * latent[k] for k in range(d // p))) for row in basis]
                    q = [power / sum(powers) for power in powers]
                    free = range(d // p)
                    residual = [sum(row[k] * (q[c] - (c == y)) for c, row in enumerate(basis)) for k in free]
                    mean = [sum(q[c] * row[k] for c, row in enumerate(basis)) for k in free]
                    curvature = [
                        [sum(q[c] * row[k] * row[m] for c, row in enumerate(basis)) - mean[k] * mean[m] for m in free]
                        for k in free
                    ]
                for a in range(d):
                    gradient[a] += share * residual[a // p] * z[a % p]
                    for b in range(d):
                        curve[a, b] += share * curvature[a // p][b // p] * z[a % p] * z[b % p]
            step = mpmath.lu_solve(curve, gradient)
            size = mpmath.norm(step)
            phi -= step * (1 if size < 1 else mpmath.log(1 + size) / size)
            if size < mpmath.mpf(10) ** -45 * (1 + mpmath.norm(phi)):
                return phi
    raise AssertionError("no minimum")


HOSTILE = [
    ("logistic-regression", {}, {}, 1.0),
    ("logistic-regression", {"radius": 1e-30}, {}, 1e40),
    ("logistic-regression", {"radius": 1e40, "class_weight": {"1": 1e45, "0": 1e-45}}, {"clip": 1e-30}, 1e-30),
    ("softmax-regression", {"regularisation": 0.1, "radius": None}, {}, 3.0),
    ("softmax-regression", {"radius": 0.5, "class_weight": {"c1": 30.0}}, {"clip": 1e30}, 1e35),
]


@pytest.mark.parametrize(("kind", "model", "privacy", "scale"), HOSTILE)
@pytest.mark.parametrize("epsilon", [1e-6, 1.0, 1e6])
def test_a_computed_minimum_is_as_near_as_it_is_certified_to_be(kind, model, privacy, scale, epsilon):
    cost = cost_of(kind, records=10, epsilon=epsilon, privacy=privacy, **model)
    rng = np.random.default_rng(4)
    table = rows(kind, 10, rng)
    weights = np.where(
        table.y == 1, model.get("class_weight", {}).get("1", model.get("class_weight", {}).get("c1", 1.0)), 1.0
    )
    design, seed = Design(scale * table.X, table.y, weights), b"t" * 32
    linear, _ = cost.linear_term(SeededWords(seed))
    found = cost.minima(design, seed, 1)[0]
    with mpmath.workdps(60):
        best = exact_minimum(cost, design, linear)
        best = best * min(mpmath.mpf(1), mpmath.mpf(cost.radius) / max(mpmath.norm(best), mpmath.mpf(10) ** -300))
        away = mpmath.norm(mpmath.matrix([mpmath.mpf(x) for x in found]) - best)
        assert away <= cost.distance
        assert cost.distance < 1e-3 * max(cost.radius, 1.0)


def test_a_minimum_that_is_further_off_is_refused():
    """The certificate is about where the search ended, not about whether it meant well."""
    cost, design = cost_of(records=30), rows("logistic-regression", 30, np.random.default_rng(5))
    found = cost.minima(design, b"u" * 32, 1)[0]

    class Sloppy(PerturbedCost):
        def _search(self, design, linear, slack, start):
            phi, _, curve = super()._search(design, linear, slack, start)
            phi = phi + np.array([2 * self.distance, 0.0])
            return phi, float(np.linalg.norm(self.derivatives(design, phi, linear)[0])), curve

    with pytest.raises(GuaranteeError, match="nothing was released"):
        Sloppy(**{each.name: getattr(cost, each.name) for each in fields(cost)}).minima(design, b"u" * 32, 1)
    assert np.isfinite(found).all()


def test_rows_are_in_the_unit_ball_whatever_doubles_they_hold():
    cost, rng = cost_of(width=3, privacy={"clip": 0.3}), np.random.default_rng(6)
    X = rng.normal(size=(300, 3)) * 10.0 ** rng.uniform(-50, 50, (300, 3))
    X[::3] = rng.normal(size=(100, 3)) * 0.3
    units = cost.unit_rows(Design(X, np.ones(300), np.ones(300)))
    sizes = [sum(Fraction(float(v)) ** 2 for v in z) for z in units.X]
    assert max(sizes) <= 1
    assert max(sizes) > Fraction(999_999, 1_000_000)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_basis_spans_scores_that_add_up_to_zero(classes):
    basis = zero_sum_basis(classes)
    np.testing.assert_allclose(basis.T @ basis, np.eye(classes - 1), atol=1e-14)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-14)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ({"model": {"kind": "linear-svm"}}, "objective-perturbation is not available for linear-svm"),
        ({"privacy": {"mechanism": "gaussian", "delta": 1e-6}}, "privacy.mechanism"),
        ({"learning": {"horizon": 2}}, "learning.horizon"),
        ({"learning": {"step": 0.1}}, "learning.step"),
    ],
)
def test_terms_for_which_nothing_is_proved_are_refused(content, word):
    with pytest.raises(TermsError, match=word):
        perturbed_terms().changed(**content)


def test_several_owners_and_many_parameters_are_refused():
    terms = perturbed_terms().model_dump()
    with pytest.raises(TermsError, match="only for a single owner"):
        parley.Terms.from_dict({**terms, "owners": [{"name": name, "records": 5, "epsilon": 1.0} for name in "ab"]})
    with pytest.raises(TermsError, match="at most 600 parameters"):
        cost_of(width=601)
