"""`parley predict`: a saved model's predictions for the rows of a table."""

from pathlib import Path
from typing import Annotated

import typer

from parley.numerals import counted, number
from parley.report.terminal import console, print_json, progress_bar


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
        typer.Option(
            metavar="FILE",
            help="Draw the survival curves of the rows, or what each column adds to a model of bins or boosted trees "
            "(.png, .svg or .pdf).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object about the predictions.")] = False,
) -> None:
    """Predict with a trained model: the rows of a table, and behind their columns what the model says of each.

    Numbers come in the target's own units, classes by their names, with a column of probabilities for each class where
    the model has them; counts are rates times the exposures in the table; of times until something happens come the
    expected one, hazards and survival by period, and --plot draws the curves. Nothing leaves this machine: FILE holds
    the rows as they are.

    Example:  parley predict model.json new_customers.csv --out predicted.csv
    """
    from parley.learning.outcome import load_model
    from parley.learning.outcome.guarantee import INSIDE
    from parley.learning.outcome.predicted_table import (
        predictions,
        require_table_name,
        summary,
        target_range,
        write_table,
    )
    from parley.report.figures.shape_functions import draw, require_drawing

    require_table_name(out, rows, model_file)
    model = load_model(model_file)
    if plot is not None:
        require_drawing(model, plot)
    with progress_bar("predicting") as progress:
        frame = predictions(model, rows)
        progress.says("writing")
        write_table(frame, out)
        if plot is not None:
            draw(model, frame, plot)
    content = summary(model, frame)
    if as_json:
        print_json(content | {"out": str(out)}, inside=True)
        return
    if "classes" in content:
        said = ", ".join(f"{count:,} {name}" for name, count in content["classes"].items())
    else:
        said = f"mean {number(content['mean'])}, from {number(content['least'])} to {number(content['largest'])}"
    console.print(
        f"{out}  {counted(len(frame), 'row')}, predicted {content['target']}: {said}", markup=False, soft_wrap=True
    )
    if (ends := target_range(model)) is not None:
        low, high = (number(end) for end in ends)
        console.print(f"Predictions are cut to the declared range of the target, {low} to {high}.", style="dim")
    if not content["released"]:
        console.print(
            "No release: a simulation's or a personal model, which protects nobody. Keep it inside.", style="dim"
        )
    console.print(INSIDE, style="dim")
