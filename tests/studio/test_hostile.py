"""What a hostile page, folder, file name or moment could do to the studio, one by one."""

import asyncio
import errno
import fcntl
import html
import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from clinics import clinic_terms
from starlette.datastructures import Headers
from studio_client import BASE, PLACE, PROOF, SECRETS, enter, stranger_at, studio_at

from parley.errors import SettingError
from parley.studio import command, jobs, server, worker
from parley.studio.guard import CONTENT_SECURITY_POLICY, FAULT_MESSAGE, Guard, Place, Secrets
from parley.studio.playground import Playground

HOSTILE = "<img src=x onerror=alert(1)>\"'"
TERMS = clinic_terms("<script>alert(1)</script>", features=1, clip=10.0, data=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "terms.toml").write_text(TERMS)
    return tmp_path


@pytest.fixture
def client(folder):
    play = Playground()
    play.load(folder / "terms.toml")
    return enter(stranger_at(studio_at(folder, play)))


def test_names_of_files_titles_and_what_a_job_said_are_text(client, folder):
    (folder / f"{HOSTILE.replace('/', '')}.toml").write_text("x")
    (folder / f"{HOSTILE.replace('/', '')}.csv").write_text("x")
    kept = folder / ".jobs" / "20300101-000000-abc"
    kept.mkdir(0o700, parents=True)
    said = html.escape(HOSTILE)
    (kept / "command.json").write_text('{"command": ["train", "<b>"], "title": "<b>bold</b>", "started": "<b>"}')
    (kept / "log").write_text(HOSTILE)
    for path in ("/play", "/files", "/train", "/owner", "/audit", "/jobs", f"/jobs/{kept.name}", f"/train/{kept.name}"):
        page = client.get(path).text
        assert "<script>" not in page, path
        assert "<img" not in page, path
        assert "<b>" not in page, path
    assert said.partition("x ")[0] in client.get("/files").text


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "\udcff", "../" * 50 + "etc/passwd", "~/x", "file:///etc/passwd"])
def test_no_name_of_a_file_brings_the_studio_down(client, name):
    for path, key in (("/play/load", "file"), ("/play/save", "save_as"), ("/train/start", "file")):
        data = {key: name.encode("utf-8", "surrogateescape")}
        answer = client.post(path, data=data, headers=PROOF)
        assert answer.status_code == 200
        assert "hx-redirect" not in answer.headers
        assert "Traceback" not in answer.text


def test_links_that_lead_out_of_the_folder_are_neither_shown_nor_followed(client, folder, tmp_path_factory):
    away = tmp_path_factory.mktemp("away") / "secret.csv"
    away.write_text("salary\n93417\n")
    (folder / "link.csv").symlink_to(away)
    (folder / "linked.toml").symlink_to(folder / "terms.toml")
    (folder / "folder.csv").mkdir()
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "terms.toml").write_text(TERMS)
    page = client.get("/files").text
    assert "link.csv" not in page
    assert "folder.csv" not in page
    assert "linked.toml" in client.get("/train").text
    assert ".hidden" not in client.get("/train").text
    form = {"table": ["link.csv", "terms.toml"], "target": "y", "epsilon": "1", "write": "made"}
    assert "expected a file in the studio" in client.post("/files/make", data=form, headers=PROOF).text
    (folder / "new.toml").symlink_to(away.with_name("written.toml"))  # leads to where nothing is yet
    assert "expected a file" in client.post("/play/save", data={"save_as": "new"}, headers=PROOF).text
    assert not away.with_name("written.toml").exists()


def test_what_other_servers_leave_in_the_jar_of_cookies_keeps_nobody_out(client):
    for odd in ('a={"b": 1}', "x y=z", "=", "ü=ü", "a=b=c", "é"):
        jar = f"{odd}; {PLACE.cookie}={SECRETS.session}"
        assert client.get("/play", headers={"cookie": jar.encode()}).status_code == 200, odd
    assert client.get("/play", headers={"cookie": f"{PLACE.cookie}=x; {odd}".encode()}).status_code == 401


def refusal(place, method="GET", path="/play", **headers):
    known = Secrets()
    headers["cookie"] = f"{place.cookie}={known.session}"
    return Guard(None, place, known)._refusal(
        method, path, Headers({k.replace("_", "-"): v for k, v in headers.items()})
    )


def test_the_port_of_the_web_is_left_out_and_every_other_is_not():
    assert refusal(Place(80), host="127.0.0.1", origin="http://127.0.0.1") is None
    assert refusal(Place(80), host="127.0.0.1:8711")[0] == 421
    assert refusal(Place(8711), host="[::1]:8711", origin="http://[::1]:8711") is None
    for host in ("[::1]", "[::]:8711", "0.0.0.0:8711", "127.0.0.1:87110", "localhost.:8711", "127.1:8711"):
        assert refusal(Place(8711), host=host)[0] == 421, host
    assert refusal(Place(8711), host="[::1]:8711", origin="http://127.0.0.1:8711")[0] == 403  # another server's page
    assert command.names("0.0.0.0")[:3] == Place(1).names
    assert "evil.example" not in command.names("::")


def test_the_page_that_takes_the_token_may_be_opened_from_anywhere_and_no_other():
    assert refusal(Place(1), path="/welcome", host="127.0.0.1:1", sec_fetch_site="cross-site") is None
    for path in ("/", "/play", "/static/studio.js", "/welcome/", "/jobs/x/events"):
        assert refusal(Place(1), path=path, host="127.0.0.1:1", sec_fetch_site="cross-site")[0] == 403, path


def test_of_a_token_no_more_is_read_than_a_token_has(folder):
    stranger, read = stranger_at(studio_at(folder)), []

    def endless():
        for number in range(10_000):
            read.append(number)
            yield b"x" * 1000

    answer = stranger.post("/enter", content=endless(), headers={"origin": BASE})
    assert answer.status_code == 401
    assert SECRETS.csrf not in answer.text


def test_a_fault_of_its_own_is_a_sentence_with_all_headers_and_its_words_stay_inside(folder, monkeypatch, caplog):
    client = enter(stranger_at(studio_at(folder)))

    def broken(*_, **__):
        raise RuntimeError(f"salary {93000 + 417}")

    monkeypatch.setattr("parley.studio.jobs.JobFolder.listed", broken)
    answer = client.get("/jobs")
    assert (answer.status_code, answer.text) == (500, FAULT_MESSAGE)
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "RuntimeError" in caplog.text
    assert "93417" not in caplog.text


def test_a_tab_that_shows_what_another_changed_is_told_so(client, folder):
    def tab():
        page = client.get("/play").text
        return {key: re.search(f'name="{key}" value="([^"]+)"', page).group(1) for key in ("tab", "loaded")}

    def moved(tab, epsilon):
        return client.post("/play/change", data={**tab, "epsilon.0": epsilon, "sent": "0"}, headers=PROOF).text

    first, second = tab(), tab()
    stale = "another page changed these terms"
    assert stale not in moved(first, "0.5")
    assert stale not in moved(first, "0.6")  # its own change does not outdate it
    assert stale in moved(second, "3")
    assert stale in client.post("/play/save", data={**second, "save_as": "kept"}, headers=PROOF).text
    assert stale not in moved(tab(), "0.7")
    (folder / "other.toml").write_text(TERMS.replace("north", "elsewhere"))
    client.post("/play/load", data={"file": "other.toml"}, headers=PROOF)
    assert stale in moved(first, "9")  # its places are those of other owners
    assert stale in client.post("/play/everyone", data={**first, "all_epsilon": "9"}, headers=PROOF).text


def job_of(folder, program, jobs_folder=None):
    """A job whose process is that program, started as the studio starts one."""
    kept = (jobs_folder or folder / ".jobs") / "20300101-000000-abc"
    kept.mkdir(0o700, parents=True)
    (kept / "command.json").write_text('{"command": ["train"], "title": "t", "started": "now"}')
    with (kept / jobs.LOCK_FILE).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [sys.executable, "-c", program], start_new_session=True, pass_fds=(lock.fileno(),), stdout=subprocess.PIPE
        )
        lock.write(str(process.pid))
    process.stdout.readline()
    return jobs.Job(kept), process


DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.fork()
print("ready", flush=True)
time.sleep(60)
"""


def test_a_job_that_does_not_listen_is_ended_with_all_it_started(client, folder, monkeypatch):
    monkeypatch.setattr("parley.studio.job_pages.STOP_CHECKS", 4)
    job, process = job_of(folder, DEAF)
    assert job.state == "running"
    client.post(f"/jobs/{job.id}/stop", headers=PROOF)
    assert process.wait(10) == -signal.SIGKILL
    assert job.state == "stopped"
    process.stdout.close()


def test_a_job_that_somebody_else_killed_is_told_from_one_that_was_stopped(client, folder):
    job, process = job_of(folder, "import time; print(flush=True); time.sleep(60)")
    process.kill()
    process.wait(10)
    assert job.state == "lost"
    assert "ended without a message" in client.get(f"/jobs/{job.id}").text
    job.stop()
    assert job.state == "lost"  # nothing was there to stop
    process.stdout.close()


def test_a_studio_ends_when_it_is_told_to_though_a_page_follows_a_job(folder):
    job, process = job_of(folder, "import time; print(flush=True); time.sleep(60)", jobs.studio_state(folder) / "jobs")
    typed = [sys.executable, "-m", "parley", "studio", str(folder), "--no-browser", "--port", "0"]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as studio:
        port, token = re.search(r":(\d+)/welcome#(.+)", studio.stdout.readline()).groups()
        line = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        line.request("POST", "/enter", token, {"origin": f"http://127.0.0.1:{port}"})
        entered = line.getresponse()
        entered.read()
        line.request("GET", f"/jobs/{job.id}/events", headers={"cookie": entered.headers["set-cookie"].split(";")[0]})
        assert b"event: progress" in line.getresponse().readline()
        studio.send_signal(signal.SIGINT)
        said = studio.communicate(timeout=40)[1]
        line.close()
    assert "Traceback" not in said
    assert job.state == "running"  # it outlives the studio
    job.stop(at_once=True)
    process.wait(10)
    process.stdout.close()


@pytest.mark.parametrize("said", ["", "1", "-1", "0", "x", "99999999999999"])
def test_a_folder_cannot_name_a_process_to_end(folder, said, monkeypatch):
    ended = []
    monkeypatch.setattr(jobs.os, "killpg", lambda *given: ended.append(given))
    kept = folder / "job"
    kept.mkdir()
    (kept / jobs.LOCK_FILE).write_text(said)
    jobs.Job(kept).stop()  # nobody holds its lock
    with (kept / jobs.LOCK_FILE).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if said != "99999999999999":
            jobs.Job(kept).stop()
    assert ended == []


def test_a_full_disk_is_a_sentence_and_ends_no_job(client, folder, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x/job")

    notes = worker.ProgressFile(folder)
    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_text", full)
        notes("training", 1, 2)  # goes on, unnoted
        patch.setattr("parley.durable.os.replace", full)
        answer = client.post("/play/save", data={"save_as": "kept"}, headers=PROOF)
        assert answer.status_code == 200
        assert "the disk is full" in answer.text
    with monkeypatch.context() as patch:
        patch.setattr("parley.studio.jobs.make_folder", full)
        answer = client.post("/audit/start", data={"file": "terms.toml"}, headers=PROOF)
        assert "No space left" in answer.text


def test_a_job_runs_from_its_first_moment(folder):
    job = jobs.JobFolder(folder / ".jobs", folder).start(["certs", "--help"], "help")
    assert job.running
    assert job.state == "running"
    until = time.monotonic() + 30
    while job.state == "running" and time.monotonic() < until:
        time.sleep(0.05)
    assert job.state == "done", job.log


def test_the_token_is_in_no_program_that_is_started(folder, monkeypatch):
    asked, address = [], "http://127.0.0.1:8711/welcome#secret"
    monkeypatch.setattr(command.webbrowser, "open", asked.append)
    kept = folder / "kept"
    kept.mkdir()
    with command._open_browser(address, kept):
        (leads,) = kept.iterdir()
        assert asked == [leads.resolve().as_uri()]
        assert "secret" not in asked[0]
        assert address in leads.read_text()
        assert leads.stat().st_mode & 0o077 == 0
    assert not leads.exists()


def test_who_loads_a_file_again_gets_forecasts_of_what_it_holds_now(folder, monkeypatch):
    """A forecast that was under way does not come in between."""
    play = Playground()
    play.load(folder / "terms.toml")
    old = play.require()
    monkeypatch.setattr("parley.workflows.forecast.forecast", lambda terms, **_: play.load(old.file) or Old())
    play._whole(old)
    assert play._base is None


class Old:
    outlook = None


def test_what_needs_libraries_waits_for_them_and_no_other_page_does(client, monkeypatch):
    """Threads that import packages from both ends at the same time get halves of them."""
    loaded = []
    monkeypatch.setattr("parley.studio.server.load_libraries", lambda: loaded.append(1))
    for path in server.PATHS_WITHOUT_SLOW_MODULES:
        client.get(path)
    client.get("/static/studio.js")
    assert loaded == []
    for count, path in enumerate(("/play/now", "/owner", "/files/columns", "/play/whole?turn=0"), 1):
        client.get(path)
        assert len(loaded) == count, path


def test_a_first_forecast_is_shown_before_the_gains_that_follow_from_it(folder, monkeypatch):
    go_on = threading.Event()

    class Slow:
        def __init__(self, terms, **_):
            self.terms = terms

        @property
        def outlook(self):
            return go_on.wait(20)

    monkeypatch.setattr("parley.workflows.forecast.forecast", Slow)
    monkeypatch.setattr("parley.decisions.outlook.forecast.what_if", lambda *_: None)
    play = Playground()
    play.load(folder / "terms.toml")
    early = play.first()
    assert isinstance(early, Slow)
    assert play._base is None
    go_on.set()
    play.at_once()
    assert play._base is early
    assert play.first() is None
    play.load(folder / "terms.toml")
    assert play._early is None


def test_nothing_but_http_is_answered(folder):
    sent = []

    async def send(message):
        sent.append(message)

    app = stranger_at(studio_at(folder)).app
    asyncio.run(app({"type": "websocket", "path": "/play", "headers": []}, None, send))
    assert sent == []


def test_a_number_beyond_all_bounds_is_refused(client):
    for given in ("1e400", "nan", "inf", "-1", "1e-400"):
        answer = client.post("/play/change", data={"epsilon.0": given}, headers=PROOF)
        assert "refused" in answer.text or "failed" in answer.text, given
    with pytest.raises(SettingError):
        Playground().require()
