"""The Inbox tab: what was proposed is shown as text, nobody accepts by accident, and what is accepted is in the
ledger."""

import hashlib
import json
import re

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from consortium import Consortium, toml_terms
from studio_client import BASE, PROOF, enter, stranger_at, studio_at

import parley
from parley.network.identity.certificates import fingerprint, read_certificate
from parley.network.identity.settings import load_owner
from parley.network.serving.inbox import Proposal, open_inbox

HTML = "<img src=x onerror=alert(1)>'\"&amp;{{ 7 * 7 }}"


def proposed(text, certificate=None):
    """The learner's proposal, with the certificate that it showed."""
    key = "k" * 64 if certificate is None else fingerprint(read_certificate(certificate))
    shown = None if certificate is None else certificate.read_text()
    terms_hash = hashlib.sha256(text.encode()).hexdigest()
    return Proposal(terms_hash, text, ("learner",), key, "2026-03-02T09:14:00+00:00", certificate=shown)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An owner's folder in the studio's, with an empty inbox."""
    place = tmp_path_factory.mktemp("studio-inbox")
    (place / "bank").mkdir()
    bank = Consortium(place / "bank", names="a")
    (bank.folder / "a.toml").rename(bank.folder / "owner.toml")
    return place


@pytest.fixture(scope="module")
def terms():
    return parley.Terms.from_toml(toml_terms(names="ab", horizon=3))


@pytest.fixture(scope="module")
def inbox(folder, terms):
    made = open_inbox(load_owner(folder / "bank" / "owner.toml"))
    made.add(proposed(terms.canonical, folder / "bank" / "learner.crt"))
    return made


@pytest.fixture(scope="module")
def client(folder, inbox):
    return enter(stranger_at(studio_at(folder)))


def sent(client, verb, terms_hash, **more):
    form = {"file": "bank/owner.toml", "terms": terms_hash, **more}
    return client.post(f"/inbox/{verb}", data=form, headers={**PROOF, "hx-request": "true"})


def test_what_others_wrote_is_shown_as_text(client, folder, inbox):
    content = json.loads(parley.Terms.from_toml(toml_terms(names="a")).canonical)
    long = {"model": "\u202e<b>\x1b" + "x" * 100_000, "owners": "all of it is shown"}
    hostile = json.dumps({**content, "title": HTML, **long}, ensure_ascii=False)
    inbox.add(proposed(hostile))
    stray = inbox.folder / f"{'0' * 64}.json"
    stray.write_text("{")
    listed = client.get("/inbox").text
    assert f"{stray}: expected a proposal that Parley wrote; move the file away" in listed
    stray.unlink()
    shown = client.get(f"/inbox/{proposed(hostile).terms_hash}?file=bank/owner.toml").text
    for page in (listed, shown):
        assert "&lt;img src=x onerror=alert(1)&gt;" in page
        assert "{{ 7 * 7 }}" in page
        for raw in ("<img src=x", "<b>", "\x1b", "\u202e"):
            assert raw not in page
    assert "all of it is shown" in shown
    shown = sent(client, "look", proposed(hostile).terms_hash).text
    assert "these terms cannot be accepted" in shown
    assert "Accept</button>" not in shown
    assert "before you accept" in sent(client, "accept", proposed(hostile).terms_hash, digits="0").text


def test_a_proposal_is_looked_at_refused_and_in_the_end_accepted(client, folder, inbox, terms):
    address = f"/inbox/{terms.hash}?file=bank/owner.toml"
    assert f"/inbox/{terms.hash}" in client.get("/inbox").text
    assert "Accept</button>" not in client.get(address).text
    early = sent(client, "accept", terms.hash, digits=terms.hash[:16])
    assert "before you accept" in early.text
    page = sent(client, "look", terms.hash).text
    assert "These terms cost ε = 1. The lifetime budget is ε = 2, of which ε = 0 is already reserved." in page
    assert "Other owners in these terms: b (40 records, ε = 1)." in page
    assert "These terms leave ε = 1 of 2" in page
    assert f"<code>{terms.hash}</code>" in page
    meant = re.search('name="meant" value="([0-9a-f]{64})"', page).group(1)
    look_first = sent(client, "accept", terms.hash, digits=terms.hash[:16], meant="0" * 64)
    assert "nothing was accepted" in look_first.text
    for digits in ("", terms.hash[:8], terms.hash[:15], "0" * 16, "x"):
        assert "hx-redirect" not in sent(client, "accept", terms.hash, digits=digits, meant=meant).headers
    assert "hx-redirect" not in sent(client, "refuse", terms.hash, reason=" ").headers
    assert sent(client, "refuse", terms.hash, reason="<i>not yet</i>").status_code == 204
    assert "&lt;i&gt;not yet&lt;/i&gt;" in client.get(address).text
    assert inbox.state(inbox.find(terms.hash)) == "refused"
    ledger = (folder / "bank" / "a.ledger").read_bytes()
    assert client.post("/inbox/accept", data={"terms": terms.hash}, headers={"origin": BASE}).status_code == 403
    assert (folder / "bank" / "a.ledger").read_bytes() == ledger
    kept = inbox.folder / f"{terms.hash}.json"
    other = kept.read_text()
    kept.write_text(
        other.replace(inbox.find(terms.hash).fingerprint, "z" * 64)
    )  # moved away, and proposed anew with another key
    changed = sent(client, "accept", terms.hash, digits=terms.hash[:16], meant=meant)
    assert "hx-redirect" not in changed.headers
    kept.write_text(other)
    meant = re.search('name="meant" value="([0-9a-f]{64})"', sent(client, "look", terms.hash).text).group(1)
    agreed = sent(client, "accept", terms.hash, digits=terms.hash[:16], meant=meant)
    assert agreed.headers["hx-redirect"] == address.replace("/owner", "%2Fowner")
    page = client.get(address).text
    assert "accepted." in re.sub(r"\s+", " ", page)
    assert "<h2>Decide</h2>" not in page
    books = parley.Ledger(folder / "bank" / "a.ledger")
    assert books.account(terms.hash).epsilon == 1
    books.close()
    assert "already accepted" in sent(client, "refuse", terms.hash, reason="too late").text


def test_a_folder_without_an_inbox_is_explained(client, folder, tmp_path):
    assert "no owner settings" in enter(stranger_at(studio_at(tmp_path))).get("/inbox").text
    (tmp_path / "owner.toml").write_text('name = "a"\ntable = "a.csv"\nledger = "a.ledger"\naccepted = "accepted"\n')
    other = enter(stranger_at(studio_at(tmp_path)))
    assert "inbox: missing" in other.get("/inbox").text
    for file in ("../bank/owner.toml", "/etc/passwd", ""):
        answer = client.get(f"/inbox/{'0' * 64}", params={"file": file})
        assert "expected a file in the studio" in answer.text
