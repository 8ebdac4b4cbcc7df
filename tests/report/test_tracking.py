"""Runs that are kept: what is in them of a simulation, of a release and of a forecast, and that MLflow opens them."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from consortium import Consortium
from grove import grove, grove_terms
from samples import BOUNDS, regression_table
from series import narma, series_terms
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import ParleyError, SettingError
from parley.learning.outcome.metrics import Quality
from parley.owner.ledger import Ledger
from parley.report.tracking import numbers, tracked_training, write_run

ROWS = 80
SECRET = 0.123456789123  # planted: what somebody measured on private rows


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Terms with a public sample, and their tables."""
    folder = tmp_path_factory.mktemp("tracked")
    for seed, name in enumerate(("a", "b", "public")):
        regression_table(ROWS, seed=seed).to_csv(folder / f"{name}.csv", index=False)
    owners = [{"name": name, "records": ROWS, "epsilon": 50.0, "data": str(folder / f"{name}.csv")} for name in "ab"]
    features = ["x0", "x1", "x2"]
    model = {"kind": "linear-regression", "target": "y", "features": features, "radius": 5.0, "holdout": 0.25}
    parley.terms.write_terms(
        parley.Terms.from_dict(
            {
                "title": 'Rates: "of" two banks',
                "model": model | {"public": str(folder / "public.csv"), "bounds": BOUNDS},
                "learning": {"horizon": 4, "step": 0.2},
                "privacy": {"clip": 4.0},
                "owners": owners,
            }
        ),
        folder / "terms.toml",
    )
    return folder


def run(*arguments):
    outcome = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return json.loads(outcome.stdout)


@pytest.fixture(scope="module")
def kept(home):
    """(what commands printed, where their runs are), by kind."""
    store = home / "runs"
    told = {
        "simulation": run("train", home / "terms.toml", "--replicates", 5, "--seed", 1, "--track", store, "--json"),
        "release": run(
            "train",
            home / "terms.toml",
            "--ledgers",
            home / "books",
            "--lifetime",
            50,
            "--force",
            "--track",
            store,
            "--json",
        ),
        "forecast": run("forecast", home / "terms.toml", "--track", store, "--json"),
    }
    places = {cell(place, "tags/parley.run"): place for place in store.glob("*/*") if place.is_dir()}
    return {kind: (told[kind], places[kind]) for kind in told}


def cell(place, name):
    return (place / name).read_text(encoding="utf-8")


def files(place):
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def test_every_kind_of_run_is_kept_apart_with_terms_and_ends_of_ledgers(home, kept):
    terms = parley.load_terms(home / "terms.toml")
    for kind, (told, place) in kept.items():
        assert cell(place, "tags/parley.terms_hash") == told["terms_hash"] == terms.hash
        assert cell(place, "tags/parley.inside") == ("true" if kind == "simulation" else "false")
        assert cell(place, "params/owners.b.epsilon") == "50.0"
        assert cell(place, "params/model.kind") == "linear-regression"
        assert cell(place, "artifacts/terms.json").strip() == terms.canonical
        assert place.stat().st_mode & 0o077 == (0 if kind == "simulation" else place.parent.stat().st_mode & 0o077)
    assert {place.parent for _, place in kept.values()} == {kept["release"][1].parent}
    for name in "ab":
        head = Ledger(home / "books" / f"{name}.ledger").head
        assert cell(kept["release"][1], f"tags/parley.ledger_head.{name}") == f"{head.entries}:{head.hash}"
    assert not [name for kind in ("simulation", "forecast") for name in files(kept[kind][1]) if "ledger" in name]
    assert [each.name for each in (home / "runs").iterdir()] == [kept["release"][1].parent.name]


def test_metrics_are_the_numbers_that_commands_print(kept):
    for kind, names in {
        "simulation": ("relative_fitness", "cost", "metrics"),
        "forecast": ("relative_fitness", "excess_cost", "expected_cost"),
    }.items():
        told, place = kept[kind]
        for name, value in numbers({name: told[name] for name in names}):
            assert float(cell(place, f"metrics/{name}").split()[1]) == value
    told, place = kept["simulation"]
    rounds = [line.split() for line in cell(place, "metrics/relative_fitness.path").splitlines()]
    assert [int(number) for _, _, number in rounds] == [1, 2, 3, 4]
    assert float(rounds[-1][1]) == told["relative_fitness"]["median"]
    assert cell(place, "params/replicates") == "5"
    assert (place / "artifacts/figures/relative_fitness.png").read_bytes().startswith(b"\x89PNG")


def test_a_release_tells_what_was_released_and_no_figure_of_private_rows(home, kept):
    told, place = kept["release"]
    found = files(place)
    assert sorted(name for name in found if name.startswith("metrics/")) == sorted(
        [
            *(f"metrics/{what}.{name}" for what in ("epsilon_spent", "answers") for name in "ab"),
            *(name for name in found if name.startswith("metrics/baselines.")),
            "metrics/notices",
            "metrics/void_rounds",
        ]
    )
    assert json.loads(found["artifacts/model.json"])["released"] is True
    assert json.loads(found["artifacts/result.json"])["theta"] == told["theta"]
    private = kept["simulation"][0]
    everything = b"".join(found.values()).decode("latin-1")
    for _, value in numbers({name: private[name] for name in ("cost", "optimal_cost", "metrics", "optimal_metrics")}):
        assert f"{value!r}" not in everything
    for name in "ab":  # of a table nothing but its owner's name, where it lies neither
        cells = regression_table(ROWS, seed="ab".index(name))[["x0", "x1", "x2", "y"]].to_numpy().ravel()
        assert not [value for value in cells.tolist() if f"{value!r}" in everything]
        assert f"{name}.csv" not in everything
    assert "model.json" not in " ".join(files(kept["simulation"][1]))


def test_a_release_that_somebody_measured_all_the_same_tells_no_more(home, tmp_path):
    """The mutant that hands quality on fails here."""
    owners = [parley.Owner(name, home / f"{name}.csv") for name in "ab"]
    result = parley.train(parley.load_terms(home / "terms.toml"), owners, seed=0)
    quality = Quality(np.full((4, 1), SECRET), SECRET, SECRET, None, {"rmse": SECRET}, {"rmse": SECRET})
    measured = tracked_training(replace(result, released=True, quality=quality), "parley train")
    place = write_run(measured, tmp_path / "runs")
    assert str(SECRET) not in b"".join(files(place).values()).decode("latin-1")
    same = tracked_training(replace(result, released=False, quality=quality), "parley train")
    assert str(SECRET) in b"".join(files(write_run(same, tmp_path / "runs")).values()).decode("latin-1")


def test_names_and_values_that_files_do_not_take_are_kept_all_the_same(home, tmp_path):
    result = parley.train(
        parley.load_terms(home / "terms.toml"), [parley.Owner(name, home / f"{name}.csv") for name in "ab"], seed=0
    )
    run = replace(
        tracked_training(result, "parley train"),
        params={"../up": "1", "a/b": "2", "a_b": "x" * 900, "ü": ""},
        metrics={"whole": [1.0, np.inf, np.nan, 4.0], "none": [np.nan]},
    )
    place = write_run(run, tmp_path / "runs")
    assert {name for name in files(place) if name.startswith("params/")} == {
        "params/.._up",
        "params/a_b",
        "params/a_b_",
        "params/_",
    }
    assert len(cell(place, "params/a_b_")) == 500
    assert [line.split()[1:] for line in cell(place, "metrics/whole").splitlines()] == [["1.0", "1"], ["4.0", "4"]]
    assert not (place / "metrics/none").exists()
    broken = replace(run, files={"x": lambda file: file.parent.rename(file)})
    with pytest.raises(ParleyError):
        write_run(broken, tmp_path / "runs")
    assert [each.name for each in (tmp_path / "runs").iterdir()] == [place.parent.name]


@pytest.mark.parametrize(
    ("terms", "table", "metric"),
    [
        (grove_terms({"a": 200}, 4.0, model={"holdout": 0.25}), grove(200, 0), "metrics/metrics.auc"),
        (series_terms(1, 20, 5.0), narma(20, 0), "metrics/cost"),
    ],
)
def test_tasks_that_train_as_prediction_does_are_kept_too(tmp_path, terms, table, metric):
    result = parley.train(terms, [parley.Owner(terms.owners[0].name, table)], seed=0)
    place = write_run(tracked_training(result, "parley train"), tmp_path / "runs")
    assert float(cell(place, metric).split()[1]) > 0


def test_what_is_for_an_owners_eyes_or_of_another_task_is_not_kept(home, tmp_path):
    for command, why in [
        (
            ("forecast", home / "terms.toml", "--inside", home / "a.csv", "--owner", "a"),
            "never saves a forecast from private rows",
        ),
        (("train", home / "terms.toml"), "expected a folder"),
    ]:
        store = tmp_path / "runs" if "--inside" in command else home / "terms.toml"
        with pytest.raises(SettingError, match=why):
            run(*command, "--track", store)
    assert list(tmp_path.iterdir()) == []


def test_a_served_owner_is_known_by_its_answers_and_the_end_of_its_ledger_alone(tmp_path):
    banks = Consortium(tmp_path, names="a")
    terms = banks.write_terms(horizon=3)
    banks.accept(terms)
    banks.start()
    try:
        told = banks.learn("--track", str(tmp_path / "runs"), "--force")
    finally:
        banks.kill("a")
    (place,) = (each for each in (tmp_path / "runs").glob("*/*") if each.is_dir())
    assert (cell(place, "tags/parley.run"), cell(place, "tags/parley.inside")) == ("release", "false")
    head = banks.ledger("a").head
    assert cell(place, "tags/parley.ledger_head.a") == f"{head.entries}:{head.hash}"
    kept = json.loads(cell(place, "artifacts/result.json"))
    assert kept["theta"] == told["theta"]
    assert {name: told[name] for name in kept if name != "seconds"} == {
        name: value for name, value in kept.items() if name != "seconds"
    }
    assert not list(place.glob("metrics/cost*"))


READ_BACK = """
import json, sys
import mlflow
client = mlflow.MlflowClient(tracking_uri=sys.argv[1])
(experiment,) = client.search_experiments()
found = {run.data.tags["parley.run"]: run for run in client.search_runs([experiment.experiment_id])}
steps = client.get_metric_history(found["simulation"].info.run_id, "relative_fitness.path")
print(json.dumps({
    "experiment": experiment.name,
    "runs": {kind: [run.info.status, run.data.params, run.data.metrics] for kind, run in found.items()},
    "steps": [[each.step, each.value] for each in steps],
    "files": sorted(each.path for each in client.list_artifacts(found["release"].info.run_id)),
}))
"""


def python_with_mlflow():
    """This one, or that of the `mlflow` command on the PATH."""
    if find_spec("mlflow") is not None:
        return sys.executable
    found = shutil.which("mlflow")
    if found is None:
        pytest.skip("MLflow is neither installed nor on the PATH: pip install mlflow-skinny")
    return str(Path(found).parent / "python")


def test_mlflow_opens_them(home, kept, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    command = [python_with_mlflow(), "-c", READ_BACK, Path(home / "runs").as_uri()]
    read = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert read["experiment"] == 'Rates: "of" two banks'
    for kind, (_, place) in kept.items():
        status, params, metrics = read["runs"][kind]
        assert (status, params["learning.horizon"]) == ("FINISHED", "4")
        assert {f"metrics/{name}" for name in metrics} == {n for n in files(place) if n.startswith("metrics/")}
    assert [step for step, _ in read["steps"]] == [1, 2, 3, 4]
    assert read["steps"][-1][1] == kept["simulation"][0]["relative_fitness"]["median"]
    assert read["files"] == ["model.json", "result.json", "terms.json"]
