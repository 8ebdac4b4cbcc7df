"""`parley reproduce`: figures and tables of the source documents again, published beside recomputed."""

from typing import Annotated

import typer

from parley.cli.screen import console, print_json
from parley.report.tables import number, terminal_table
from parley.reproduce import joint_learning_game

reproduce_app = typer.Typer(no_args_is_help=True, help="A source document's numbers again: published beside recomputed.")


@reproduce_app.command("pejo2018")
def pejo(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Pejó, Tang, Arriaga, "Together or Alone: The Price of Privacy in Joint Learning": its equilibria and what does not follow.

    Example:  parley reproduce pejo2018
    """
    compared = [*joint_learning_game.equilibrium_numbers(), *joint_learning_game.outcomes()]
    if as_json:
        print_json({"rows": [{**vars(row), "agrees": row.agrees} for row in compared]})
        return
    rows = [["case", "quantity", "published", "recomputed", "remark"]]
    for row in compared:
        remark = "" if row.agrees else row.remark
        rows.append([row.where, row.quantity, number(row.published, 5), number(row.recomputed, 5), remark])
    console.print(terminal_table(rows, "Together or Alone, section 7.3, from its own table 5"))
    console.print()
    console.print(terminal_table(joint_learning_game.best_response_rows(), "Its table 6 at C/B = 0.5"))
