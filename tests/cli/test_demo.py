import json
import re

from typer.testing import CliRunner

from parley.cli.app import app
from parley.demo import unions


def test_the_demo_writes_a_report_and_its_commands_can_be_typed_again(tmp_path, monkeypatch):
    monkeypatch.setattr(unions, "LARGE_BANK_LOANS", 1500)
    where = tmp_path / "demo"
    run = CliRunner().invoke(app, ["demo", "--out", str(where), "--unions", "4", "--seed", "3"])
    assert run.exit_code == 0, run.output
    said = " ".join(run.output.split())
    page = (where / "report.html").read_text()
    assert page.count("<svg") == 1
    assert "synthetic" in page
    assert not re.findall(r'(?:src|href)="(?!#)', page)  # self-contained: nothing is fetched
    assert (where / "unions.png").stat().st_size > 10_000
    typed = [line.removeprefix("$ parley ").split() for line in run.output.splitlines() if line.startswith("$ parley ")]
    assert [words[0] for words in typed] == [
        "forecast",
        "negotiate",
        "negotiate",
        "train",
        "train",
        "score",
        "refine",
        "forecast",
    ]
    trained = (where / "model.json").read_text()
    for words in typed[3], typed[6]:
        again = CliRunner().invoke(app, words)
        assert again.exit_code == 0, again.output
    assert (where / "model.json").read_text() == trained
    better = int(re.search(r"beats the owner's own model for (\d+) of 5", said).group(1))
    scores = json.loads(CliRunner().invoke(app, [*typed[5], "--json"]).stdout)["owners"]
    assert better == sum(owner["personal_gain"]["mean"] > 0 for owner in scores)
