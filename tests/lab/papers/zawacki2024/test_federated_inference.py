"""Z's chapter 8: budgets that add up, splits as they are said to be, and lines that go through the same loop as
releases."""

from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.privacy.accounting import compose
from parley.privacy.events import GaussianEvent
from parley.privacy.mechanisms.gaussian import gaussian_ratio
from parley.protocol.setup import resolve
from parley_lab.papers.zawacki2024.accuracy import heading
from parley_lab.papers.zawacki2024.federated_inference import (
    CLAIMS,
    FIGURES,
    METHODS,
    UPDATE_ITERATIONS,
    Line,
    accuracies,
    equal_totals,
    per_update,
    rounds_of,
    terms_of,
    total_epsilon,
    trace,
)
from parley_lab.papers.zawacki2024.federated_tasks import biopsies, flowers
from parley_lab.papers.zawacki2024.pictures import accuracy_paths

BY_NAME = {method.name: method for method in METHODS}


@pytest.mark.parametrize("number", [*FIGURES])
@pytest.mark.parametrize("name", [*BY_NAME])
def test_every_answer_has_the_noise_of_zs_update(number, name):
    """Totals are chosen so that one answer of the series costs Z's (eps, delta), whoever answers how often."""
    figure, method = FIGURES[number], BY_NAME[name]
    task = figure.draw(np.random.default_rng(0))
    terms = terms_of(figure, method, task, rounds_of(figure, method)[0], per_update(figure, method, len(task.clients)))
    setup = resolve(terms, task.clients[0])
    for part in setup.parts.values():
        mechanism = part.training.series.mechanism
        ratio = mechanism.noise_scale / mechanism.sensitivity
        if figure.epsilon is None:  # no noise: of the least figure's with any, less than a hundredth
            assert ratio < 0.01 * gaussian_ratio(1.38, 0.0095)
        else:
            assert ratio == pytest.approx(gaussian_ratio(figure.epsilon, figure.delta), rel=1e-4)


def test_a_total_is_that_of_composition():
    event = GaussianEvent(gaussian_ratio(1.38, 0.0095), count=150)
    assert total_epsilon(1.38, 0.0095, 150) == pytest.approx(compose([event], 0.0095, "pld").high, rel=0.02)
    assert total_epsilon(0.5, 0.0025, 1) == pytest.approx(0.5, rel=1e-5)


def test_experts_hold_all_but_three_of_their_species():
    task = flowers(np.random.default_rng(1), expert=True)
    assert len(task.test) == 45
    assert sum(len(table) for table in task.clients) == 105  # of 1/105, which is Z's delta
    species = [table.kind.value_counts() for table in task.clients]
    for place, counts in enumerate(species):
        own = counts.index[0]
        total = sum(int(each.get(own, 0)) for each in species)
        assert int(counts[own]) == total - 3, place
        assert len(counts) == 3


def test_staggered_clients_answer_every_so_often():
    figure = FIGURES["8.8"]
    task = biopsies(np.random.default_rng(0), skewed=True)
    infer = terms_of(figure, BY_NAME["FedInfer"], task, 100, [1.0] * 4)
    assert tuple(owner.stride for owner in infer.owners) == UPDATE_ITERATIONS
    stepping = terms_of(figure, BY_NAME["FedLin"], task, 20, [1.0] * 4)
    assert [owner.local_steps for owner in stepping.owners] == [10, 5, 2, 1]
    shares = [float((table.kind == "malignant").mean()) for table in task.clients]
    assert shares[0] > shares[1] > shares[2] > shares[3]


def test_without_noise_fedinfer_is_there_at_once():
    """Its first model is its last; gradient methods come to the same accuracy later."""
    figure = replace(FIGURES["8.2"], iterations=10)
    lines = {method.name: trace(figure, method, 4, 2) for method in METHODS}
    infer = lines["FedInfer"].accuracy
    np.testing.assert_allclose(infer, np.broadcast_to(infer[0], infer.shape))
    for line in lines.values():
        assert float(line.last.mean()) == pytest.approx(float(infer.mean()), abs=1.5)


def test_every_iteration_has_one_point_and_the_first_one_is_a_step():
    """Where a step takes two answers, the round that only asks for gradients is no point of the line: it would begin
    with a jump."""
    figure = replace(FIGURES["8.2"], iterations=6)
    for method in METHODS:
        line = trace(figure, method, 2, 2)
        np.testing.assert_array_equal(line.iterations, np.arange(1, 7))
        assert line.rounds == (12 if method.paired else 6)
        assert line.accuracy.shape == (6, 2)
        assert line.mean[0] > 70  # at the start, all scores alike, half of the points are told


def test_trials_of_a_batch_differ_and_repeat():
    figure = FIGURES["8.3"]
    task = figure.draw(np.random.default_rng(0))
    terms = terms_of(figure, BY_NAME["FedInfer"], task, 3, [0.3] * 2)
    first, again = accuracies(terms, task, 20, 5), accuracies(terms, task, 20, 5)
    np.testing.assert_array_equal(first, again)
    assert first.shape == (3, 20)
    assert len(np.unique(first[0])) > 3


def test_at_equal_totals_every_client_pays_the_same():
    found = dict(equal_totals(replace(FIGURES["8.3"], local_steps=1), 1, 1))
    assert {line.epsilon for lines in found.values() for line in lines} == {1.0, 3.0, 10.0}
    assert all(len(line.mean) == 1 for line in found["FedInfer"])
    assert found["FedInfer"][-1].last.mean() > 85


def test_the_command_prints_one_object_and_refuses_other_figures():
    run = CliRunner().invoke(
        app, ["reproduce", "zawacki2024", "--figure", "8.2", "--trials", "4", "--splits", "2", "--no-totals", "--json"]
    )
    assert run.exit_code == 0, run.output
    assert '"claim": "all reach the optimum, FedInfer in one step"' in run.stdout
    refused = CliRunner().invoke(app, ["reproduce", "zawacki2024", "--figure", "9.9"])
    assert refused.exit_code != 0


def test_pictures_have_published_lines_and_the_numbers_in_their_title():
    """Of figure 8.7: one dashed line for the three methods that have 91 in print, one for FedInfer's 95."""
    figure, steps = FIGURES["8.7"], np.arange(1.0, 4.0)
    lines = [
        Line(method.name, steps, np.full((3, 4), 90.0 + place), 3, 1.0, 0.01, 2, 5)
        for place, method in enumerate(METHODS)
    ]
    title = heading(figure, lines)
    assert title.split("\n")[0] == "Figure 8.7: breast cancer, dealt at random; (0.5, 0.0025) an update, replace-one"
    assert "FedAvg 90.0 (91), SCAFFOLD 91.0 (91), FedLin 92.0 (91), FedInfer 93.0 (95)" in title
    drawn = [(line.method, line.iterations, line.mean) for line in lines]
    axes = accuracy_paths(drawn, title, figure.published).axes[0]
    dashed = {line.get_label(): line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"}
    assert dashed == {"FedAvg, SCAFFOLD, FedLin: 91 published": 91.0, "FedInfer: 95 published": 95.0}
    assert CLAIMS["8.7"] in title
    plain = FIGURES["8.5"]
    assert len(accuracy_paths(drawn, heading(plain, lines), plain.published).axes[0].lines) == 4
