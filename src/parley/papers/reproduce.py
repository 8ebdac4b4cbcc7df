"""`parley reproduce`: figures and tables of the source documents again, published beside recomputed."""

import typer

from parley.papers.aarhus2020.document import aarhus2020
from parley.papers.chase2017.document import chase2017
from parley.papers.hitaj2017.document import hitaj2017
from parley.papers.pejo2018.document import pejo2018
from parley.papers.wu2019.document import wu2019
from parley.papers.wu2019_thesis.document import wu2019_thesis
from parley.papers.zawacki2024.document import zawacki2024

reproduce_app = typer.Typer(
    no_args_is_help=True, help="A source document's numbers again: published beside recomputed."
)
reproduce_app.command("wu2019")(wu2019)
reproduce_app.command("aarhus2020")(aarhus2020)
reproduce_app.command("chase2017")(chase2017)
reproduce_app.command("hitaj2017")(hitaj2017)
reproduce_app.command("pejo2018")(pejo2018)
reproduce_app.command("zawacki2024")(zawacki2024)
reproduce_app.command("wu2019-thesis")(wu2019_thesis)
