"""A disk that is full before a job starts, while it starts, while it runs, while it is stopped: a job that was not
written down is not run, and one that runs can be stopped and says how it ended."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from clinics import clinic_terms, write_tables
from studio_client import PROOF, enter, stranger_at

from parley import Ledger
from parley.errors import DiskError
from parley.studio.jobs import LOCK_FILE, Job, JobFolder
from parley.studio.pages import Studio
from parley.studio.playground import Playground
from parley.studio.worker import EXIT_FILE_BYTES, NOT_BEGUN, NOT_KEPT, START_SIGNAL
from parley.terms import load_terms

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def disk(tmp_path):
    """A filesystem of 64 pages."""
    place, mount = tmp_path / "disk", shutil.which("mount")
    place.mkdir()
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", f"size={64 * PAGE},mode=700", "tmpfs", str(place)], capture_output=True, text=True
    )
    if not made or made.returncode:
        pytest.skip(f"no small filesystem can be mounted here: {made.stderr.strip() if made else 'no mount'}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def place(tmp_path):
    """The studio's folder, on a disk with room."""
    made = tmp_path / "place"
    made.mkdir()
    return made


def fill(disk, free=0):
    """Leave that many pages."""
    (disk / "ballast").unlink(missing_ok=True)
    about = os.statvfs(disk)
    (disk / "ballast").write_bytes(b"x" * (about.f_bavail * about.f_frsize - free * PAGE))
    assert os.statvfs(disk).f_bavail * about.f_frsize == free * PAGE


def processes(disk):
    """Jobs whose folders are on this disk, by their numbers."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"parley.studio.worker" in words and any(word.startswith(os.fsencode(disk)) for word in words):
            found.append(each.parent.name)
    return found


def ended(job):
    until = time.monotonic() + 120
    while (job.state == "running" or job.running) and time.monotonic() < until:
        time.sleep(0.05)
    return job


@pytest.mark.parametrize("free", [0, 1, 2])
def test_a_release_that_cannot_be_written_down_is_not_run(disk, place, free):
    write_tables(place, north=400, south=300)
    (place / "terms.toml").write_text(clinic_terms())
    (place / "books").mkdir()
    for name in ("north", "south"):
        Ledger(place / "books" / f"{name}.ledger", lifetime=3.0).close()
    (disk / "jobs").mkdir(mode=0o700)
    client = enter(stranger_at(Studio(place, Playground(), JobFolder(disk / "jobs", place))))
    form = {"file": "terms.toml", "where": "here", "ledgers": "books", "agreed": "on", "model": "m"}
    form["anyway"] = "on"
    form["expect"] = load_terms(place / "terms.toml").hash
    before = sorted(place.iterdir())
    fill(disk, free)
    answer = client.post("/train/release/start", data=form, headers=PROOF)
    assert "hx-redirect" not in answer.headers
    until = time.monotonic() + 120
    while processes(disk) and time.monotonic() < until:
        time.sleep(0.05)
    for name in ("north", "south"):
        with closing(Ledger(place / "books" / f"{name}.ledger")) as books:
            assert books.reserved[0] == 0
    assert sorted(place.iterdir()) == before  # neither a model, nor a lock
    assert "not started and nothing was spent" in answer.text
    assert "disk is full" in answer.text
    assert client.get("/jobs").text.count("/jobs/2") == 0
    assert not [*(disk / "jobs").iterdir()]


def test_with_any_room_a_job_is_not_run_or_says_how_it_ended(disk, place):
    jobs, states = JobFolder(disk / "jobs", place), []
    for free in range(9):
        fill(disk, free)
        try:
            job = jobs.start(["train", f"missing-{free}.toml"], "Simulation")
        except DiskError:
            assert processes(disk) == []
            assert [each.id for each in jobs.listed() if each.running] == []
            states.append("not started")
            continue
        assert job.running
        ended(job)
        assert f"missing-{free}.toml" in job.log, free
        states.append(job.state)
        shutil.rmtree(job.folder)
    assert states == ["not started"] * states.count("not started") + ["failed"] * states.count("failed")
    assert {"not started", "failed"} == {*states}


@pytest.mark.parametrize(
    ("command", "said"), [(["train", "missing.toml"], "missing.toml"), (["certs", "--help"], NOT_KEPT)]
)
def test_a_disk_that_fills_while_a_job_runs_is_told(disk, place, command, said):
    job = JobFolder(disk / "jobs", place).start(command, "Job")
    process = int((job.folder / LOCK_FILE).read_text())
    os.killpg(process, signal.SIGSTOP)
    fill(disk)
    os.killpg(process, signal.SIGCONT)
    assert ended(job).state == "failed"
    assert said in " ".join(job.log.split())


def test_a_job_on_a_full_disk_can_be_stopped(disk, place):
    write_tables(place, north=400, south=300)
    (place / "terms.toml").write_text(clinic_terms())
    jobs = JobFolder(disk / "jobs", place)
    client = enter(stranger_at(Studio(place, Playground(), jobs)))
    job = jobs.start(["train", str(place / "terms.toml"), "--replicates", "100000"], "Simulation")
    fill(disk)
    client.post(f"/jobs/{job.id}/stop", headers=PROOF)
    assert ended(job).state == "stopped"


def worker(folder, command, said=START_SIGNAL, **streams):
    """The process of a job, without a studio."""
    folder.mkdir()
    (folder / "command.json").write_text(f'{{"command": {command}}}')
    (folder / "exit.json").write_text(" " * EXIT_FILE_BYTES)
    typed = [sys.executable, "-P", "-m", "parley.studio.worker", str(folder)]
    subprocess.run(typed, input=said, check=False, **{"stdout": subprocess.DEVNULL, **streams})
    assert (folder / "exit.json").stat().st_size == EXIT_FILE_BYTES
    return Job(folder)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_what_cannot_be_logged_or_printed_is_kept_in_the_room_that_was_made_for_it(place):
    with Path("/dev/full").open("wb") as full:
        job = worker(place / "wrong", '["train", "missing.toml"]', stderr=full)
        assert (job.state, "missing.toml" in job.log) == ("failed", True)
        job = worker(place / "printed", '["certs", "--help"]', stdout=full, stderr=full)
        assert (job.state, job.log) == ("failed", NOT_KEPT)


def test_a_job_whose_studio_died_before_it_was_written_down_runs_nothing(place):
    with (place / "log").open("wb") as log:
        job = worker(place / "job", '["demo", "--out", "demo"]', b"", stderr=log, cwd=place)
    assert job.state == "failed"
    assert (place / "log").read_text() == NOT_BEGUN
    assert not (place / "demo").exists()
