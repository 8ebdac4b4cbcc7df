"""`parley answers`: randomised answers, drawn on people's own devices and counted together."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from parley.report.terminal import console, print_json, terminal_table

answers_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Randomise answers on the devices of people who trust no other party, and estimate counts from the answers.",
)

Names = Annotated[
    list[str],
    typer.Option("--name", metavar="NAME", help="One of the possible answers; repeat the option for each answer."),
]
Epsilon = Annotated[float, typer.Option("--epsilon", "-e", help="How much an answer may reveal about its person.")]


@answers_app.command("draw")
def draw_command(name: Names, epsilon: Epsilon) -> None:
    """Draw the answers to true ones, a line each: on the device of the person whom they are about.

    Truths are read from standard input, so that no list of processes shows them. Draw once and keep the answer: each
    further one of the same person costs as much again.

    Example:  echo yes | parley answers draw --name yes --name no --epsilon 1
    """
    from parley.tasks.statistics.counts.collected import Survey

    *lines, unended = sys.stdin.read().split("\n")  # other marks that end a line may be in a name
    truths = [line.removesuffix("\r") for line in (*lines, *([unended] if unended else []))]
    for answer in Survey(tuple(name), epsilon).answered(truths):
        typer.echo(answer)


@answers_app.command("count")
def count_answers_command(
    table: Annotated[
        Path, typer.Argument(metavar="FILE", help="A table of collected answers, with one row per person.")
    ],
    column: Annotated[str, typer.Option("--column", metavar="COLUMN", help="The column with the answers.")],
    name: Names,
    epsilon: Epsilon,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Count how many people each answer is true of, from answers that were drawn by `parley answers draw`.

    Names and epsilon are those that answers were drawn with. Nothing is debited: what is collected is protected
    already.

    Example:  parley answers count collected.csv --column smokes --name yes --name no --epsilon 1
    """
    from parley.numerals import number, percent
    from parley.tasks.statistics.counts.collected import Survey
    from parley.validate import printable

    survey = Survey(tuple(name), epsilon)
    collected = survey.counted(_collected(table, column, survey.names))
    if as_json:
        print_json(collected.to_json(), inside=False)
        return
    head = [printable(column), "answers", "true of", "within", "likeliest"]
    body = [
        [
            printable(answer_name, 40),
            f"{answers:,}",
            f"{true_of:,.0f}",
            _span(collected.within(true_of)),
            f"{likeliest:,.0f}",
        ]
        for answer_name, answers, true_of, likeliest in collected.rows
    ]
    console.print(terminal_table([head, *body], f"Answers of {collected.people:,} people"))
    console.print(
        f"Each answer was true with probability {percent(survey.truthful)}; otherwise it was a random name. Therefore "
        f"ε = {number(epsilon)} for every person, whoever collects the answers. The number under 'true of' has a "
        f"standard deviation of at most {number(collected.deviation, 3)} people. The interval under 'within' contains "
        "a name's true number in about 95% of cases, if there are many people. The column 'likeliest' lists the "
        "non-negative counts that explain all answers best.",
        style="dim",
    )


def _collected(table: Path, column: str, names: tuple[str, ...]) -> list[str]:
    """Return the answers in a column by value (1.0 counts as 1), "" for any other name."""
    from parley.data.sources import find_source, read_table
    from parley.data.table import codes, require_columns
    from parley.tasks.statistics.counts.question import require_told_apart

    source = find_source(table)
    require_told_apart(names, "--name gives", source, str(table), "a survey")
    frame = read_table(source)
    require_columns(frame, [column], str(table))
    places = codes(frame, column, names, str(table), gaps=True, listed=frozenset(names))
    called = (*names, "", "")  # another name, a gap
    return [called[int(place)] for place in places]


def _span(ends: tuple[float, float]) -> str:
    return " to ".join(f"{end:,.0f}" for end in ends)
