"""`parley init`: planned terms from files as they are."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.owner_snapshot import URI, AskPassword, QueryFile, query_text, take_with_prompt
from parley.errors import SettingError
from parley.report.terminal import Terminal, show


def init_command(
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")],
    write: Annotated[Path, typer.Option(metavar="TERMS", help="File for the new terms.")],
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES...", help="One private table per owner (.csv, .parquet, folder, s3://...)."),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RECORDS",
            help="Owner with a table elsewhere; append ,EPS for a different epsilon. Repeatable.",
        ),
    ] = None,
    public: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Public sample whose rows resemble the private rows.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(metavar="EPS", help="Epsilon of every owner. Default: the command asks, and suggests 1."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", metavar="DELTA", help="Also try Gaussian noise with this delta; 0 means pure epsilon-DP."
        ),
    ] = None,
    hosts: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Names of two or three parties that draw shared noise.")
    ] = None,
    draw: Annotated[
        str | None, typer.Option(metavar="together", help="With two --hosts: both draw one noise together.")
    ] = None,
    hosts_may_cheat: Annotated[
        bool, typer.Option("--hosts-may-cheat", help="With three --hosts: they verify draws; one may do anything.")
    ] = False,
    check_answers: Annotated[
        bool, typer.Option("--check-answers", help="With three --hosts: they leave out answers beyond their bounds.")
    ] = False,
    person: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Column that identifies people, if people have several rows.")
    ] = None,
    records_per_person: Annotated[
        int, typer.Option(metavar="K", help="With --person: largest number of rows to use per person.")
    ] = 1,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help="Kind of model. Default: the kind that fits the public sample's target."
        ),
    ] = None,
    exposure: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="With --kind poisson-regression: the exposure column.")
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="With --kind survival: the column that is 1 if the event happened."),
    ] = None,
    periods: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="With --kind survival: the end times of the periods.")
    ] = None,
    positive: Annotated[
        str | None, typer.Option(metavar="NAME", help="With two classes: the name of the class that counts as 1.")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=LOW,HIGH", help="Range of a column of numbers or dates. Repeatable."),
    ] = None,
    dates: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=FORMAT", help="Format of a column's dates, such as %d/%m/%Y. Repeatable."),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=A,B,C",
            help="A column's category names; COLUMN alone uses the public sample's names. Repeatable.",
        ),
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Merge names in this column that differ only in capitalisation or spaces."),
    ] = None,
    features: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Columns to learn from. Default: all usable columns.")
    ] = None,
    columns: Annotated[
        str,
        typer.Option(metavar="WAY", help="How the model uses columns: lines, bins, hinges, trees, margin or best."),
    ] = "best",
    missing: Annotated[
        str | None, typer.Option(metavar="WAY", help="What to do with empty cells: fill (default) or refuse.")
    ] = None,
    holdout: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of each owner's rows in the held-out set.")
    ] = 0.2,
    score_epsilon: Annotated[
        float | None,
        typer.Option(metavar="EPS", help="Part of each owner's epsilon for releasing the model's score once."),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the terms.")] = "",
    uri: Annotated[str | None, typer.Option("--uri", metavar="URI", help=URI)] = None,
    query: Annotated[
        str | None, typer.Option(metavar="SQL", help="With --uri: an SQL query that returns one row per record.")
    ] = None,
    query_file: QueryFile = None,
    order_by: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="With --uri: column to sort rows by, which Parley treats as public."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With --uri: new folder for the table, named after the owner.")
    ] = None,
    ask_password: AskPassword = False,
    anyway: Annotated[
        bool, typer.Option("--force", "--anyway", help="Write terms even if noise would hide most column statistics.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask no questions, and use the default answers.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the planner's pilot runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and ask no questions.")] = False,
) -> None:
    """Write terms for existing tables, and plan how to spend the owners' privacy budgets. The command reads column
    names, kinds and row counts from private tables.

    If no option, public sample or file type states whether a column has numbers or names, the command decides from the
    column's cells. The command reads the --person column to see which rows belong to the same person. Ranges and
    category names come from --public or from your options and answers, never from private rows. If ranges or names are
    missing, the terms reserve part of each owner's epsilon for noisy column statistics. The command asks you for
    missing settings, such as epsilon. Without --public, the command also asks for the kind of model, ranges and names.
    With --yes, the command asks nothing and uses the default answers. The planner chooses how best to spend the owners'
    budgets. The command writes the terms with comments.

    Example:  parley init bank_a.csv bank_b.csv --target defaulted --public public_loans.csv --write terms.toml
    """
    from parley.workflows.draft import draft_terms

    taken: list[Path] = []
    text = query_text(query, query_file)
    if uri is not None or text is not None or order_by or to is not None:
        if uri is None or text is None or not order_by or to is None:
            raise SettingError(
                "--uri, --query, --order-by, --to: only some of the four options are given; give all or none"
            )
        take_with_prompt(uri, text, order_by, to, ask_password)
        taken = [to]
    typed = {
        "target": target,
        "public": public,
        "owner": owner,
        "epsilon": epsilon,
        "delta": delta,
        "hosts": hosts,
        "draw": draw,
        "hosts_may_cheat": hosts_may_cheat,
        "check_answers": check_answers,
        "person": person,
        "records_per_person": records_per_person,
        "kind": kind,
        "exposure": exposure,
        "event": event,
        "periods": periods,
        "positive": positive,
        "bounds": bounds,
        "dates": dates,
        "categories": categories,
        "merge": merge,
        "features": features,
        "columns": columns,
        "missing": missing,
        "holdout": holdout,
        "score_epsilon": score_epsilon,
        "title": title,
    }
    every = [*(files or ()), *taken]
    asks = not (yes or as_json)
    report = draft_terms(every, write, Terminal(), typed, asks=asks, anyway=anyway, seed=seed, taken=taken)
    show(report, as_json)
