import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from samples import data_path
from scipy.special import expit
from scipy.stats import ks_2samp
from typer.testing import CliRunner

from parley.cli.app import app
from parley.data.split import batch, shuffled
from parley.report.figures.picture import svg
from parley_lab.papers.aarhus2020 import digits, tables
from parley_lab.papers.aarhus2020.collaborative_descent import (
    BATCHES,
    DELTA,
    EPSILONS,
    PUBLISHED,
    TABLES,
    Cell,
    fit_clip,
    step_epsilon,
    total_epsilon,
)
from parley_lab.papers.aarhus2020.digits import load_digits, synthetic_digits
from parley_lab.papers.aarhus2020.document import DOCUMENT
from parley_lab.papers.aarhus2020.tables import Runs
from parley_lab.papers.runner import choose, computed, merge

CLIP = {"l1": 0.08, "l2": 0.008}


@pytest.fixture(scope="module")
def shapes():
    return synthetic_digits(600)


def sum_noise(cell, shapes):
    """The parameter of the noise on each owner's sum over a batch: C/eps or sigma."""
    terms = cell.terms(len(shapes.images))
    agreements = [owner.prepare(terms) for owner in shapes.owners(len(terms.owners))]
    if terms.noise.summed:
        return [math.sqrt(agreements[0].setup.law().sum_variance) / BATCHES]
    scales = [agreement.part.training.series.mechanism.noise_scale for agreement in agreements]
    return [scale * part.records / BATCHES for scale, part in zip(scales, terms.owners, strict=True)]


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("place", [0, 9])
def test_the_noise_is_the_published_one(shapes, norm, place):
    epsilon = EPSILONS[norm][place]
    published = CLIP[norm] / epsilon * (1 if norm == "l1" else math.sqrt(2 * math.log(1.25 / DELTA)))
    cell = Cell("alone", norm, epsilon, CLIP[norm])
    assert sum_noise(cell, shapes) == pytest.approx([published], rel=1e-5)
    assert sum_noise(replace(cell, who="own noise"), shapes) == pytest.approx([published] * 3, rel=1e-5)
    hosted = replace(cell, who="one noise")
    assert sum(part.epochs for part in hosted.agreements) == cell.epochs
    deviation = published * (math.sqrt(2) if norm == "l1" else 1)
    for part in hosted.agreements:  # hosts draw on a grid, and pay for it
        assert part.terms(len(shapes.images)).noise.summed
        assert sum_noise(part, shapes) == pytest.approx([deviation], rel=0.01)
    assert len({part.seed for part in hosted.agreements}) == len(hosted.agreements)


def test_a_person_pays_for_all_epochs_and_for_being_replaced():
    for norm, epsilons in EPSILONS.items():
        for epsilon in epsilons:
            step, total = step_epsilon(norm, epsilon), total_epsilon(norm, epsilon)
            assert step < total <= 50 * step
    assert step_epsilon("l1", 0.5) == 1.0
    assert total_epsilon("l1", 0.1) == pytest.approx(4.74, abs=0.05)  # of 10 by adding up
    assert total_epsilon("l2", 0.2) == pytest.approx(2.2, abs=0.05)


def test_the_clip_is_where_the_accuracy_is_the_published_one():
    assert fit_clip((1.0, 2.0, 4.0), np.array([80.0, 84.0, 88.0]), 86.0) == pytest.approx(2.83, abs=0.01)
    assert fit_clip((1.0, 2.0, 4.0), np.array([80.0, 84.0, 88.0]), 99.0) == 4.0


@pytest.mark.parametrize(("norm", "epsilon", "clip"), [("l2", 0.8, 0.2), ("l1", 5.0, 2.0)])
def test_together_has_the_law_of_alone_and_own_noise_has_not(norm, epsilon, clip):
    """Thirty runs each; the mutant is the noise that each owner adds. In L1 hosts need six agreements for it."""
    many = synthetic_digits(1200)
    alone, together, apart = (
        Cell(who, norm, epsilon, clip, runs=30, epochs=6).measure(many)[0]
        for who in ("alone", "one noise", "own noise")
    )
    assert 20 < np.mean(alone) < 80  # noise rules, but not alone
    assert ks_2samp(alone, together).pvalue > 0.01
    assert ks_2samp(alone, apart).pvalue < 0.001


def test_steps_are_sums_from_random_weights(shapes):
    """One epoch by hand, as the report's listing 2 has it, without noise."""
    cell = Cell("alone", "l2", None, 0.05, runs=2, epochs=1)
    starts = cell.starts.reshape(2, 10, 785)
    assert 0.97 < starts.std() < 1.03
    rows = np.hstack([shapes.images, np.ones((600, 1))])
    _, learned = cell.measure(shapes)
    weights, order = starts[0].copy(), shuffled(600, cell.seed, "owner-1", 0)
    for number in range(BATCHES):
        places = batch(order, BATCHES, number)
        for digit in range(10):
            part = np.sort([place for place in places if np.flatnonzero(order == place)[0] % 10 == digit])
            derivatives = expit(rows[part] @ weights[digit]) - (shapes.labels[part] == digit)
            gradients = derivatives[:, None] * rows[part]
            sizes = np.linalg.norm(gradients, axis=1, keepdims=True)
            weights[digit] -= 0.3 * (gradients * np.minimum(1, 0.05 / sizes)).sum(axis=0)
    assert np.abs(weights - starts[0]).max() > 0.01
    np.testing.assert_allclose(learned, weights - starts[0], atol=5e-4)


def test_tables_and_figures_stand_beside_what_was_published(shapes, monkeypatch):
    first = {norm: epsilons[:2] for norm, epsilons in EPSILONS.items()}
    monkeypatch.setattr(tables, "EPSILONS", first)
    monkeypatch.setattr(tables, "LAW_RUNS", 2)
    chosen = choose(DOCUMENT, {"table": [str(number) for number in TABLES], "figure": ["5", "7", "8", "9"]})
    found = list(computed(DOCUMENT, chosen, lambda asked: Runs(shapes, asked.names, runs=2, epochs=1)))
    assert all("SYNTHETIC" in shown.notes[0] for _, shown in found)
    filed = {name: table for _, shown in found for name, table in shown.files.items()}
    for number, (who, norm) in TABLES.items():
        table = filed[f"table-{number}"]
        assert tuple(table["published"]) == PUBLISHED[number][:2]
        assert tuple(table["epsilon"]) == first[norm]
        assert ("own_noise" in table) == (who == "one noise")
        assert np.isfinite(table["ours"]).all()
    drawn = [DOCUMENT.load(exhibit.draw)(*shown.drawn) for exhibit, shown in found if exhibit.draw]
    assert len(drawn) == 4
    assert all(len(svg(figure)) > 10_000 for figure in drawn)
    assert filed["law"].shape == (2, 2)
    compared = DOCUMENT.compared({exhibit.name: shown for exhibit, shown in found})
    assert len(compared) == 8
    for number in TABLES:
        lines = compared[f"table {number}"]
        assert [each.published for each in lines[:2]] == list(PUBLISHED[number][:2])
        assert {each.reading for each in lines if "no noise" in each.what} == {"fitted"}  # by the clip
        assert lines[0].tolerance == pytest.approx(3 * 1.396, abs=0.01)
    content: dict[str, object] = {}
    for _, shown in found:
        merge(content, shown.content)
    assert [each["epsilon"] for each in content["legible"]] == [None, 0.2, 0.1, 0.2]  # figures 7, 8 and 9 in one run


def test_pictures_show_their_digits_if_they_are_like_them_and_noise_shows_none():
    shown = synthetic_digits(1200)
    rng = np.random.default_rng(0)
    means = np.array([shown.images[shown.labels == digit].mean(axis=0) for digit in range(10)])
    like = means - shown.images.mean(axis=0)
    noise = rng.normal(size=like.shape)
    found = [
        tables.legible(each, shown.images, shown.labels) for each in (like, -like, noise, like[[*range(1, 10), 0]])
    ]
    assert found[0] == pytest.approx(np.ones(10))
    assert found[1] == pytest.approx(-np.ones(10))
    assert np.abs(found[2]).max() < 0.2
    assert found[3].mean() < 0.1


def test_the_command_writes_and_prints(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "TRIED_CLIPS", {"l1": (0.08,), "l2": (0.008,)})
    words = [
        "reproduce",
        "aarhus2020",
        "--table",
        "4",
        "--runs",
        "2",
        "--epochs",
        "2",
        "--images",
        "300",
        "--out",
        str(tmp_path / "out"),
    ]
    run = CliRunner().invoke(app, words, env={"PARLEY_DATA": str(tmp_path)})
    assert run.exit_code == 0, run.output
    assert "SYNTHETIC" in run.output
    assert "Table 4" in run.output
    table = pd.read_csv(tmp_path / "out" / "table-4.csv")
    assert len(table) == 10
    assert (table["total"] > table["step"]).all()


def test_digits_are_read_as_they_are_filed():
    """Real MNIST, 3,000 images of it: without noise the ten models tell digits apart, and the weights of 0 are lower in
    its middle."""
    some = load_digits(data_path("mnist.npz").parent, 3000)
    assert some.real
    assert some.images.shape == (3000, 784)
    assert some.test_images.shape == (10_000, 784)
    assert (some.images.min(), some.images.max()) == (0.0, 1.0)
    right, model = Cell("alone", "l2", None, 0.3, epochs=20).measure(some)
    assert right[0] > 75
    zero = model[0, :-1].reshape(digits.SIDE_PIXELS, digits.SIDE_PIXELS)
    assert zero[12:16, 12:16].mean() < zero[12:16, 6:22].mean()
