"""The page for two banks, docs/deployment.md, from its first command to a model: two daemons and a learner."""

import re
import tomllib
from contextlib import ExitStack
from pathlib import Path

import pytest
from blocks import SHELLS, blocks, in_shell, typed_words
from newcomer import typed

import parley
from parley.audit.served.attack import DEFAULT_PROGRAM, LOOPBACK_ADDRESS, daemon

BANKS = ("bank-a", "bank-b")
PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"
SMALLER = [
    ("bank-a=250000", "bank-a=60"),
    ("bank-b=90000", "bank-b=60"),
    ("--yes --write", "--yes --columns lines --write"),
    ("/data/", ""),
    ("--lifetime 3", f"--lifetime 3 --listen {LOOPBACK_ADDRESS}"),
    ("--certificate learner.crt", "--certificate learner.crt --yes"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two tables and a public sample."""
    monkeypatch.chdir(tmp_path)
    book = parley.data.synthetic_lending(200, seed=1)
    for name, rows in {"bank_a": book[:60], "bank_b": book[60:120]}.items():
        rows.to_parquet(f"{name}.parquet")
    book[120:].to_csv("public_loans.csv", index=False)
    return tmp_path


def test_every_command_of_the_page_leads_to_a_model(folder):
    shells = [block for block in blocks(PAGE) if block.language in SHELLS]
    *steps, last = shells
    assert last.run_by == "tests/deploy/test_two_banks.py"
    for block in steps:
        text = block.text
        for old, new in SMALLER:
            text = text.replace(old, new)
        in_shell(text)
        if his := "".join(line for line in text.splitlines(keepends=True) if line.startswith("anna$")):
            of_ben(his)
    serve, run = (typed_words(line) for line in re.findall(r"^\w+\$\s+parley (.*)$", last.text, re.M))
    assert serve == ["owner", "serve", "bank-a/owner.toml"]
    with ExitStack() as daemons:
        listen = {name: daemons.enter_context(daemon(DEFAULT_PROGRAM, folder / name / "owner.toml")) for name in BANKS}
        (folder / "addresses.toml").write_text(addresses(listen), encoding="utf-8")
        done = typed(*run, "--force")
    assert done.code == 0, done.said
    assert all(name in done.out for name in BANKS)
    assert Path("model.json").is_file()


def of_ben(text):
    """Ben does the same, and Lea signs for him."""
    text = text.replace("bank-a", "bank-b").replace("bank_a", "bank_b")
    if "certs request" in text:
        request, copy = text.splitlines(keepends=True)
        in_shell(request)
        in_shell("lea$ parley certs issue bank-b/bank-b.csr --authority authority\n")
        in_shell(copy + "lea$ parley certs show bank-b/bank-b.csr\n")
    else:
        in_shell(text)


def addresses(listen):
    """The page's own file, with the ports at which the daemons listen."""
    (text,) = [block.text for block in blocks(PAGE) if block.language == "toml"]
    for name, address in listen.items():
        text = text.replace(f"parley.{name}.example:7443", address)
    assert tomllib.loads(text)["owners"] == listen
    return text
