"""What a shell is told when somebody presses the tab key."""

import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from parley.cli.app import PART_BY_COMMAND, app


def completed(words, shell="complete_bash", **extra):
    place = str(len(words.split(" ")) - 1)
    asked = {"_PARLEY_COMPLETE": shell, "COMP_WORDS": words, "COMP_CWORD": place, "_TYPER_COMPLETE_ARGS": words}
    run = CliRunner().invoke(app, [], prog_name="parley", env={**asked, **extra})
    assert run.exit_code == 0, (run.output, run.exception)
    return run.output.split()


def test_commands_their_parts_and_their_options_are_completed(tmp_path):
    assert completed("parley ") == list(PART_BY_COMMAND)
    assert completed("parley tra") == ["train"]
    assert completed("parley owner acc") == ["accept"]
    assert completed("parley owner accept --own") == ["--owner"]
    assert "--ledgers" in completed("parley train --")


def test_a_file_that_is_not_there_yet_is_no_mistake_while_somebody_types(tmp_path):
    assert completed(f"parley train {tmp_path}/terms.toml --led") == ["--ledgers"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_one(shell, tmp_path):
    shown = CliRunner().invoke(
        app, [], prog_name="parley", env={"_PARLEY_COMPLETE": f"source_{shell}", "_TYPER_COMPLETE_ARGS": ""}
    )
    assert shown.exit_code == 0
    assert f"_PARLEY_COMPLETE=complete_{shell}" in shown.output
    if shutil.which(shell) is not None:
        (tmp_path / "script").write_text(shown.output)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)


def test_parts_of_a_command_offer_none_of_their_own():
    for part in PART_BY_COMMAND.values():
        assert not [option for option in part.load().params if "completion" in option.name]
