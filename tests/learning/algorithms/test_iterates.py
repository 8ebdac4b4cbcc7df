import json

import numpy as np
import pytest
from samples import make_terms, regression_table

import parley
from parley.decisions.expectation.error_moments import error_moments
from parley.errors import TermsError
from parley.learning.algorithms.algorithm import State
from parley.learning.algorithms.averaged_subgradient import AveragedSubgradient
from parley.learning.algorithms.gradient_descent import GradientDescent
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.losses import LinearRegression

GRADIENTS = np.random.default_rng(0).normal(size=(7, 3))


def states_of(algorithm, aborted=()):
    """The states after every round of the same answers."""
    state, states = algorithm.start(np.ones(3)), []
    for k, gradient in enumerate(GRADIENTS, 1):
        state = State(k + 1, state.theta, state.memory) if k in aborted else algorithm.update(state, gradient)
        states.append(state)
    return states


@pytest.mark.parametrize("kind", [GradientDescent, AveragedSubgradient])
@pytest.mark.parametrize("average", ["last", "tail"])
def test_the_model_is_the_iterate_or_the_mean_of_the_last_half(kind, average):
    algorithm = kind(LinearRegression(0.1), 7, None, 0.3, average=average)
    states = states_of(algorithm)
    points = np.array([state.theta for state in states])
    expected = points[-1] if average == "last" else points[3:].mean(axis=0)  # rounds 4 to 7 of 7
    np.testing.assert_allclose(algorithm.model(states[-1]), expected, rtol=1e-12)
    wrong = points[2:].mean(axis=0) if average == "tail" else points[-2]
    assert not np.allclose(algorithm.model(states[-1]), wrong)


def test_all_iterates_of_gradient_descent():
    algorithm = GradientDescent(LinearRegression(), 7, None, 0.3, decay=0.5, average="all")
    states = states_of(algorithm)
    np.testing.assert_allclose(algorithm.model(states[-1]), np.mean([s.theta for s in states], axis=0), rtol=1e-12)


def test_decay_and_momentum_are_as_they_are_written():
    theta, velocity = np.ones(3), np.zeros(3)
    for k, gradient in enumerate(GRADIENTS, 1):
        velocity = 0.9 * velocity + 0.1 * theta + gradient
        theta = theta - 0.3 / k**0.25 * velocity
    algorithm = GradientDescent(LinearRegression(0.1), 7, None, 0.3, decay=0.25, momentum=0.9)
    np.testing.assert_allclose(states_of(algorithm)[-1].theta, theta, rtol=1e-12)
    published = GradientDescent(LinearRegression(), 7, None, 49.0)
    first = states_of(published)[0].theta
    np.testing.assert_allclose(first, 1 - GRADIENTS[0], rtol=1e-12)  # rho/(T^2 k)


def test_an_aborted_round_leaves_the_average_within_the_path():
    algorithm = GradientDescent(LinearRegression(), 7, None, 0.3, decay=0.0, average="tail")
    states = states_of(algorithm, aborted=(4, 6))
    points = np.array([state.theta for state in states])
    model = algorithm.model(states[-1])
    assert (model >= points[2:].min(axis=0) - 1e-12).all()
    assert (model <= points[2:].max(axis=0) + 1e-12).all()


@pytest.mark.parametrize(
    "algorithm",
    [
        GradientDescent(LinearRegression(0.2), 9, None, 0.4, decay=0.0, momentum=0.8, average="tail"),
        GradientDescent(LinearRegression(0.2), 9, None, 0.4, decay=0.3),
        AveragedSubgradient(LinearRegression(), 9, None, 0.4, average="tail"),
    ],
    ids=["momentum", "decay", "averaged"],
)
def test_the_moments_are_those_of_many_runs(algorithm):
    """Noise of unit variance each round; 40,000 runs: within 4 standard errors, and not for twice the noise."""
    curvature, start = np.array([1.5, 0.2]), np.array([1.0, -2.0])
    moments = error_moments(algorithm, curvature, start)
    rng, runs = np.random.default_rng(1), 40_000
    state = algorithm.start(np.broadcast_to(start, (runs, 2)), (runs,))
    for _ in range(9):
        state = algorithm.update(state, curvature * state.theta + rng.normal(size=(runs, 2)))
    model = algorithm.model(state)
    spread = model.var(axis=0, ddof=1)
    assert (np.abs(model.mean(axis=0) - moments.bias[-1]) < 4 * np.sqrt(spread / runs)).all()
    assert (np.abs(spread - moments.gain[-1]) < 4 * spread * np.sqrt(2 / runs)).all()
    assert (np.abs(spread - 2 * moments.gain[-1]) > 4 * spread * np.sqrt(2 / runs)).all()
    np.testing.assert_allclose(np.sum(moments.unit**2, axis=0), moments.gain[-1], rtol=1e-9)


def test_a_checkpoint_keeps_what_the_algorithm_remembers(tmp_path):
    terms = make_terms(
        100,
        learning__algorithm="gradient-descent",
        learning__decay=0.0,
        learning__momentum=0.9,
        learning__average="tail",
    )
    algorithm = GradientDescent(LinearRegression(), 10, 5.0, 0.2, 0.0, 0.9, "tail")
    state = algorithm.update(algorithm.start(np.zeros(3)), np.ones(3))
    path = tmp_path / "run.json"
    Checkpoint(terms.hash, state, {}, {}).save(path)
    again = load_checkpoint(path, terms, algorithm.start(np.zeros(3))).state
    assert json.loads(path.read_text())["memory"].keys() == {"velocity", "average"}
    np.testing.assert_array_equal(again.memory["velocity"], state.memory["velocity"])


def test_what_need_not_be_said_changes_no_hash():
    plain = make_terms(100)
    assert make_terms(100, learning__start="zero", learning__average="all").hash == plain.hash
    assert make_terms(100, learning__average="tail").hash != plain.hash
    descent = make_terms(100, learning__algorithm="gradient-descent")
    assert make_terms(100, learning__algorithm="gradient-descent", learning__average="last").hash == descent.hash
    assert make_terms(100, learning__algorithm="gradient-descent", learning__decay=0.0).hash != descent.hash


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"learning__momentum": 0.9}, "momentum"),
        ({"learning__decay": 0.5}, "decay"),
        ({"learning__algorithm": "gradient-descent", "learning__momentum": 1.0}, "momentum"),
        ({"learning__algorithm": "gradient-descent", "learning__decay": float("nan")}, "decay"),
        ({"learning__algorithm": "federated-averaging", "learning__average": "tail"}, "average"),
        ({"learning__start": "public"}, "start"),
        ({"model__whitening": "public"}, "whitening"),
        ({"model__whitening": "public-curvature"}, "whitening"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(changes, key):
    with pytest.raises(TermsError, match=key):
        make_terms(100, **changes)


def test_terms_with_all_of_it_train(tmp_path):
    regression_table(300, seed=9).to_csv(tmp_path / "public.csv", index=False)
    terms = make_terms(
        2000, model__public=str(tmp_path / "public.csv"), model__radius=None, model__whitening="public",
        learning__start="public",
        learning__algorithm="gradient-descent", learning__decay=0.0, learning__average="tail", learning__momentum=0.5,
        learning__step="auto", learning__horizon=6, privacy__clip=20.0, epsilon=100.0,
    )  # fmt: skip
    result = parley.train(terms, [parley.Owner("a", regression_table(2000, seed=1))], replicates=20, seed=3)
    from_zero = parley.train(
        terms.changed(learning={"start": None}),
        [parley.Owner("a", regression_table(2000, seed=1))],
        replicates=20,
        seed=3,
    )
    assert result.path[0].mean() < 0.5 * from_zero.path[0].mean()
    assert result.relative_fitness["mean"] < 0.1
