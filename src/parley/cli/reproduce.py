"""`parley reproduce`: figures and tables of the source documents again, published beside recomputed."""

import typer

from parley.cli.wu2019 import wu2019

reproduce_app = typer.Typer(no_args_is_help=True, help="A source document's numbers again: published beside recomputed.")
reproduce_app.command("wu2019")(wu2019)
