"""Z's tables of networks: eps in three readings, runs at a size that measures nothing, what was kept of long ones."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import SettingError
from parley.privacy.accounting import stable_epsilon
from parley.privacy.mechanisms.stable_law import distortion
from parley_lab.papers.zawacki2024 import comparisons, network_images, network_tables, trained_networks
from parley_lab.papers.zawacki2024.network_epsilons import NetworkEpsilons, one_dimensional, row_epsilons, sound_epsilon
from parley_lab.papers.zawacki2024.network_images import table_images
from parley_lab.papers.zawacki2024.published_networks import PUBLISHED_TABLES, TABLE_4_1
from parley_lab.papers.zawacki2024.settings import Trials
from parley_lab.papers.zawacki2024.trained_networks import Law, RowRuns, TableRuns, kept_runs, laws, trained_laws

MNIST = PUBLISHED_TABLES["4.1"]


@pytest.mark.parametrize(("row", "one", "charged"), [(TABLE_4_1[0], 0.18, 0.497), (TABLE_4_1[2], 0.39, 3.09)])
def test_epsilons_of_gaussian_rows_come_out_with_a_clip_of_2(row, one, charged):
    """Printed are 0.5 and 3; by the law of the printed scale it is a third of that and less."""
    found = row_epsilons(MNIST, 2.0, row.scale)
    assert found.charged == pytest.approx(charged, rel=5e-3)
    assert found.one == pytest.approx(one, rel=2e-2)
    assert found.one < found.sound  # replace-one is the larger one


def test_one_dimension_agrees_with_another_accountant():
    """dp_accounting's own sampled Gaussian, at the deviation sqrt 2 of scale 1."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_gaussian_mechanism(math.sqrt(2), sampling_prob=0.05, value_discretization_interval=2e-4)
    wanted = theirs.self_compose(100).get_epsilon_for_delta(1e-5)
    assert one_dimensional(2.0, 1.0, 1e-5, 100, 0.05) == pytest.approx(wanted, rel=2e-3)
    assert one_dimensional(1.999, 1.0, 1e-5, 100, 0.05) < wanted


def test_at_the_same_scale_one_sound_bound_gives_both_laws_the_same_epsilon():
    scale = MNIST.rows[1].scale
    gaussian, stable = (sound_epsilon(MNIST, alpha, scale, same_bound=True) for alpha in (2.0, 1.999))
    assert stable == pytest.approx(gaussian, rel=1e-3)
    low = stable_epsilon(1.999, scale, 1e-5, 2.0, compositions=9375, sampling=MNIST.rate).low
    assert low < stable
    assert sound_epsilon(MNIST, 2.0, scale) < gaussian  # by its loss distribution


@pytest.mark.parametrize("table", PUBLISHED_TABLES.values(), ids=list(PUBLISHED_TABLES))
def test_printed_distortions_are_those_of_the_printed_scales(table):
    for row in table.rows:
        assert distortion(row.alpha, row.scale) == pytest.approx(row.distortion, rel=1.5e-3)
    assert len(table.deviations) == len(table.rows)
    assert len(set(laws(table))) == len(laws(table))


def asked(*words):
    done = CliRunner().invoke(app, ["reproduce", "zawacki2024", *words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


@pytest.fixture
def quick(monkeypatch):
    """No accounting, which others test, no real data, and nothing kept."""
    monkeypatch.delenv("PARLEY_DATA", raising=False)
    monkeypatch.setattr(network_tables, "row_epsilons", lambda *law: NetworkEpsilons(1.0, None, 2.0))
    monkeypatch.setattr(network_tables, "sound_epsilon", lambda *law, **more: 2.0)
    monkeypatch.setattr(network_tables, "kept_runs", lambda word: None)


def test_a_small_sample_is_trained_and_shown_beside_what_was_published(quick):
    pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")
    words = ["--table", "4.1", "--trials", "2", "--rows", "20", "--epochs", "0.5", "--device", "cpu", "--json"]
    told = json.loads(asked(*words))["tables"]["4.1"]
    assert told["now"] | {"step": 0.1} == told["now"]
    assert (told["now"]["data"], told["now"]["images"], told["now"]["trials"]) == ("GENERATED images", 20, 2)
    assert told["kept"] is None
    first, clipped, *rows, last = told["rows"]
    assert (first["scale"], first["published"], first["sound_epsilon"]) == (None, 98.63, None)
    assert (first["clip"], clipped["clip"], clipped["published"]) == (None, 1.0, None)
    assert [row["published"] for row in rows] == [91.89, 94.05, 95.22, 94.60, 94.89, 95.53]
    assert (last["alpha"], last["scale"], last["published"]) == (1.999, 1.06, None)
    assert all(0 <= row["now"] <= 100 and row["now_deviation"] >= 0 for row in told["rows"])
    assert all((row["now_clip_2"] is None) == (row["clip"] is None) for row in told["rows"])
    assert told["equal_sound_epsilon"][0]["standard_error"] >= 0
    assert told["adjacency"]["one_epsilon"] == "add-or-remove-one"


def test_the_network_for_colours_is_trained_on_generated_images():
    pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")
    images = table_images("4.3", None, 12)
    found = trained_networks.train_table(PUBLISHED_TABLES["4.3"], images, 1, epochs=0.5)
    assert (found.images, found.data) == (12, "GENERATED images")
    assert [row.law for row in found.rows] == trained_laws(PUBLISHED_TABLES["4.3"])


def test_without_trials_nothing_is_trained_and_what_was_kept_is_shown(quick, monkeypatch, tmp_path):
    rows = tuple(RowRuns(law, (90.0 + place, 92.0 + place)) for place, law in enumerate(trained_laws(MNIST)))
    monkeypatch.setattr(trained_networks, "RESULTS_FOLDER", tmp_path)
    TableRuns("4.1", "MNIST", 60_000, 10, 0.1, 0.0, True, rows, "python x").save(tmp_path / "table-4.1.json")
    monkeypatch.setattr(network_tables, "kept_runs", kept_runs)
    told = asked("--table", "4.1")
    assert "Kept: 2 trials a row, MNIST, 60,000 images, 10 epochs." in told
    assert "91.00 ± 1.41" in told
    assert "apart by +5.00 ± 1.41 points" in told.replace("\n", " ")
    assert "now %" not in told


def test_what_was_kept_of_digits_comes_out_with_a_clip_of_2():
    """Every row within two deviations of a single run, all of them within 0.2 points on average; none with a clip of
    1."""
    runs = kept_runs("4.1")
    assert runs is not None
    assert (runs.images, runs.epochs) == (60_000, 10)
    off = []
    for row, deviation in zip(TABLE_4_1, MNIST.deviations, strict=True):
        law = Law(row.alpha, row.scale, MNIST.clip)
        off.append(runs.row(law.clipped_at_2).mean - row.accuracy)
        assert abs(off[-1]) < 2 * math.hypot(deviation, runs.row(law.clipped_at_2).deviation)
        assert runs.row(law).mean < row.accuracy - 1.5
    assert abs(np.mean(off)) < 0.2
    gaussian, stable = runs.row(Law(2.0, 1.06, 1.0)), runs.row(Law(1.999, 1.06, 1.0))
    error = math.hypot(gaussian.deviation, stable.deviation) / math.sqrt(len(stable.accuracies))
    assert abs(gaussian.mean - stable.mean) < 2 * error


def test_what_stable_noise_adds_is_relative_and_judged_by_errors_of_means(monkeypatch):
    """Table 4.2: 2.95, 0.89 and 0.33 % follow from table 4.1; a tolerance is smaller than the effect where that is
    large."""
    monkeypatch.setattr(network_tables, "row_epsilons", lambda *law: NetworkEpsilons(1.0, None, 2.0))
    monkeypatch.setattr(network_tables, "sound_epsilon", lambda *law, **more: 2.0)
    shown = network_tables.table(Trials(), "4.1", lambda done, count: None)
    *gains, equal = comparisons.advantage({"table-4.1": shown})
    by_alpha = [[row.accuracy for row in TABLE_4_1 if (row.alpha == 2) == gaussian] for gaussian in (True, False)]
    for gain, gaussian, stable in zip(gains, *by_alpha, strict=True):
        assert gain.published == pytest.approx(100 * (stable / gaussian - 1), abs=5e-3)
    assert [round(gain.found, 2) for gain in gains] == [4.84, 1.76, 0.94]
    assert [round(gain.tolerance, 1) for gain in gains] == [1.1, 0.6, 0.6]
    assert [gain.holds for gain in gains] == [False, False, True]
    assert (equal.published, equal.holds, equal.reading) == (0.0, True, "sound")


@pytest.mark.parametrize(
    "words", [["--trials", "0"], ["--rows", "0"], ["--epochs", "0"], ["--device", "cuda:99"]], ids=str
)
def test_sizes_and_devices_that_are_none_are_refused(quick, words):
    pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")
    usual = ["--trials", "1"] if "--trials" not in words else []
    done = CliRunner().invoke(app, ["reproduce", "zawacki2024", "--table", "4.1", *usual, *words])
    assert isinstance(done.exception, SettingError)


def test_options_of_tables_belong_to_tables():
    done = CliRunner().invoke(app, ["reproduce", "zawacki2024", "--figure", "3.8", "--rows", "10"])
    assert done.exit_code != 0
    assert "--rows: expected table-4.1" in str(done.exception)


def test_images_in_the_users_folder_are_read(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "cifar-10-batches-bin").mkdir()
    for name in (*(f"data_batch_{place}" for place in range(1, 6)), "test_batch"):
        records = rng.integers(0, 256, (4, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        records.tofile(tmp_path / "cifar-10-batches-bin" / f"{name}.bin")
    found = table_images("4.3", tmp_path, 7)
    assert (found.called, found.X.shape, found.held_out.shape) == ("CIFAR-10", (7, 3072), (4, 3072))
    pixels = rng.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    np.savez(tmp_path / "cifar10.npz", x_train=pixels, y_train=np.arange(5), x_test=pixels, y_test=np.arange(5))
    again = table_images("4.3", tmp_path)
    mean, deviation = network_images.CHANNEL_STATISTICS[:, 1]
    assert again.X[2, 1024 + 32 + 7] == pytest.approx((pixels[2, 1, 7, 1] / 255 - mean) / deviation, rel=1e-5)
    grey = rng.integers(0, 256, (3, 28, 28), dtype=np.uint8)
    parts = {
        f"{part}_{what}": value
        for part in ("train", "test")
        for what, value in (("images", grey), ("labels", np.array([[0], [1], [1]], dtype=np.uint8)))
    }
    np.savez(tmp_path / "pneumoniamnist.npz", **parts)
    assert table_images("4.5", tmp_path).classes == 2
