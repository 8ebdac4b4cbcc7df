"""The manual: every document of this folder, and the reference from docstrings (`make manual`)."""

import json
import sys
from pathlib import Path

from sphinx.application import Sphinx

from parley import __version__

sys.path.insert(0, str(Path(__file__).parent))
import make_commands
import make_notebooks

project = "Parley"
author = "the authors of Parley"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["examples"]
default_role = "literal"  # docstrings write names as Markdown does
smartquotes_action = "q"  # quotes alone: two hyphens begin an option

myst_heading_anchors = 3  # links such as terms.md#columns-as-they-are lead where they lead elsewhere

autodoc_mock_imports = ["safetensors", "torch"]  # an extra that reading docstrings does not need
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # what a parameter is stands in words; its type, in the source
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = f"Parley {version}"
html_show_copyright = False

# Files beside this folder, and the pages that stand for them here.
_OUTSIDE = {
    "../README.md": "index.md",
    "../CONTRIBUTING.md": "taking_part.md",
    "../benchmarks/RESULTS.md": "measured.md",
    "../../benchmarks/RESULTS.md": "../measured.md",
}


def _inside(app: Sphinx, name: str, source: list[str]) -> None:
    if name.startswith("notebooks/"):
        file = make_notebooks.EXAMPLES / f"{Path(name).name}.ipynb"
        app.env.note_dependency(str(file))
        source[0] = make_notebooks.page(json.loads(file.read_text(encoding="utf-8")), file.stem)
    if name == "commands":
        source[0] += f"\n{make_commands.page()}\n"
    for file, page in _OUTSIDE.items():
        source[0] = source[0].replace(f"({file}", f"({page}")  # an anchor may follow


def setup(app: Sphinx) -> None:
    """What is read is the Markdown as it stands, except links that leave the folder, notebooks and commands."""
    app.connect("source-read", _inside)
