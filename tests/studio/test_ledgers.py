"""The Owner tab: every ledger of the folder, also those that no settings name; and files that are none."""

import contextlib
import re
import sqlite3

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from clinics import clinic_terms, write_tables
from studio_client import enter, stranger_at, studio_at
from typer.testing import CliRunner

from parley import Ledger
from parley.cli.app import app as parley


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "terms.toml").write_text(clinic_terms())
    write_tables(tmp_path, north=400, south=300)
    return tmp_path


@pytest.fixture
def client(folder):
    return enter(stranger_at(studio_at(folder)))


def test_every_ledger_of_the_folder_is_shown_with_or_without_settings(client, folder):
    words = ["train", str(folder / "terms.toml"), "--ledgers", str(folder / "books"), "--lifetime", "2", "--force"]
    done = CliRunner().invoke(parley, words)
    assert done.exit_code == 0, done.output
    listed = client.get("/owner").text
    assert "Ledgers in this folder" in listed
    for name, left in (("north", 1), ("south", 1.5)):
        row = re.search(rf"<tr>(?:(?!</tr>).)*books/{name}\.ledger</span>.*?</tr>", listed, re.DOTALL).group()
        assert f"<td>ε = {left:g} of 2</td>" in row
        assert re.search(r"<td>\d+ entries</td>\n?<td>[0-9a-f]{16}…</td>", row)
    one = client.get("/owner", params={"file": "books/south.ledger"}).text
    assert "Ledger of south" in one
    assert "Lifetime budget: ε = 2" in one
    assert "0.5 is spent" in one
    assert len(re.findall("accepted table: <code>[0-9a-f]{64}</code>", one)) == 1
    assert 'name="settings"' not in one  # nobody's settings say where its table is
    init = ["owner", "init", str(folder / "home"), "--name", "west", "--table", str(folder / "north.csv")]
    assert CliRunner().invoke(parley, [*init, "--lifetime", "3"]).exit_code == 0
    listed = client.get("/owner").text
    assert listed.count("home/owner.toml</span>") == 1
    assert "west.ledger</span>" not in listed  # the same books


@pytest.mark.parametrize("content", [b"", b"junk", b"SQLite format 3\x00" + b"\x00" * 4096])
def test_a_file_that_is_no_ledger_is_a_sentence_and_stays_as_it_is(client, folder, content):
    (folder / "books").mkdir()
    (folder / "books" / "<b>.ledger").write_bytes(content)
    (folder / "owner.toml").write_text("name = 1")
    page = client.get("/owner")
    assert page.status_code == 200
    assert 'class="refused"' in page.text
    assert "<b>.ledger" not in page.text
    assert (folder / "books" / "<b>.ledger").read_bytes() == content


def test_a_broken_chain_is_said_beside_the_other_ledgers(client, folder):
    for name in ("north", "south"):
        Ledger(folder / f"{name}.ledger", lifetime=1.0).close()
    with contextlib.closing(sqlite3.connect(folder / "north.ledger")) as db, db:
        db.execute("update entries set epsilon = '9'")
    page = client.get("/owner", params={"file": "south.ledger"}).text
    assert "Ledger of south" in page
    assert "north.ledger" in re.search('class="refused">(.*?)</p>', page).group(1)
