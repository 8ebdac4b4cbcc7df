"""Every test asserts something: itself, by a helper of its file, or by a check that it is given."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def asserts(function: ast.AST, helpers: frozenset[str] = frozenset()) -> bool:
    """Whether somewhere in it something can fail: an assertion, an expected error, a check or such a helper."""
    return any(_can_fail(node, helpers) for node in ast.walk(function))


def _can_fail(node: ast.AST, helpers: frozenset[str]) -> bool:
    if isinstance(node, ast.Assert):
        return True
    if isinstance(node, ast.Raise) and node.exc is not None:
        return "AssertionError" in ast.unparse(node.exc)
    if not isinstance(node, ast.Call):
        return False
    called, name = ast.unparse(node.func), ast.unparse(node.func).lower()
    checked = any(each.arg == "check" and ast.unparse(each.value) == "True" for each in node.keywords)
    expected = called in ("pytest.raises", "pytest.warns", "pytest.fail")
    return expected or checked or called in helpers or "assert" in name or "check" in name


def silent_tests(text: str) -> list[str]:
    """The tests of a file that assert nothing."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    helpers = frozenset(each.name for each in functions if not each.name.startswith("test_") and asserts(each))
    tests = [each for each in functions if each.name.startswith("test_")]
    return [each.name for each in tests if not asserts(each, helpers)]


def test_every_test_asserts_something():
    files = sorted(HERE.rglob("test_*.py"))
    assert len(files) > 300
    found = {str(path.relative_to(HERE)): silent_tests(path.read_text(encoding="utf-8")) for path in files}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        ("assert x", False),
        ("with pytest.raises(ValueError): x()", False),
        ("np.testing.assert_allclose(x, 1)", False),
        ("raise AssertionError", False),
        ("helper(x)", False),
        ("subprocess.run(x, check=True)", False),
        ("x()", True),
        ("other(x)", True),
        ("raise ValueError", True),
    ],
)
def test_what_counts_as_an_assertion(body, silent):
    text = f"def helper(x):\n    assert x\n\n\ndef other(x):\n    x()\n\n\ndef test_it():\n    {body}\n"
    assert silent_tests(text) == (["test_it"] if silent else [])
