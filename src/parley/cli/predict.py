"""`parley predict`: a saved model's predictions for the rows of a table."""

from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import Terminal, show


def predict_command(
    model_file: Annotated[
        Path, typer.Argument(metavar="MODEL", help="The model file that `parley train --save` wrote.")
    ],
    rows: Annotated[
        Path, typer.Argument(metavar="ROWS", help="A table (.csv or .parquet) with the columns that the model uses.")
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

    Predicted numbers are in the units of the target column. A predicted class is the name of the class. If the model
    gives probabilities, FILE has a column of probabilities for each class. Predicted counts are rates times the
    exposures in the table. For survival models, FILE contains the expected time, and the hazard and survival
    probability for each period. For survival models, --plot draws the survival curves. Nothing leaves this machine.
    FILE also contains the table's private rows.

    Example:  parley predict model.json new_customers.csv --out predicted.csv
    """
    from parley.workflows.models import predict_rows

    show(predict_rows(model_file, rows, out, Terminal(), plot), as_json)
