"""The Inbox tab and ledgers in a real browser: a proposal is opened, looked at and refused by keys; a hostile title
runs nothing, no page is wider than the screen, axe-core finds nothing. Pictures go to a folder that goes with the
test."""

from datetime import timedelta

from consortium import Consortium, toml_terms
from studio_pictures import in_a_browser, pictures, require_well_made

import parley
from parley.network.identity.certificates import fingerprint, read_certificate
from parley.network.identity.settings import load_owner
from parley.network.serving.inbox import Proposal, now, open_inbox

pytestmark = in_a_browser
HOSTILE = '<img src=x onerror="document.title=1">'


def propose(inbox, terms, learner, certificate):
    key, shown = fingerprint(read_certificate(certificate)), certificate.read_text()
    made = Proposal(terms.hash, terms.canonical, (learner,), key, "2026-03-02T09:14:00+00:00", certificate=shown)
    return inbox.add(made)


def checked(page, name, folder):
    """A page that fits and has no fault, and its pictures."""
    require_well_made(page)
    pictures.screenshots(page, name, folder)


def test_a_proposal_is_refused_by_keys_and_a_hostile_one_runs_nothing(tmp_path):
    bank = Consortium(tmp_path, names="a")
    (tmp_path / "a.toml").rename(tmp_path / "owner.toml")
    (tmp_path / "books").mkdir()
    for name in ("north", "a-cooperative-of-agricultural-credit-unions"):
        parley.Ledger(tmp_path / "books" / f"{name}.ledger", lifetime=3.0).close()
    inbox, certificate = open_inbox(load_owner(tmp_path / "owner.toml")), tmp_path / "learner.crt"
    terms = parley.Terms.from_toml(toml_terms(names="abc", horizon=3)).changed(title="Interest rates of three banks")
    lapsed = terms.changed(title="Interest rates, first draft")
    propose(inbox, lapsed, "learner", certificate)
    inbox._clock = lambda: now() + timedelta(days=30)
    assert len(inbox.lapse()) == 1
    inbox._clock = now
    propose(inbox, terms, "learner", certificate)
    propose(inbox, terms.changed(title=HOSTILE), "stranger", certificate)
    complaints = []
    with pictures.served(bank.folder) as address, pictures.browser() as chromium:
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        base = pictures.enter(page, address)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.goto(f"{base}/inbox")
        assert HOSTILE in page.inner_text("table")
        checked(page, "inbox", tmp_path)
        page.click(f"text={lapsed.hash[:8]}")
        page.wait_for_selector("text=does not contain the text of these terms")
        assert page.locator("form").count() == 0
        checked(page, "lapsed", tmp_path)
        page.goto(f"{base}/inbox")
        page.click(f"text={terms.hash[:8]}")
        page.wait_for_load_state()  # before it a button has no script yet
        page.click("text=What would accepting mean? >> visible=true >> nth=-1")
        page.wait_for_selector("#meaning", timeout=pictures.PATIENCE)
        checked(page, "proposal", tmp_path)
        page.fill("#reason", "an ε of 0.5 at most")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=refused: an ε of 0.5 at most")
        assert page.title() == "Proposal · Parley studio"
        page.goto(f"{base}/owner")
        assert "books/north.ledger" in page.inner_text("table")
        checked(page, "owner", tmp_path)
    assert complaints == []
    assert inbox.state(inbox.find(terms.hash)) == "refused"
