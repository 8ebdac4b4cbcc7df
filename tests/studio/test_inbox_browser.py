"""The Inbox tab in a real browser: a proposal is opened and refused by keys; a hostile title runs nothing, no page is
wider than the screen. Screenshots go to a folder that goes with the test."""

import contextlib
import shutil
import signal
import subprocess
import sys

import pytest
from consortium import Consortium, toml_terms

import parley
from parley.network.identity.settings import load_owner
from parley.network.serving.inbox import open_inbox
from parley.network.serving.proposal import Proposal

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium")
SWITCHED_OFF = ("gpu", "quic", "background-networking", "component-update", "sync")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{each}" for each in SWITCHED_OFF)]
HOSTILE = '<img src=x onerror="document.title=1">'


@contextlib.contextmanager
def served(folder):
    """The address of a studio about a folder, while it runs."""
    command = [sys.executable, "-m", "parley", "studio", str(folder), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as studio:
        try:
            yield studio.stdout.readline().strip()
        finally:
            studio.send_signal(signal.SIGINT)
            studio.wait(20)


def propose(inbox, terms, learner):
    made = Proposal(terms.hash, terms.canonical, (learner,), "9a41c07735bd21ef" * 4, "2026-03-02T09:14:00+00:00")
    return inbox.add(made)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_proposal_is_refused_by_keys_and_a_hostile_one_runs_nothing(tmp_path):
    bank = Consortium(tmp_path, names="a")
    (tmp_path / "a.toml").rename(tmp_path / "owner.toml")
    inbox = open_inbox(load_owner(tmp_path / "owner.toml"))
    terms = parley.Terms.from_toml(toml_terms(names="abc", horizon=3)).changed(title="Interest rates of three banks")
    propose(inbox, terms, "learner")
    propose(inbox, terms.changed(title=HOSTILE), "stranger")
    complaints = []
    with served(bank.folder) as address, playwright.sync_playwright() as driver:
        base = address.partition("/welcome")[0]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(address)
        page.wait_for_url("**/play")
        page.goto(f"{base}/inbox")
        assert HOSTILE in page.inner_text("table")
        page.screenshot(path=tmp_path / "inbox.png")
        page.click(f"text={terms.hash[:16]}")
        page.wait_for_url("**/inbox/*")
        page.wait_for_load_state()
        page.fill("#reason", "an ε of 0.5 at most")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=refused: an ε of 0.5 at most")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=tmp_path / f"proposal-{width}-{scheme}.png", full_page=True)
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.title() == "Proposal · Parley studio"
        browser.close()
    assert complaints == []
    assert inbox.state(inbox.find(terms.hash)) == "refused"
