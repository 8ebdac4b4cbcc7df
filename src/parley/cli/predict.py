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
        Path, typer.Option(metavar="FILE", help="Where the rows go with their predictions (.csv or .parquet).")
    ],
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw survival curves, or what each column adds (.png, .svg, .pdf)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the predictions.")] = False,
) -> None:
    """Predict with a trained model: writes the rows of a table with the predictions as further columns.

    Numbers come in the target's own units, classes by their names, with a column of probabilities for each class where
    the model has them; counts are rates times the exposures in the table; of times until something happens come the
    expected one, hazards and survival by period, and --plot draws the curves. Nothing leaves this machine: FILE holds
    the rows as they are.

    Example:  parley predict model.json new_customers.csv --out predicted.csv
    """
    from parley.workflows.models import predict_rows

    show(predict_rows(model_file, rows, out, Terminal(), plot), as_json)
