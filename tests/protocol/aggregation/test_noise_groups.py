"""Owners who answer alike in a simulation: their mean's noise at once is that of each one's drawn for itself."""

import numpy as np
import pytest
from samples import regression_table
from scipy import stats

import parley
from parley.decisions.expectation.pilot_runs import PilotExchange
from parley.decisions.knowledge.pilot import open_pilot
from parley.learning.algorithms.algorithm import Asker, State
from parley.privacy.mechanisms import Bounded, FastNoise
from parley.protocol.aggregation import EachOwner, noise_groups, weighted_mean
from parley.protocol.queries import Answer

RUNS = 20_000


def terms_of(records, epsilons, mechanism="laplace", **learning):
    delta = {"delta": 1e-6} if mechanism == "gaussian" else {}
    return parley.Terms.from_dict(
        {
            "model": {"kind": "linear-regression", "target": "y", "features": ["x0", "x1"]},
            "learning": {"horizon": 4, "step": 0.1, **learning},
            "privacy": {"clip": 3.0, "mechanism": mechanism, **delta},
            "owners": [
                {"name": f"o{i}", "records": int(n), "epsilon": float(e)}
                for i, (n, e) in enumerate(zip(records, epsilons, strict=True))
            ],
        }
    )


def asked(pilot, seed=1, replicates=RUNS):
    """The answers to a first round."""
    exchange = PilotExchange(pilot, replicates, seed)
    begin = State(1, np.zeros((replicates, pilot.source.width)))
    return exchange.ask(pilot.algorithm.questions(begin, Asker("pilot", "pilot", pilot.setup.schedule)))


def one_by_one(pilot, seed=2):
    """The same as owners do it: each draws its own noise, and all are averaged."""
    noise, answers = FastNoise(seed), []
    exact = asked_quietly(pilot)
    for name, part in pilot.setup.parts.items():
        law = part.training.series.mechanism
        value = law.release(Bounded(np.repeat(exact[None], RUNS, axis=0), law.sensitivity, law.norm), noise)
        answers.append(Answer("q", name, part.training.question.records, value))
    return weighted_mean(answers)


def asked_quietly(pilot):
    exchange = PilotExchange(pilot, 1, 0, noiseless=True)
    begin = State(1, np.zeros((1, pilot.source.width)))
    return EachOwner().combine(
        exchange.ask(pilot.algorithm.questions(begin, Asker("pilot", "pilot", pilot.setup.schedule)))
    )[0]


CASES = {
    "equal": ([500] * 7, [1.0] * 7),
    "sizes": ([500, 800, 1300, 2000], [1.0] * 4),
    "everything": ([500, 800, 800, 1300, 2000], [1.0, 0.3, 0.3, 2.0, 0.5]),
    "one": ([500], [1.0]),
}


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("case", CASES)
def test_a_pilots_answer_has_the_law_of_the_owners_mean(mechanism, case):
    pilot = open_pilot(terms_of(*CASES[case], mechanism), regression_table(300))
    mean, answers = EachOwner().combine(asked(pilot)), asked(pilot)
    assert len(answers) == 1
    assert sum(answer.records for answer in answers) == sum(CASES[case][0])
    assert sorted(name for answer in answers for name in answer.owners) == sorted(pilot.setup.schedule.names)
    apart = one_by_one(pilot)
    assert stats.ks_2samp(mean[:, 0], apart[:, 0]).pvalue > 1e-4
    squares = (mean - asked_quietly(pilot)) ** 2 / pilot.combined_variance()
    assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(squares.size)
    if case != "one":  # and one owner's noise, or the mean of their scales, would be noticed
        own = pilot.mechanisms[0].variance
        assert abs((squares * pilot.combined_variance() / own).mean() - 1) > 4 * squares.std() / np.sqrt(squares.size)


@pytest.mark.parametrize(("case", "draws"), [("equal", 1), ("sizes", 1), ("everything", 4)])
def test_laplace_noise_takes_a_draw_for_each_epsilon_alone(case, draws):
    """n_l times the scale is the same for all sizes: a record's share in a sum does not depend on how many there
    are."""
    pilot = open_pilot(terms_of(*CASES[case]), regression_table(300))
    (group,) = noise_groups({name: part.training for name, part in pilot.setup.parts.items()})
    assert len(FastNoise(0).combined(group.weights)._weight_counts) == draws
    assert group.shares.sum() == pytest.approx(1)


def test_noise_on_a_grid_is_combined_where_it_is_the_same():
    """Noise of whole grid units cannot be scaled: only owners alike are one group."""
    terms = terms_of([500, 500, 800], [1.0, 1.0, 1.0]).changed(
        learning={"algorithm": "private-sgd", "step": 0.1, "batches": 1, "epochs": 4},
        privacy={"mechanism": "geometric"},
    )
    pilot = open_pilot(terms, regression_table(300))
    answers = asked(pilot)
    assert sorted(len(answer.owners) for answer in answers) == [1, 2]
    squares = (weighted_mean(answers) - asked_quietly(pilot)) ** 2 / pilot.combined_variance()
    # the grid widens the scale by 2^-12
    assert abs(squares.mean() - 1) < 4 * squares.std() / np.sqrt(squares.size) + 1e-3


def test_owners_with_turns_are_combined_among_those_asked():
    terms = terms_of([500] * 6, [1.0] * 6, participation=0.5)
    pilot = open_pilot(terms, regression_table(300))
    (answer,) = asked(pilot)
    assert answer.owners == pilot.setup.schedule.at(1)
    assert answer.records == 1500


def test_the_draw_that_moments_use_is_the_same_noise():
    pilot = open_pilot(terms_of(*CASES["everything"]), regression_table(300))
    drawn = pilot.drawn_together((RUNS, 2), seed=4)
    assert stats.ks_2samp(drawn[:, 0], one_by_one(pilot)[:, 0] - asked_quietly(pilot)[0]).pvalue > 1e-4
