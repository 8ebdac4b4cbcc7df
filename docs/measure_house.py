"""Measure the house from the code itself: python docs/measure_house.py

A room is a storey (a folder of `src/parley`), a wing (a folder of its `tasks/`), or the ground that lies loose in the
package. An import between rooms is a pair of them of which one imports the other; names imported for types alone load
nothing and do not count, as in the contracts. A circle is a set of modules that import each other when they are loaded.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).parents[1] / "src" / "parley"
WANTED = {"lines": 79_000, "files": 514, "rooms": 23, "imports between rooms": 156, "circles": 0, "longest body": 60}
DOORS = ("cli", "studio", "workflows")  # whose functions, and commands of wings, stay short


def modules() -> dict[str, Path]:
    """Every module of the product by its name."""
    named = {}
    for path in sorted(HOUSE.rglob("*.py")):
        parts = path.relative_to(HOUSE.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imports_of(tree: ast.AST, known: dict[str, Path], whole: bool = True) -> set[str]:
    """The modules of the product that a module imports, types aside; not `whole`: when it is loaded."""
    found: set[str] = set()
    for node in _run(tree, whole):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in known}


def _run(tree: ast.AST, whole: bool) -> Iterator[ast.AST]:
    """Statements that run; not `whole`: when a module is loaded."""
    for node in ast.iter_child_nodes(tree):
        if not whole and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _run(node, whole)


def room_of(path: Path) -> str:
    """The room that a module lies in."""
    inside = path.relative_to(HOUSE).parts[:-1]
    return ".".join(inside[: 2 if inside[:1] == ("tasks",) else 1]) or "ground"


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in edges[name]:
            if other not in number:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            place = stack.index(name)
            component, stack[place:] = stack[place:], []
            if len(component) > 1:
                found.append(sorted(component))

    for name in edges:
        if name not in number:
            visit(name)
    return found


def bodies() -> Iterator[tuple[int, str]]:
    """(lines of a body without its docstring, where) of every function of a door, and of the commands of wings."""
    files = [path for door in DOORS for path in (HOUSE / door).rglob("*.py")]
    for path in sorted([*files, *(HOUSE / "tasks").rglob("*commands.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
                yield lines, f"{path.relative_to(HOUSE)}: {node.name}"


def measured() -> dict[str, int]:
    """Every measure of the house by its name."""
    known = modules()
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in known.items()}
    rooms = {name: room_of(path) for name, path in known.items()}
    pairs = {(rooms[name], rooms[other]) for name, tree in trees.items() for other in imports_of(tree, known)}
    return {
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in known.values()),
        "files": len(known),
        "rooms": len({*rooms.values()}),
        "imports between rooms": sum(here != there for here, there in pairs),
        "circles": len(circles({name: imports_of(tree, known, whole=False) for name, tree in trees.items()})),
        "longest body": max(bodies())[0],
    }


if __name__ == "__main__":
    for measure, found in measured().items():
        where = f"  {max(bodies())[1]}" if measure == "longest body" else ""
        print(f"{measure:24}{found:>8,}   wanted: at most {WANTED[measure]:,}{where}")  # noqa: T201
