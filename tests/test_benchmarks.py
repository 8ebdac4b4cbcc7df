"""Every benchmark starts: it says what it takes, and where that is cheap it runs through at a size that measures
nothing."""

import importlib
import runpy
import sys
from pathlib import Path

import pytest
from forked import SERVER

FOLDER = Path(__file__).parents[1] / "benchmarks"
NAMES = sorted(file.stem for file in FOLDER.glob("*.py"))
# arguments, and sizes that no argument sets: those that take a second or two so
TINY: dict[str, tuple[str, dict[str, object]]] = {
    "audit": ("--draws 2000 --runs 200", {}),
    "forecast_intervals": ("--runs 1 --public 100", {"OWNERS": 2, "ROWS": 50, "ROUNDS": 2}),
    "clipped_least_squares": ("--rows 2000 --columns 3 --replicates 2 --rounds 2", {}),
    "credible_intervals": ("--runs 2 --mechanism gaussian", {}),
    "half_open": ("--lines 60 --addresses 4 --again 0 --seconds 0.4", {"SPAWN": SERVER}),
    "gossip": ("", {"RECORDS": 50, "ANSWERS": 2, "RUNS": 2}),
    "identification": ("--part coverage --runs 1", {}),
    "long_run": ("3 10", {}),
    "membership": ("--models 8", {"ROWS": 40, "COLUMNS": 30, "require": print}),
    "lost_answers": ("--runs 2", {"PROBABILITIES": (0.5,), "UNIONS": 5}),
    "magnitudes": ("--cases 20 --jobs 1", {}),
    "leakage": ("--runs 1", {"EPSILONS": (1.0, 1.0, float("inf"))}),
    "many_owners": ("20", {}),
    "neighbours": ("--starts 4", {"ROUNDS": 1}),
    "one_run": ("--columns 4 --seeds 1", {}),
    "replicates": ("--rows 500 --replicates 2 --horizon 2", {}),
    "reservoir": ("--owners 3 --runs 12 --replicates 2", {"NODES": 4, "EPSILONS": (8.0,)}),
    "scoring": ("--rows 150", {"OWNERS": 2, "PUBLIC": 200, "DATA": Path("nowhere")}),
    "starting": ("--repeats 1 --only predict", {}),
    "streamed": ("0.000001", {"ROWS_A_FILE": 2000, "GROUP": 500}),
    "truthful_payments": ("", {"SHARES": (1.1,), "STATED": (5.0,)}),
    "surfaces": ("--figure 3 --runs 1 --points 2 --jobs 1", {}),
}


@pytest.fixture
def beside(monkeypatch, tmp_path):
    """An empty folder to work in, and the benchmarks where they find each other; what they loaded there is forgotten
    afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in (*NAMES, "common"):
            del sys.modules[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_says_what_it_takes(name, beside, capsys, monkeypatch):
    file = FOLDER / f"{name}.py"
    if "argparse" not in file.read_text():
        runpy.run_path(str(file))  # it takes nothing: what it needs is there
        return
    monkeypatch.setattr(sys, "argv", [file.name, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(file), run_name="__main__")
    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out


@pytest.mark.parametrize("name", TINY)
def test_a_benchmark_runs_through(name, beside, capsys, monkeypatch):
    arguments, sizes = TINY[name]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments.split()])
    module = importlib.import_module(name)
    for constant, value in sizes.items():
        assert hasattr(module, constant)
        monkeypatch.setattr(module, constant, value)
    module.main()
    assert capsys.readouterr().out.strip()
