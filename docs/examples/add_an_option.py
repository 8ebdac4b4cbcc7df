"""Add an option to a command: `parley pin --expect HASH` pins nothing where the terms are others than those read.

A command's function only reads its options and shows a report; its workflow does the work. So an option is a parameter
of both. Help, completion, the manual page and the list of commands follow.

In the package: cli/plan.py, workflows/plan.py
"""

from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

import parley
from parley.errors import SettingError
from parley.report.run_options import Expect
from parley.terms.file import require_expected, write_terms
from parley.workflows.plan import pin_terms


def pin_expected_terms(terms_file, write, expect):
    """The workflow, with its check first."""
    require_expected(parley.load_terms(terms_file), expect)
    return pin_terms(terms_file, write)


def pin_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS")],
    write: Annotated[Path, typer.Option(metavar="TERMS2")],
    expect: Expect = None,
) -> None:
    """The command, with the option handed on."""
    typer.echo(pin_expected_terms(terms_file, write, expect).terms_hash)


command = typer.Typer(add_completion=False)
command.command()(pin_command)

parley.data.synthetic_lending(200, seed=1)[["fico", "int_rate"]].to_csv("public.csv", index=False)
model = {"kind": "linear-regression", "target": "int_rate", "features": ["fico"], "public": "public.csv"}
owners = [{"name": "bank", "records": 4000, "epsilon": 1.0}]
terms = parley.Terms.from_dict({"model": model, "privacy": {"clip": 2e4}, "owners": owners})
write_terms(terms, Path("terms.toml"))
given = ["terms.toml", "--write", "pinned.toml", "--expect"]
assert "--expect" in CliRunner().invoke(command, ["--help"]).output
assert isinstance(CliRunner().invoke(command, [*given, "0" * 8]).exception, SettingError)
assert CliRunner().invoke(command, [*given, terms.hash[:8]]).exit_code == 0
