"""`parley predict`: a saved model's predictions for the rows of a table."""

from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show


def predict_command(
    model_file: Annotated[Path, typer.Argument(metavar="MODEL", help="The model, as `parley train --save` wrote it.")],
    rows: Annotated[
        Path, typer.Argument(metavar="ROWS", help="A table (.csv or .parquet) with the columns the model learned from.")
    ],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File for the rows and their predictions (.csv or .parquet).")
    ],
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw survival curves, or each column's contribution (.png, .svg, .pdf)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the predictions.")] = False,
) -> None:
    """Add a trained model's predictions to a copy of a table.

    Predicted numbers are in the target's own units. Predicted classes are names. If the model gives probabilities, each
    class has a column of probabilities. Predicted counts are rates times the exposures in the table. For survival
    models, FILE contains the expected time, hazards and survival by period, and --plot draws the curves. Nothing leaves
    this machine. FILE also contains the private rows.

    Example:  parley predict model.json new_customers.csv --out predicted.csv
    """
    from parley.workflows.models import predict_rows

    show(predict_rows(model_file, rows, out, Terminal(), plot), as_json)
