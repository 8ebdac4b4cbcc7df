import ast
import subprocess
import sys
from pathlib import Path

import pytest
from samples import make_terms
from typer.testing import CliRunner

import parley
from parley.cli.app import PART_BY_COMMAND, app, path_check
from parley.terms import write_terms


@pytest.mark.parametrize("name", PART_BY_COMMAND)
def test_the_line_in_the_list_is_what_the_command_says_of_itself(name):
    paragraph = (PART_BY_COMMAND[name].load().help or "").split("\n\n")[0]
    assert PART_BY_COMMAND[name].line == " ".join(paragraph.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_load_no_command(arguments):
    code = (
        "import sys; from typer.testing import CliRunner; from parley.cli.app import app\nassert "
        f"CliRunner().invoke(app, {arguments}).exit_code == 0\nprint(sorted({{'numpy', 'pandas', 'pydantic', "
        "'sklearn'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


HEAVY = [
    "sklearn",
    "scipy",
    "pandas",
    "pyarrow",
    "matplotlib",
    "opendp",
    "dp_accounting",
    "grpc",
    "google.protobuf",
    "numba",
    "joblib",
    "flwr",
]


def test_the_help_of_a_command_waits_for_no_library_that_its_work_needs():
    """Every command and every part of a group, in one process: the first that loads one of them is named."""
    code = (
        "import sys; from typer.testing import CliRunner; from parley.cli.app import PART_BY_COMMAND, app\nfor name, "
        "part in PART_BY_COMMAND.items():\n    for words in [[name], *([name, inner] for inner "
        "in getattr(part.load(), 'commands', "
        "{}))]:\n        run = CliRunner().invoke(app, [*words, '--help'])\n        assert run.exit_code == 0 and "
        f"'Usage' in run.output, (words, run.exception)\n        loaded = sorted(set({HEAVY}) & set(sys.modules))\n  "
        "      assert not loaded, (words, loaded)\n        print(*words)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-500:]
    assert {"train", "owner accept", "reproduce zawacki2024", "budget curve"} <= set(run.stdout.splitlines())


def test_options_are_called_as_they_are_typed():
    """Where an option's metavar is its name in capitals, later versions of Typer take it for the name."""

    def options(command):
        yield from (word for option in command.params for word in option.opts if word.startswith("--"))
        for inner in getattr(command, "commands", {}).values():
            yield from options(inner)

    found = [word for part in PART_BY_COMMAND.values() for word in options(part.load())]
    assert len(found) > 100
    assert [word for word in found if word != word.lower()] == []
    assert [name for file in Path(parley.__file__).parents[1].rglob("*.py") for name in unsaid(file)] == []


def unsaid(file):
    """Options of a file that leave their name to the version of Typer."""
    for argument in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(argument, ast.arg) or argument.annotation is None:
            continue
        for call in ast.walk(argument.annotation):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "typer.Option" and not call.args:
                words = [word.value.value for word in call.keywords if word.arg == "metavar"]
                if words == [argument.arg.upper()]:
                    yield f"{file.name}: {argument.arg}"


def test_what_help_says_without_them_is_what_they_say():
    """Names and numbers that stand in the help of a command, which does not load where they come from."""
    from parley.demo.unions import UNIONS
    from parley.privacy.accounting.stable_bounds import PANELS_BY_FIGURE as CURVES
    from parley_lab.papers.aarhus2020.collaborative_descent import EPOCHS

    assert list(CURVES) == ["4.1", *(f"4.{number}" for number in range(6, 12))]
    assert _option("demo", "unions").help.count(f" {UNIONS}.") == 1
    assert _option("reproduce", "epochs", "aarhus2020").help.count(f" {EPOCHS}.") == 1


def _option(part, name, inner=None):
    command = PART_BY_COMMAND[part].load()
    command = command if inner is None else command.commands[inner]
    return next(option for option in command.params if option.name == name)


COMMANDS = {
    "train": [],
    "forecast": [],
    "negotiate": [],
    "score": [],
    "learner run": ["--owners", "addresses.toml"],
    "owner accept": ["--owner", "owner.toml"],
}
# Each in a process of its own, forked before any was tried.
REFUSED = """
import os, sys
from typer.testing import CliRunner
from parley.cli.app import app
for command in sys.argv[1:]:
    if not os.fork():
        error = CliRunner().invoke(app, command.split()).exception
        heavy = {'pandas', 'scipy', 'sklearn', 'grpc', 'opendp'} & set(sys.modules)
        print(' '.join(command.split()[:-1]), type(error).__name__, sorted(heavy), flush=True)
        break
    os.wait()
"""


def test_what_is_wrong_with_terms_is_said_before_libraries_are_loaded(tmp_path):
    (tmp_path / "bad.toml").write_text('[model]\nkind = "linear-regresion"\n')
    for name in ("addresses.toml", "owner.toml"):
        (tmp_path / name).touch()
    typed = [" ".join([command, *others, "bad.toml"]) for command, others in COMMANDS.items()]
    run = subprocess.run(
        [sys.executable, "-c", REFUSED, *typed], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [f"{words.removesuffix(' bad.toml')} TermsError []" for words in typed]


MISSING = [
    "init gone --target y --write out.toml",
    "init terms.toml --target y --public gone --write out.toml",
    "plan terms.toml --pilot gone",
    "plan terms.toml --write gone/out.toml",
    "pin terms.toml --write gone/out.toml",
    "forecast terms.toml --inside gone --owner a",
    "negotiate terms.toml --report gone/page.html",
    "scales terms.toml --owners gone",
    "differences terms.toml --save gone/out.json",
    "count terms.toml --owners gone",
    "answers count gone --column c --name x --epsilon 1",
    "train terms.toml --save gone/model.json",
    "predict gone terms.toml --out out.csv",
    "recommend gone terms.toml --owner a --user u",
    "score gone terms.toml --owner a",
    "refine gone terms.toml --owner a --save out.json",
    "identify gone",
    "budget explain --terms gone",
    "audit gone --terms terms.toml",
    "owner accept terms.toml --owner gone",
    "owner serve gone",
    "host serve gone",
    "learner run terms.toml --owners gone",
    "learner propose terms.toml --owners gone",
    "peer run terms.toml --owner gone",
    "certs issue gone --authority .",
]


def test_a_missing_file_is_named_before_libraries_are_loaded(tmp_path):
    write_terms(make_terms(200, 300), tmp_path / "terms.toml")
    named = REFUSED.replace("type(error).__name__", "'gone' in str(error), type(error).__name__")
    run = subprocess.run(
        [sys.executable, "-c", named, *(f"{words} " for words in MISSING)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [" ".join(words.split()[:-1]) for words in MISSING]
    assert run.stdout.splitlines() == [f"{words} True SettingError []" for words in shown]


def test_it_is_known_of_every_path_whether_it_is_read_or_written():
    """Except of folders, which are made, and of a few whose commands look at nothing else first."""

    def unknown(words, command):
        for name, part in getattr(command, "commands", {}).items():
            yield from unknown(f"{words} {name}", part)
        for param in command.params:
            if param.type.name in ("path", "file", "directory") and path_check(param.name, param.metavar or "") is None:
                yield f"{words} {param.name}", param.metavar

    found = {words: shown for name, part in PART_BY_COMMAND.items() for words, shown in unknown(name, part.load())}
    files = {words for words, shown in found.items() if shown not in ("DIR", "FOLDER")}
    assert files == {
        "owner backup file",
        "owner restore file",
        "host restore file",
        "owner restore settings_file",
        "owner accept terms_file",
        "certs show file",
    }


@pytest.mark.parametrize("command", [["refine", "model.json", "terms"], ["owner", "init", "folder"]])
def test_a_missing_option_says_nothing_of_the_environment(command):
    run = CliRunner().invoke(app, command)
    assert run.exit_code == 2
    assert "Missing option" in run.output
    assert "env var" not in run.output
