import subprocess
import sys

import pytest
from typer.testing import CliRunner

from parley.cli.app import PARTS, app


@pytest.mark.parametrize("name", PARTS)
def test_the_line_in_the_list_is_what_the_command_says_of_itself(name):
    paragraph = (PARTS[name].load().help or "").split("\n\n")[0]
    assert PARTS[name].line == " ".join(paragraph.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_and_version_load_no_command(arguments):
    code = (
        "import sys; from typer.testing import CliRunner; from parley.cli.app import app\n"
        f"assert CliRunner().invoke(app, {arguments}).exit_code == 0\n"
        "print(sorted({'numpy', 'pandas', 'pydantic', 'sklearn'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


COMMANDS = ["train", "forecast", "negotiate", "score", "learner run", "owner accept"]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_wrong_with_terms_is_said_before_libraries_are_loaded(command, tmp_path):
    (tmp_path / "bad.toml").write_text('[model]\nkind = "linear-regresion"\n')
    others = {"learner run": ["--owners", "addresses.toml"], "owner accept": ["--owner", "owner.toml"]}.get(command, [])
    code = (
        "import sys; from typer.testing import CliRunner; from parley.cli.app import app\n"
        f"error = CliRunner().invoke(app, {[*command.split(), str(tmp_path / 'bad.toml'), *others]!r}).exception\n"
        "print(type(error).__name__, sorted({'pandas', 'scipy', 'sklearn', 'grpc', 'opendp'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "TermsError []"


@pytest.mark.parametrize("command", [["refine", "model.json", "terms"], ["owner", "init", "folder"]])
def test_a_missing_option_says_nothing_of_the_environment(command):
    run = CliRunner().invoke(app, command)
    assert run.exit_code == 2
    assert "Missing option" in run.output
    assert "env var" not in run.output
