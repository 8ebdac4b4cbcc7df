"""Write proofs/premises.md: what the proofs assume, the code that relies on it, and the tests that show it.

A premise is stated in the docstring of a test or a check ("Premise F1: ..."); further tests name it ("Premise F1.").
The line under each step of a proof says which code rests on which premises.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROOFS = ROOT / "docs" / "proofs"
PAGE = PROOFS / "premises.md"
CHECKS = "tests/support/premises.py"  # what tests/test_premises.py runs
STEP = re.compile(r"^(?P<code>`.+?`); (?P<premises>none|[FT]\d(?: [FT]\d)*); (?P<tests>`tests/\S+`(?:, `tests/\S+`)*)$")
HEAD = """# Premises

The proofs assume facts about processors, libraries and file formats. Each premise has a test that fails if the
premise is false. Tests of arithmetic also run with every BLAS kernel of the processor, and without NumPy's own
instructions. `docs/make_premises.py` writes this page from the proofs and from tests' docstrings.

| | premise | relied on in | shown by |
|---|---|---|---|
"""


def steps() -> dict[str, re.Match[str] | None]:
    """The line under each step, by its page and heading; None where a step has no such line, or two."""
    found = {}
    for page in sorted(PROOFS.glob("*.md")):
        for part in re.split(r"\n##+ ", page.read_text(encoding="utf-8"))[1:]:
            lines = [line for line in map(STEP.match, part.splitlines()) if line]
            found[f"{page.name}: {part.splitlines()[0]}"] = lines[0] if len(lines) == 1 else None
    return found


def premises() -> dict[str, tuple[str, list[str]]]:
    """What each premise says, and the test files that show it, the one that states it first."""
    said: dict[str, str] = {}
    shown: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        name = str(file.relative_to(ROOT))
        for node in ast.walk(ast.parse(text)) if "Premise" in text else ():
            if not isinstance(node, ast.Module | ast.FunctionDef):
                continue
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                words = " ".join(paragraph.split())
                if stated := re.fullmatch(r"Premise ([FT]\d): (.+)", words):
                    said[stated[1]] = stated[2]
                    if name != CHECKS:
                        shown.setdefault(stated[1], []).insert(0, name)
                elif re.match(r"Premises? [FT]\d", words):
                    for premise in re.findall(r"[FT]\d", words):
                        shown.setdefault(premise, []).append(name)
    return {premise: (said[premise], shown.get(premise, [])) for premise in sorted(said)}


def rooms(premise: str) -> list[str]:
    """The folders of the package with code that rests on this premise."""
    used = {
        name
        for step in steps().values()
        if step and premise in step["premises"].split()
        for name in re.findall(r"`(.+?)`", step["code"])
    }
    return sorted({name.split("/")[0] + "/" for name in used})


def page() -> str:
    """The whole page: a table of short statements, then what they say in detail."""
    rows, details = [], []
    for premise, (words, tests) in premises().items():
        short, _, rest = words.partition(". ")
        cells = [short.rstrip("."), *(", ".join(f"`{name}`" for name in names) for names in (rooms(premise), tests))]
        rows.append(f"| {premise} | {' | '.join(cells)} |")
        if rest:
            details.append(f"- **{premise}:** {rest}")
    return HEAD + "\n".join(rows) + "\n\n" + "\n".join(details) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
