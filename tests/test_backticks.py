"""Names in backticks in docstrings exist: modules, classes, functions, attributes, parameters or keys of terms."""

import ast
import builtins
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

import parley
from parley.terms import Terms

PACKAGE = Path(parley.__file__).parent
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
# What is no name of this package, by whose it is.
ELSEWHERE = {
    "dp_accounting": {"DpEvent", "NeighboringRelation", "calibrate_dp_mechanism", "make_event_from_param"},
    "joblib, Ray": {"parallel_config", "ray.util.joblib.register_ray"},
    "pandas": {"to_csv", "to_parquet"},
    "PyTorch": {"nn.Sequential", "torch.set_flush_denormal"},
    "scikit-learn": {"fit"},
    "columns of predictions": {
        "predicted_TARGET", "probability_CLASS", "std_TARGET", "hazard_END", "survival_END"
    },
    "an example of a folder's name": {"year"},
    "the report of a workflow": {"inside"},
    "a ledger: a column, and a file beside it": {"pad", "NAME.ledger.verified"},
    "a job of the studio: its file": {"exit.json"},
    "printed JSON": {"would_join"},
}  # fmt: skip
FOREIGN = {*dir(builtins), *(name for names in ELSEWHERE.values() for name in names)}


def terms_keys(schema=Terms, prefix=""):
    """The dotted keys of a terms file, such as model.target, and each key alone."""
    found = set()
    for name, field in schema.model_fields.items():
        found |= {name, f"{prefix}{name}"}
        for kind in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                found |= terms_keys(kind, f"{prefix}{name}.")
    return found


def names_in(tree):
    """All names that a module defines or binds: definitions, parameters, attributes, variables, imports, literals."""
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.alias):
            yield from (node.asname or node.name).split(".")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
            yield node.value


def docstrings(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, *DEFINITIONS)):
            text = ast.get_docstring(node, clean=False)
            if text:
                yield getattr(node, "lineno", 1), text


def assigned(node):
    """The names and attributes that a statement assigns."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for target in (each for root in targets for each in ast.walk(root)):
        if isinstance(target, ast.Name):
            yield target.id
        elif isinstance(target, ast.Attribute):
            yield target.attr


def members(tree):
    """What a module defines at its top, and what its classes define: dotted."""
    for node in tree.body:
        yield from assigned(node)
        if isinstance(node, DEFINITIONS):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for inner in ast.walk(node):
                found = [inner.name] if isinstance(inner, DEFINITIONS) else assigned(inner)
                yield from (f"{node.name}.{name}" for name in found)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (alias.asname or alias.name for alias in node.names)


class Package:
    """What names there are, and in which file."""

    def __init__(self):
        self.trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
        self.bound = {path: set(names_in(tree)) for path, tree in self.trees.items()}
        self.dotted = terms_keys() | {f"parley.{name}" for name in parley.__all__} | {path.name for path in self.trees}
        self.attributes = set()
        for path, tree in self.trees.items():
            parts = ("parley", *path.relative_to(PACKAGE).with_suffix("").parts)
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            modules = {".".join(parts[start:]) for start in range(len(parts))}
            self.dotted |= modules
            for member in members(tree):
                self.dotted.add(member)
                self.attributes.add(member.rpartition(".")[2])
                self.dotted |= {f"{module}.{member}" for module in modules}

    def resolves(self, name, path):
        if any(name in known for known in (self.dotted, self.bound[path], self.attributes, FOREIGN)):
            return True
        first, _, rest = name.partition(".")
        return first in self.bound[path] and {*rest.split(".")} <= self.bound[path]  # an attribute that the file uses

    def unresolved(self):
        for path, tree in self.trees.items():
            for line, text in docstrings(tree):
                for quoted in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
                    name = quoted.removesuffix("()")
                    if NAME.fullmatch(name) and not self.resolves(name, path):
                        yield f"{path.relative_to(PACKAGE)}, in the docstring at line {line}: {quoted}"


@pytest.fixture(scope="module")
def package():
    return Package()


def test_names_in_backticks_exist(package):
    assert list(package.unresolved()) == []


def test_a_name_that_does_not_exist_is_found(package):
    path = PACKAGE / "data" / "forest.py"
    known = (
        "Forest",
        "rowwise.clip_to_grid",
        "data.rowwise",
        "forest.py",
        "model.target",
        "Forest.leaves",
        "parley.train",
    )
    assert [name for name in known if not package.resolves(name, path)] == []
    wrong = ("Wood", "rowwise.settled", "data.woods", "woods.py", "model.aim", "Forest.branches", "parley.learn")
    assert [name for name in wrong if package.resolves(name, path)] == []
