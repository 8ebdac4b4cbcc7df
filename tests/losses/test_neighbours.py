"""A sample of `benchmarks/neighbours.py`: gradient ascent finds no neighbours that a rule of the family drives too far
apart."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from parley.data import Design
from parley.data.design import summation_slack
from parley.losses.local_update import mean_direction
from parley.protocol.setup import resolve


def load_benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "neighbours.py"
    spec = importlib.util.spec_from_file_location("neighbours_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCHMARK = load_benchmark()


@pytest.mark.parametrize("rule", BENCHMARK.RULES)
def test_no_ascent_gets_further_than_the_sensitivity(rule):
    """And most get there, to within a billionth: less noise would be a lie. A pull leaves a little room."""
    climbed, answered = BENCHMARK.search(rule, 120, np.random.default_rng(3), looked=3)
    assert max(climbed, answered) <= 1
    assert min(climbed, answered) > (0.6 if "proximal" in BENCHMARK.RULES[rule] else 0.999)


MUTANTS = {
    "a pull that the longest step does not count": {"proximal": 30.0},
    "steps beyond the longest": {"step": 3.0},
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_ascent_finds_local_steps_that_expand(mutant):
    case = BENCHMARK.with_mutant(BENCHMARK.make_case("fedprox", BENCHMARK.SETTINGS[0], 1), **MUTANTS[mutant])
    assert BENCHMARK.climb(case, 100, np.random.default_rng(0))[1].max() > 1.1


@pytest.mark.parametrize("rule", ["fedprox", "fedsplit"])
def test_the_ascent_finds_a_share_that_is_too_small(rule):
    """As if local steps forgot twice as fast as they do. The true claim is reached to within a thousandth."""
    case = BENCHMARK.make_case(rule, BENCHMARK.SETTINGS[0] | {"limit": False, "local_steps": 12}, 1)
    share, faster = case.local.share, replace(case.local, proximal=2 * case.local.proximal).share
    assert faster < 0.9 * share < 0.9
    lie = replace(case.question, sensitivity=case.question.sensitivity * faster / share)
    found = BENCHMARK.climb(case, 300, np.random.default_rng(0))[1].max()
    assert 0.999 < found <= 1
    assert BENCHMARK.climb(replace(case, question=lie), 300, np.random.default_rng(0))[1].max() > 1.05


def test_the_prox_moves_by_its_strong_convexity_however_many_steps_it_takes():
    """FedSplit with 1, 10 and 10,000 steps: where the steps end, rho s times the answer, moves by at most 2 Xi/(n
    mu)."""
    base = BENCHMARK.make_case("fedsplit", BENCHMARK.SETTINGS[0], 1)
    most = 2 * base.question.bound.value / (BENCHMARK.ROWS * 0.7)
    ends = [replace(base.local, step=base.local.step / 2, steps=s) for s in (1, 10, 10_000)]
    claims = [local.step * local.steps * local.sensitivity(base.question.bound, BENCHMARK.ROWS, 0.0) for local in ends]
    assert claims == sorted(claims)
    assert claims[1] < 0.95 * most
    assert claims[-1] == pytest.approx(most, rel=1e-6)


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="no extended precision on this machine")
@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize(
    ("rule", "mu", "shorter"),
    [("scaffold", None, 1.0), ("fedsplit", 0.7, 1.0), ("fedsplit", 1e4, 1.0), ("fedlin", None, 1e-6)],
)
def test_the_rounding_of_corrected_steps_is_within_its_bound(rule, mu, shorter, size):
    """Against extended precision, with corrections up to the largest: each step, the pull and the last division."""
    case, wide, worst = BENCHMARK.make_case(rule, BENCHMARK.SETTINGS[1] | {"radius": 5.0}, 2), np.longdouble, 0.0
    if mu is not None:
        case = replace(case, terms=case.terms.changed(learning={"proximal": mu}))
    question = (
        resolve(case.terms.changed(learning={"step": case.local.step * shorter * min(1.0, 6.0 / (mu or 1.0))}))
        .part("a")
        .training.question
    )
    local, bound, rng = question.local, question.bound, np.random.default_rng(5)
    for _ in range(40):
        X, y = rng.uniform(-1, 1, (3, 3)), rng.uniform(-3, 3, 3)
        start, correction = rng.uniform(-5, 5, 3), size * local.reach * rng.uniform(-1, 1, 3)
        design = Design(X, y, np.ones(3))
        computed = local.direction(
            lambda w, d=design: question.objective.local_gradient(d, w, bound), start, correction
        )

        def exact(w, X=X, y=y):
            return 2 * (wide(X) @ w - wide(y)) @ wide(X) / 3

        pull = wide(local.proximal), wide(correction)
        truth = mean_direction(exact, wide(start), local.steps, wide(local.step), wide(0), wide(local.radius), *pull)
        worst = max(worst, float(np.linalg.norm(computed - truth)))
    assert 0 < worst <= local._rounding(bound.value, summation_slack(3, 3))
