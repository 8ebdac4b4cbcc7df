import subprocess
import sys

from consortium import toml_terms

WITHOUT = """
import importlib.metadata, sys
for name in ("grpc", "google.protobuf", "flwr"):
    sys.modules[name] = None
importlib.metadata.entry_points = lambda **words: ()
from typer.testing import CliRunner
from parley.cli.app import app
from parley.errors import SettingError
needy = {
    "owner serve owner.toml": "deploy",
    "host serve host.toml": "deploy",
    "learner run terms.toml --owners addresses.toml": "deploy",
    "learner flower app": "flower",
    "reproduce wu2019 --list": "lab",
    "reproduce": "lab",
}
for command, extra in needy.items():
    error = CliRunner().invoke(app, command.split()).exception
    assert isinstance(error, SettingError), (command, error)
    expected = f"this command needs the extra '{extra}'; install the extra: pip install 'parley-dp[{extra}]'"
    assert str(error) == expected, error
assert CliRunner().invoke(app, ["budget", "explain", "--epsilon", "1"]).exit_code == 0
assert CliRunner().invoke(app, ["man", "--to", "pages"]).exit_code == 0
"""


def test_without_its_extra_a_command_says_so_and_everything_else_runs(tmp_path):
    (tmp_path / "terms.toml").write_text(toml_terms())  # good terms: what is wrong with them is said first
    for name in ("owner.toml", "host.toml", "addresses.toml"):  # and so are files that are missing
        (tmp_path / name).touch()
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
