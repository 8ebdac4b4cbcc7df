"""The notebooks of examples/ are what their scripts say, use documented names alone, and run at a size that tests can
wait for."""

import ast
import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from samples import data_path

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SMALL: dict[str, dict[str, object]] = {
    "clinics": {"PATIENTS": {"birch": 60, "oak": 90, "university": 900}, "RUNS": 2},
    "credit_unions": {"UNIONS": 8, "JUDGES": 2, "WANTED": 0.01},
    "digits": {
        "OFFICES": 3,
        "DIGITS": 60,
        "PUBLIC": 60,
        "DIRECTIONS": 2,
        "JUDGES": 100,
        "EPSILONS": (1.0, 4.0),
        "RUNS": 1,
    },
    "hospitals": {"RUNS": 2},
    "recommender": {"READERS": {"brook": 20, "meadow": 30, "county": 200}, "TITLES": 12, "ROUNDS": 2},
}
spec = spec_from_file_location("make_notebooks", ROOT / "docs" / "make_notebooks.py")
notebooks = module_from_spec(spec)
spec.loader.exec_module(notebooks)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_is_what_its_script_says(script):
    """After a change: make notebooks."""
    made = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    cells = notebooks.cells(script.read_text(encoding="utf-8"))
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in made["cells"]] == [
        ("markdown" if cell.words else "code", cell.source) for cell in cells
    ]
    outputs = [output for cell in made["cells"] for output in cell.get("outputs", ())]
    assert all(cell["execution_count"] for cell in made["cells"] if cell["cell_type"] == "code")
    assert {output["output_type"] for output in outputs} == {"execute_result"}  # no error, nothing on stderr
    assert sum("image/png" in output["data"] for output in outputs) >= 1
    words = "".join(
        text for output in outputs for kind in ("text/plain", "text/html") for text in output["data"].get(kind, "")
    )
    assert not re.search(r"/(tmp|home|root|Users)/", words)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_tells_its_story_by_documented_names(script):
    text, reference = script.read_text(encoding="utf-8"), (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for question in ("Should we?", "On what terms?", "What came out of it", "What to try next"):
        assert f"# ## {question}\n" in text
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("parley"):
            assert f".. currentmodule:: {node.module}\n" in reference
            assert {name.name for name in node.names} <= {*re.findall(r"auto\w+:: (\w+)", reference)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "parley":
            assert node.attr == "report" or re.search(rf"auto\w+:: {node.attr}\b", reference)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_notebook_runs(script, tmp_path, monkeypatch):
    """Every cell, the parameters made small, without a kernel; what a cell ends with is shown as notebooks show it."""
    monkeypatch.chdir(tmp_path)
    if needed := {"hospitals": "heart_va.csv", "digits": "mnist.npz"}.get(script.stem):
        monkeypatch.setenv("PARLEY_DATA", str(data_path(needed).parent))
    if script.stem == "recommender":
        pytest.importorskip("numba", reason="ratings need the extra parley-dp[ratings]")
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in (each for each in notebooks.cells(script.read_text(encoding="utf-8")) if not each.words):
        shown = ran(cell.source, names)
        if cell.parameters:
            assert {*SMALL[script.stem]} <= {*names}
            names |= SMALL[script.stem]
        if hasattr(shown, "_repr_markdown_"):
            assert shown._repr_markdown_().startswith("**")
    assert not (ROOT / "examples" / script.stem).exists()


def ran(source, names):
    """Run a cell; the value of its last line, where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
