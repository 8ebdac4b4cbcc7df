"""What somebody plants in the studio's folder, or in an account's state, is not believed, followed or emptied; and two
studios about one folder start a release once."""

import fcntl
import json
import os
import re
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("uvicorn", reason="the extra parley-dp[studio] is not installed")
from clinics import clinic_terms, write_tables
from consortium import Consortium, toml_terms
from studio_process import studio_process

import parley
from parley.errors import SettingError
from parley.network.identity.certificates import fingerprint, read_certificate
from parley.network.identity.settings import load_owner
from parley.network.serving.inbox import Proposal, open_inbox
from parley.studio.claims import lock_of
from parley.studio.jobs import JobFolder
from parley.terms import load_terms

NAME = "20300101-000000-abc"  # of a job, the latest of all


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    return place


def plant(jobs, command, result):
    """A job that is done, by its files."""
    kept = jobs / NAME
    kept.mkdir(0o700, parents=True)
    (kept / "command.json").write_text(json.dumps({"command": command, "title": "Planted", "started": "now"}))
    (kept / "result.json").write_text(json.dumps(result))
    (kept / "exit.json").write_text('{"code": 0}')
    return kept


def planted_meaning(folder, terms):
    """What a planted job says that accepting means, where an earlier Parley kept its jobs."""
    said = {"promise": ["0.01 would be reserved"], "others": "", "left": "nearly all", "doubts": [], "proposal": {}}
    command = ["owner", "inbox", str(folder / "bank" / "owner.toml"), terms.hash, "--json"]
    plant(folder / ".parley-studio" / "jobs", command, said)


def test_the_inbox_shows_what_accepting_means_at_that_moment_and_no_planted_job(folder):
    (folder / "bank").mkdir()
    bank = Consortium(folder / "bank", names="a")
    (bank.folder / "a.toml").rename(bank.folder / "owner.toml")
    terms, certificate = parley.Terms.from_toml(toml_terms(names="ab", horizon=3)), bank.folder / "learner.crt"
    other, key = terms.changed(title="Others"), fingerprint(read_certificate(certificate))
    inbox = open_inbox(load_owner(bank.folder / "owner.toml"))
    for each in (terms, other):
        shown = certificate.read_text()
        inbox.add(
            Proposal(each.hash, each.canonical, ("learner",), key, "2026-03-02T09:14:00+00:00", certificate=shown)
        )
    planted_meaning(folder, terms)
    with studio_process(folder) as studio:
        studio.enter()
        page = studio.get(f"/inbox/{terms.hash}", file="bank/owner.toml")
        assert "costs: ε = 0.01" not in page
        assert "Planted" not in studio.get("/jobs")
        form = {"file": "bank/owner.toml", "terms": terms.hash}
        shown = studio.post("/inbox/look", **form)[1]
        assert "These terms cost ε = 1. The lifetime budget is ε = 2, of which ε = 0 is already reserved." in shown
        form |= {"meant": re.search('name="meant" value="([^"]+)"', shown).group(1), "digits": terms.hash[:16]}
        bank.accept(other, names=["owner"])  # meanwhile, elsewhere
        headers, text = studio.post("/inbox/accept", **form)
        assert "hx-redirect" not in headers
        assert "nothing was accepted" in text
        assert "ε = 1 is already reserved." in studio.post("/inbox/look", **form)[1]
    with closing(parley.Ledger(bank.folder / "a.ledger")) as books:
        assert [account.terms_hash for _, account in books.accounts()] == [other.hash]


def test_a_planted_link_empties_no_ledger_and_a_planted_result_is_no_release(folder, tmp_path):
    write_tables(folder, north=60, south=60)
    (folder / "terms.toml").write_text(clinic_terms())
    parley.Ledger(folder / "north.ledger", lifetime=1.0).close()
    before = (folder / "north.ledger").read_bytes()
    jobs = folder / ".parley-studio" / "jobs"
    plant(jobs, ["learner", "run", "terms.toml", "--save", "m.json"], {"released": True, "owners": []})
    (jobs / ".starting").symlink_to(folder / "north.ledger")
    lock_of(folder / "planned.toml").symlink_to(folder / "north.ledger")
    with studio_process(folder, state=tmp_path / "state") as studio:
        studio.enter()
        assert "Planted" not in studio.get("/train")
        assert "no job has this name" in studio.get(f"/train/{NAME}")
        headers, text = studio.post("/train/start", file="terms.toml", replicates="10000")
        assert "hx-redirect" in headers, text
        studio.post(f"/jobs/{headers['hx-redirect'].rpartition('/')[2]}/stop")
        refused = studio.post("/plan/start", file="terms.toml", write="planned")
        assert "hx-redirect" not in refused[0]
    assert (folder / "north.ledger").read_bytes() == before
    (kept,) = (tmp_path / "state").glob("studio/*/jobs/*")
    assert kept.stat().st_mode & 0o077 == 0


def other_account(path):
    """Give a file or folder to another account."""
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 12345, 12345)


def elsewhere(path):
    there = path.with_name(f"elsewhere-{path.name}")
    path.rename(there)
    path.symlink_to(there)


@pytest.mark.parametrize("doubtful", [other_account, elsewhere, lambda path: path.chmod(0o777)])
@pytest.mark.parametrize("name", [".", NAME])
def test_jobs_that_others_could_have_written_are_not_listed(folder, doubtful, name):
    jobs = JobFolder(folder / "jobs", folder)
    kept = plant(jobs.folder, ["audit"], {})
    assert [job.id for job in jobs.listed()] == [jobs.find(NAME).id] == [NAME]
    doubtful(jobs.folder / name)
    assert NAME not in [job.id for job in jobs.listed()]
    with pytest.raises(SettingError, match="no job has this name"):
        jobs.find(kept.name)


@pytest.mark.parametrize("doubtful", [other_account, elsewhere])
def test_a_result_that_others_could_have_written_is_none(folder, doubtful):
    jobs = JobFolder(folder / "jobs", folder)
    kept = plant(jobs.folder, ["train"], {"released": True})
    assert jobs.find(NAME).result == {"released": True}
    doubtful(kept / "result.json")
    assert jobs.find(NAME).result == {}
    doubtful(kept / "exit.json")
    assert jobs.find(NAME).state == "lost"
    doubtful(kept / "command.json")
    assert jobs.listed() == []


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "folder", "content", "held"])
def test_what_lies_under_the_name_of_a_lock_is_neither_followed_nor_changed(folder, kind):
    ledger, lock = folder / "north.ledger", lock_of(folder / "model.json")
    ledger.write_bytes(b"spent")
    held = None
    if kind in ("link", "dangling"):
        lock.symlink_to(ledger if kind == "link" else folder / "nothing")
    elif kind == "pipe":
        os.mkfifo(lock)
    elif kind == "folder":
        lock.mkdir()
    else:
        lock.write_bytes(b"spent" if kind == "content" else b"")
    if kind == "held":
        held = lock.open("rb")
        fcntl.flock(held, fcntl.LOCK_EX)
    before = stat.S_IFMT(lock.lstat().st_mode)
    jobs = JobFolder(folder / "jobs", folder)
    with pytest.raises(SettingError, match="choose another name"):
        jobs.start(["train", "--save", str(folder / "model.json")], "Release")
    assert jobs.listed() == []
    assert ledger.read_bytes() == b"spent"
    assert not (folder / "nothing").exists()
    assert stat.S_IFMT(lock.lstat().st_mode) == before
    if held is not None:
        held.close()


def test_two_studios_start_the_same_release_once(folder, tmp_path, monkeypatch):
    write_tables(folder, north=400, south=300)
    (folder / "terms.toml").write_text(clinic_terms())
    form = {"file": "terms.toml", "where": "here", "ledgers": "books", "lifetime": "3", "agreed": "on"}
    form |= {"expect": load_terms(folder / "terms.toml").hash, "model": "model"}
    with (
        studio_process(folder, state=tmp_path / "mine") as mine,
        studio_process(folder, state=tmp_path / "yours") as yours,
        ThreadPoolExecutor() as both,
    ):
        asked = [both.submit(each.enter().post, "/train/release/start", **form) for each in (mine, yours)]
        answers = [each.result() for each in asked]
        assert sorted("hx-redirect" in headers for headers, _ in answers) == [False, True], answers
        assert re.search(
            "a running job is writing model.json|model.json already exists|used before",
            "".join(text for _, text in answers),
        )
        until = time.monotonic() + 300
        while not (folder / "model.json").exists() and time.monotonic() < until:
            time.sleep(0.1)
        (job,) = tmp_path.glob("*/studio/*/jobs/*")
        while lock_of(folder / "model.json").exists() and time.monotonic() < until:
            time.sleep(0.1)
        for each in (mine, yours):
            said = each.post("/train/release/start", **form)[1]
            assert re.search("exists|cannot tell whether the ledger is the latest", said), (
                said
            )  # the account that has not seen the ledger refuses it
    monkeypatch.setenv("PARLEY_STATE", str(job.parents[3]))
    with closing(parley.Ledger(folder / "books" / "north.ledger")) as books:
        assert books.reserved[0] == 1
    assert not lock_of(folder / "model.json").exists()
