"""Tables that are brought, plans, inside views and releases from the page: the command that one would type, and nothing
without somebody's word."""

import html
import json
import os
import re
import stat
import time
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from clinics import clinic_terms, write_tables
from studio_client import PROOF, enter, stranger_at, studio_at
from typer.testing import CliRunner

from parley.cli.app import app as parley
from parley.errors import OtherBooksError, SettingError
from parley.studio import file_pages
from parley.studio.jobs import Job
from parley.studio.pages import Studio
from parley.studio.training_pages import release_command
from parley.terms import load_terms


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "terms.toml").write_text(clinic_terms())
    write_tables(tmp_path, north=400, south=300)
    return tmp_path


@pytest.fixture
def client(folder):
    return enter(stranger_at(studio_at(folder)))


@pytest.fixture
def started(monkeypatch, folder):
    """Commands that would have been started."""
    found = []

    def start(self, command, title, report=False):
        found.append(list(command))
        return Job(folder / "job")

    monkeypatch.setattr("parley.studio.jobs.JobFolder.start", start)
    return found


def bring(client, name, content):
    return client.post("/files/bring", params={"name": name}, content=content, headers=PROOF).text


def test_tables_are_brought_whole_for_their_owner_alone_and_overwrite_nothing(client, folder):
    assert "new.csv: 2 rows, 2 columns." in bring(client, "new.csv", b"age,y\n31,2\n44,5\n")
    assert stat.S_IMODE((folder / "new.csv").stat().st_mode) == 0o600
    before = (folder / "north.csv").read_bytes()
    assert "exists" in bring(client, "north.csv", b"age\n1\n")
    assert (folder / "north.csv").read_bytes() == before
    page = client.get("/files/tables?table=new.csv").text
    assert 'value="new.csv" checked' in page
    assert 'value="north.csv">' in page
    asked = client.post("/files/columns", data={"table": ["new.csv", "north.csv"]}, headers=PROOF).text
    assert re.findall('name="column.[0-9]+" value="([^"]+)"', asked) == ["y"]


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".csv",
        "x.toml",
        "x.py",
        "../x.csv",
        "/tmp/x.csv",
        "a/b.csv",
        ".hidden.csv",
        "a\0.csv",
        "..",
        "x.csv/",
        "\\..\\",
    ],
)
def test_a_table_is_brought_by_a_plain_name(client, folder, name):
    before = sorted(folder.rglob("*"))
    assert "refused" in bring(client, name, b"age\n1\n") or "failed" in bring(client, name, b"age\n1\n")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"93417,5\n3,4\n", b"a,b\n1\n", b"a,b\n"])
def test_what_is_no_table_does_not_stay_and_no_cell_is_said(client, folder, content):
    said = bring(client, "new.csv", content)
    assert "failed" in said
    assert "93417" not in said
    assert not list(folder.glob("*new.csv"))


def test_tables_that_are_too_large_are_refused_before_they_fill_the_disk(client, folder, monkeypatch):
    monkeypatch.setattr(file_pages, "MAX_UPLOAD_BYTES", 1000)
    assert "the limit for uploads" in bring(client, "new.csv", b"x" * 2000)

    def endless():
        yield from (b"x" * 100 for _ in range(100))

    assert "the limit for uploads" in bring(client, "new.csv", endless())  # that does not say how much it is
    monkeypatch.setattr(file_pages.shutil, "disk_usage", lambda _: type("Disk", (), {"free": 10}))
    assert "too little free space" in bring(client, "new.csv", b"a\n" + b"1\n" * 30)
    assert not list(folder.glob("*new.csv"))


def test_nothing_is_brought_over_a_network(folder):
    far = studio_at(folder)
    client = enter(stranger_at(Studio(far.folder, far.play, far.jobs, brings=False)))
    assert "not encrypted" in bring(client, "new.csv", b"age\n1\n")
    assert "data-bring" not in client.get("/files").text
    assert not (folder / "new.csv").exists()


def test_a_plan_is_the_command_beside_the_terms_as_written(client, folder, started):
    assert "exists" in client.post("/plan/start", data={"file": "terms.toml", "write": "terms"}, headers=PROOF).text
    client.post("/plan/start", data={"file": "terms.toml", "write": "planned"}, headers=PROOF)
    assert started == [["plan", str(folder / "terms.toml"), "--write", str(folder / "planned.toml")]]


def shown(client, **asked):
    """What the first page of a release puts into its form."""
    page = client.get("/train/release", params=asked).text
    return asked | dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page))


def release(client, **form):
    given = {"file": "terms.toml", "where": "here", "ledgers": "books", "lifetime": "3"}
    given = {**shown(client, **given), "model": "model", **form}
    return client.post("/train/release/start", data=given, headers=PROOF)


def test_a_release_says_first_what_it_spends_and_needs_somebodys_word(client, folder, started):
    page = client.get("/train/release?file=terms.toml&where=here&ledgers=books&lifetime=3").text
    assert "What it spends" in page
    assert "north" in page
    assert "not even after a restart or under another agreement" in page
    for wrong in ({}, {"agreed": "off"}, {"agreed": "on", "where": "x"}, {"agreed": "on", "ledgers": "../books"}):
        assert "hx-redirect" not in release(client, **wrong).headers, wrong
    short = html.unescape(client.get("/train/release?file=terms.toml&where=here&ledgers=books").text)
    assert "give the table's lifetime budget: “Lifetime budget ε of new ledgers” = 1, or larger" in short
    assert "--" not in short[short.index("the ledger does not exist") : short.index("These terms need")]
    assert "failed" in release(client, agreed="on", lifetime="0.1").text  # no room
    assert started == []
    assert not (folder / "books").exists()
    assert "hx-redirect" in release(client, agreed="on").headers
    read = ["--expect", load_terms(folder / "terms.toml").hash]
    books, model = ["--ledgers", str(folder / "books"), "--lifetime", "3.0"], ["--save", str(folder / "model.json")]
    assert started == [["train", str(folder / "terms.toml"), *read, *books, *model, "--json"]]


def test_the_first_page_says_all_that_is_spent_and_made_and_makes_nothing(client, folder):
    (folder / "books").mkdir()
    (folder / "books" / "north.ledger").touch()  # a run was killed here
    place = {"file": "terms.toml", "where": "here", "ledgers": "books", "lifetime_delta": "1e-6"}
    normal = clinic_terms().replace('mechanism = "laplace"', 'mechanism = "gaussian"\ndelta = 1e-7')
    (folder / "terms.toml").write_text(normal)
    page = client.get("/train/release", params={**place, "lifetime": "3"}).text
    assert "<td>400</td><td>1</td><td>1e-07</td>" in page
    assert "gives almost no protection" not in page
    assert "Parley will create these ledgers in books: north.ledger, south.ledger." in page
    assert "Each ledger will have a lifetime budget of ε = 3, δ = 1e-06, which can never be changed." in page
    assert "need a lifetime" in client.get("/train/release", params={**place, "lifetime": "0.25"}).text
    assert (folder / "books" / "north.ledger").read_bytes() == b""
    assert not (folder / "books" / "south.ledger").exists()
    (folder / "terms.toml").write_text(normal.replace("1e-7", "0.999"))
    loud = client.get("/train/release", params={**place, "lifetime": "3", "lifetime_delta": "0.999"}).text
    assert "A delta of 0.999 gives almost no protection" in loud


def test_another_folder_of_ledgers_for_the_same_tables_is_said_before_a_release(client, folder, started):
    (folder / "terms.toml").write_text(clinic_terms(horizon=1))
    words = ["train", str(folder / "terms.toml"), "--force", "--lifetime", "2", "--ledgers"]
    first = CliRunner().invoke(parley, [*words, str(folder / "books")])
    assert first.exit_code == 0, first.output
    assert "another ledger" not in first.stderr
    assert "Parley will create these ledgers" in first.stderr
    page = client.get("/train/release?file=terms.toml&where=here&ledgers=fresh&lifetime=3").text
    said = (
        "books/north.ledger is another ledger for the table of north. That ledger has reserved ε = 1, δ = 0, and has "
        "spent ε = 1."
    )
    assert said in html.unescape(page)
    assert "another ledger" not in client.get("/train/release?file=terms.toml&where=here&ledgers=books").text
    again = CliRunner().invoke(parley, [*words, str(folder / "deep" / "fresh")])
    assert isinstance(again.exception, OtherBooksError)
    assert not (folder / "deep").exists()
    fresh = shown(client, file="terms.toml", where="here", ledgers="fresh", lifetime="3") | {"agreed": "on"}
    assert "give a reason in the field" in release(client, **fresh, anyway="on").text
    assert started == []
    assert "hx-redirect" in release(client, **fresh, anyway="on", other_books="-a test").headers
    assert "--other-books=-a test" in started[0]


@pytest.mark.parametrize("anyway", [{}, {"anyway": "on"}])
def test_other_terms_than_were_shown_are_not_spent_by(client, folder, started, anyway):
    read = shown(client, file="terms.toml", where="here", ledgers="books", lifetime="3")
    (folder / "terms.toml").write_text(clinic_terms().replace("epsilon = 1.0", "epsilon = 2.0"))
    said = release(client, **read, agreed="on", **anyway).text
    assert "expected the terms" in said
    assert "Review the changed file" in client.get("/train/release/foreseen", params=read).text
    assert "expect: missing" in release(client, agreed="on", expect="").text
    assert started == []
    again = shown(client, file="terms.toml", where="here", ledgers="books", lifetime="3")
    assert "hx-redirect" in release(client, **again, agreed="on", **anyway).headers


@pytest.mark.parametrize("command", ["train", "column-stats", "learner run"])
def test_a_command_spends_nothing_by_other_terms_than_it_was_told_to_expect(folder, command):
    file = folder / "first.toml"
    file.write_text(SCALES if command == "column-stats" else clinic_terms())
    (folder / "none.toml").touch()
    place = (
        ["--owners", str(folder / "none.toml")] if command == "learner run" else ["--ledgers", str(folder / "books")]
    )
    for digits, said in (
        ("0" * 64, "Review the changed file"),
        ("0" * 7, "the first 8 to 64 digits"),
        ("", "8"),
    ):
        done = CliRunner().invoke(parley, [*command.split(), str(file), *place, "--expect", digits])
        assert (type(done.exception), said in str(done.exception)) == (SettingError, True), done.exception
    assert not (folder / "books").exists()
    done = CliRunner().invoke(parley, [*command.split(), str(file), *place, "--expect", load_terms(file).hash[:8]])
    assert "--expect" not in str(done.exception)
    assert "meanwhile" not in str(done.exception)


DECLARED = "bounds = { x0 = [-4, 4], x1 = [-4, 4], x2 = [-4, 4], y = [-9, 9] }\n"
STATED = """scales = { x0 = 2, x1 = 2, x2 = 2, y = 4.5 }
centres = { x0 = 0, x1 = 0, x2 = 0, y = 0 }
intercept = true
"""


def test_a_release_that_nobody_gains_by_has_a_box_to_tick(client, folder, started):
    page, asked = (
        "/train/release/foreseen",
        {"file": "terms.toml", "where": "here", "ledgers": "books", "lifetime": "3"},
    )
    assert page in client.get(f"/train/release?{urlencode(asked)}").text
    assert (
        "There is no forecast" in client.get(page, params=shown(client, **asked)).text
    )  # of bounds alone nobody can tell
    ranges = re.sub("bounds = .*\n", DECLARED + STATED, clinic_terms())
    (folder / "terms.toml").write_text(ranges)
    said = client.get(page, params=shown(client, **asked)).text
    assert "not worth its budget" in said, said
    assert 'name="anyway"' in said
    assert not (folder / "books").exists()
    assert 'name="foreseen" value="refused"' in said
    assert "Release the model anyway" in html.unescape(release(client, agreed="on", foreseen="refused").text)
    assert started == []
    release(client, agreed="on", foreseen="refused", anyway="on")
    release(client, agreed="on")
    assert ["--force" in command for command in started] == [True, False]


SCALES = (
    clinic_terms()
    .replace("bounds = { x0 = [-1, 1], x1 = [-1, 1], x2 = [-1, 1], y = [-1, 1] }\n", "")
    .replace('mechanism = "laplace"\n', 'mechanism = "gaussian"\ndelta = 1e-6\nscale_epsilon = 4.0\n')
)
SCALES = re.sub(r"epsilon = (1.0|0.5)\n", "epsilon = 9.0\n", SCALES)


def test_scales_are_asked_first_in_two_steps_and_lead_to_terms_to_learn_by(client, folder):
    (folder / "first.toml").write_text(SCALES)
    assert "These terms need column scales first" in client.get("/train/first?file=first.toml").text
    assert client.get("/train/first?file=terms.toml").text == ""
    simulated = client.post("/train/start", data={"file": "first.toml"}, headers=PROOF)
    assert "require noisy scales before training" in simulated.text
    client.post("/play/load", data={"file": "first.toml"}, headers=PROOF)
    assert 'href="/train?file=first.toml#release"' in client.get("/play").text
    place = {"file": "first.toml", "where": "here", "ledgers": "books", "lifetime_delta": "1e-6"}
    short = client.get("/train/release", params={**place, "lifetime": "4"}).text
    assert "scales and learning together need this budget" in short
    page = client.get("/train/release", params={**place, "lifetime": "9"}).text
    assert "Ask for column scales under first.toml" in page
    assert "A bin is read from" in page
    assert len(re.findall("<td>4</td><td>[^<]*</td><td>5</td>", page)) == 2
    form = {**shown(client, **place, lifetime="9"), "ready": "ready"}
    assert "I have read what this release spends" in client.post("/train/release/start", data=form, headers=PROOF).text
    assert not (folder / "books").exists()
    address = client.post("/train/release/start", data={**form, "agreed": "on"}, headers=PROOF).headers["hx-redirect"]
    job = finished(Job(folder / ".jobs" / address.rpartition("/")[2]))
    assert job.state == "done", job.log
    page = client.get(address).text
    assert "Play with ready.toml" in page
    assert "/plan/start" in page
    ready = load_terms(folder / "ready.toml")
    assert (ready.privacy.scale_epsilon, {part.epsilon for part in ready.owners}) == (None, {5.0})


def test_owners_elsewhere_are_asked_by_their_addresses(folder, client):
    (folder / "addresses.toml").write_text("")
    assert 'value="elsewhere"' in client.get("/train").text
    form = {"agreed": "on", "where": "elsewhere", "file": "terms.toml", "addresses": "addresses.toml", "model": "m"}
    form |= {"expect": load_terms(folder / "terms.toml").hash}
    command = release_command(studio_at(folder), form | {"resume": "on"})
    assert command[:2] == ["learner", "run"]
    assert "--resume" in command
    (folder / "first.toml").write_text(SCALES)
    first = form | {"file": "first.toml", "ready": "ready", "expect": load_terms(folder / "first.toml").hash}
    scales = release_command(studio_at(folder), first)
    assert (scales[0], scales[4], scales[6:]) == ("column-stats", "--owners", ["--write", str(folder / "ready.toml")])
    with pytest.raises(SettingError, match="addresses"):
        release_command(studio_at(folder), form | {"addresses": "../addresses.toml"})


def finished(job):
    until = time.monotonic() + 60
    while job.state == "running" and time.monotonic() < until:
        time.sleep(0.05)
    return job


def test_a_release_debits_ledgers_is_told_from_a_simulation_and_leads_on_to_scores(client, folder, monkeypatch):
    address = release(client, agreed="on").headers["hx-redirect"]
    job = finished(Job(folder / ".jobs" / address.rpartition("/")[2]))
    page = client.get(address).text
    assert job.state == "done", job.log
    assert job.result["released"]
    assert "Release · spends budgets" in page
    assert "What was spent" in page
    assert "Simulation" not in page
    assert (folder / "books" / "north.ledger").exists()
    assert json.loads((folder / "model.json").read_text())
    assert "Next: parley" not in page
    assert "Score for every owner" in page
    assert "Next: parley" not in client.get(f"/jobs/{job.id}").text
    (then,) = re.findall('hx-post="(/train/[^"]+/score)"', page)
    commands = []

    def start(self, command, title, report=False):
        commands.append((list(command), report))
        return job

    monkeypatch.setattr("parley.studio.jobs.JobFolder.start", start)
    assert "hx-redirect" in client.post(then, headers=PROOF).headers
    assert commands == [(["score", str(folder / "model.json"), str(folder / "terms.toml"), "--all", "--json"], True)]
    (folder / "terms.toml").write_text(clinic_terms(title="Others"))
    assert "the file now contains the terms" in client.post(then, headers=PROOF).text
    assert len(commands) == 1


def test_an_inside_view_is_of_the_owners_own_table(client, folder, started):
    words = ["owner", "init", str(folder / "books"), "--name", "north", "--table", str(folder / "north.csv")]
    done = CliRunner().invoke(parley, [*words, "--lifetime", "3"])
    assert done.exit_code == 0, done.output
    assert "keep inside" in client.get("/owner").text
    form = {"settings": "books/owner.toml", "file": "terms.toml"}
    client.post("/owner/inside", data=form, headers=PROOF)
    (command,) = started
    assert command[:3] == ["forecast", str(folder / "terms.toml"), "--inside"]
    assert command[3].endswith("north.csv")
    assert command[4:] == ["--owner", "north"]


def test_what_an_owner_sees_of_its_rows_is_shown_once_and_not_kept(client, folder):
    jobs = studio_at(folder).jobs
    one, other = (finished(jobs.start(["forecast", "gone.toml", *more], "A view")) for more in (["--inside", "a"], []))
    page = client.get(f"/jobs/{one.id}").text
    assert "shows the result once" in page
    assert "gone.toml" in page
    assert not one.folder.exists()
    assert "no job has this name" in client.get(f"/jobs/{one.id}").text
    assert "shows the result once" not in client.get(f"/jobs/{other.id}").text
    assert other.folder.exists()
    unseen = finished(jobs.start(["forecast", "gone.toml", "--inside", "a"], "A view"))
    client.head(f"/jobs/{unseen.id}")
    assert unseen.id in [job.id for job in jobs.listed()]
    os.utime(unseen.folder / "exit.json", (0, 0))
    assert unseen.id not in [job.id for job in jobs.listed()]  # nobody opened it for a while
    assert not unseen.folder.exists()
