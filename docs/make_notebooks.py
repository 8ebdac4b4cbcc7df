"""The notebooks of `examples/`: made from the scripts beside them, run, and shown in the manual (`make notebooks`).

A script is the only source. `# %%` begins a cell of code, `# %% [markdown]` one of words, each line behind `# `; the
cell with `tags=["parameters"]` holds what a reader may change, and what tests make small.

    python docs/make_notebooks.py [NAME ...]

writes `examples/NAME.ipynb`, of all scripts where none is named. It takes the extra `parley-dp[notebooks]`.
"""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 600  # that a cell may take


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: words or code."""

    words: bool
    parameters: bool  # whether it holds what a reader may change
    source: str


def cells(script: str) -> list[Cell]:
    """The cells of a script in percent format, in their order."""
    return [*_cells(script)]


def _cells(script: str) -> Iterator[Cell]:
    for part in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        words = "[markdown]" in head
        lines = [re.sub(r"^# ?", "", line) for line in body.splitlines()] if words else body.splitlines()
        yield Cell(words, "parameters" in head, "\n".join(lines).strip())


def notebook(script: str) -> Any:
    """The script as a notebook that nobody has run yet."""
    import nbformat

    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for place, cell in enumerate(cells(script), start=1):
        new = (nbformat.v4.new_markdown_cell if cell.words else nbformat.v4.new_code_cell)(cell.source)
        new["id"] = f"cell-{place}"
        new["metadata"] = {"tags": ["parameters"]} if cell.parameters else {}
        made.cells.append(new)
    return made


def make(name: str) -> Path:
    """Run a script's notebook in an empty folder, and write it beside the script."""
    import nbclient
    import nbformat

    made = notebook((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(
            made, timeout=SECONDS, record_timing=False, resources={"metadata": {"path": folder}}
        ).execute()
    made.metadata = {"kernelspec": made.metadata["kernelspec"], "language_info": {"name": "python"}}
    nbformat.validate(made)
    path = EXAMPLES / f"{name}.ipynb"
    path.write_text(nbformat.writes(made) + "\n", encoding="utf-8")
    return path


def page(content: Mapping[str, Any], name: str) -> str:
    """A notebook that was run, as Markdown for a page of the manual in `docs/notebooks/`."""
    first, *rest = (shown for cell in content["cells"] for shown in _shown(cell))
    here = f"*`examples/{name}.ipynb` as it ran; it is made from `examples/{name}.py`.*"
    title, _, words = first.partition("\n")
    text = "\n\n".join([title, here, words.strip(), *rest])
    return re.sub(r"\]\((\w+)\.ipynb\)", r"](\1.md)", text.replace("](../docs/", "](../"))


def _shown(cell: Mapping[str, Any]) -> Iterator[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"```python\n{source}\n```"
    for output in cell["outputs"]:
        data = output.get("data", {})
        plain = "".join(data.get("text/plain", output.get("text", "")))
        if "image/png" in data:
            image = "".join(data["image/png"]).replace("\n", "")
            yield f'```{{raw}} html\n<img alt="{escape(plain)}" src="data:image/png;base64,{image}">\n```'
        elif "text/markdown" in data:
            yield "".join(data["text/markdown"])
        elif "text/html" in data:
            table = "".join(data["text/html"]).replace('border="1" class="dataframe"', 'class="docutils align-default"')
            yield f"```{{raw}} html\n{table}\n```"
        elif plain:
            yield f"```text\n{plain.rstrip()}\n```"


def main() -> None:
    names = sys.argv[1:] or sorted(script.stem for script in EXAMPLES.glob("*.py"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    on_data = [name for name in names if "PARLEY_DATA" in (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")]
    if on_data and "PARLEY_DATA" not in os.environ:
        sys.exit(f"PARLEY_DATA: expected the folder with the files of {', '.join(on_data)}; set it, or name others")
    for name in names:
        sys.stdout.write(f"{make(name).name}\n")


if __name__ == "__main__":
    main()
