"""The house keeps its shape: modules do not go round in circles, and doors stay thin."""

import importlib.util
import traceback
from pathlib import Path

from typer.testing import CliRunner

from parley.cli.app import app
from parley.privacy.mechanisms import Laplace

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("measure_house", ROOT / "docs" / "measure_house.py")
house = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(house)

TERMS = """
[model]
kind = "linear-regression"
target = "y"
bounds = {{ x = [0, 1], y = [0, 1] }}
[learning]
horizon = 3
[privacy]
clip = 2.0
[[owners]]
name = "a"
records = 50
epsilon = 1.0
data = "{table}"
"""


def test_rooms_files_imports_between_rooms_and_circles_stay_few():
    found = house.measured()
    for measure in ("files", "rooms", "imports between rooms", "circles"):
        assert found[measure] <= house.WANTED[measure], measure


def test_a_circle_is_found():
    assert house.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert house.circles({"a": {"b"}, "b": set()}) == []


def test_the_body_of_a_command_and_of_its_helpers_fits_a_screen():
    assert [found for found in house.bodies() if found[0] > house.WANTED["longest body"]] == []


def test_a_value_passes_few_files_from_the_command_to_the_noise(tmp_path, monkeypatch):
    """Files of the product on the way from `train_command` to the draw of an owner's noise."""
    monkeypatch.setenv("PARLEY_STATE", str(tmp_path / "state"))
    rows = "x,y\n" + "".join(f"{i / 50},{i / 60}\n" for i in range(50))
    (tmp_path / "a.csv").write_text(rows)
    (tmp_path / "terms.toml").write_text(TERMS.format(table=tmp_path / "a.csv"))
    passed: list[set[str]] = []
    release = Laplace.release

    def watched(*args, **kwargs):
        files = {Path(frame.filename) for frame in traceback.extract_stack()}
        passed.append({str(file.relative_to(house.HOUSE)) for file in files if file.is_relative_to(house.HOUSE)})
        return release(*args, **kwargs)

    monkeypatch.setattr(Laplace, "release", watched)
    books = ["--ledgers", str(tmp_path / "books"), "--lifetime", "2", "--force"]
    run = CliRunner().invoke(app, ["train", str(tmp_path / "terms.toml"), *books])
    assert run.exit_code == 0, run.output
    assert {"cli/train.py", "owner/ledger/ledger.py"} <= passed[0]
    assert max(map(len, passed)) <= 20
