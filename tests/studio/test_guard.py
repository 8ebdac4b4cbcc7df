"""Who may talk to the studio: every refusal, one by one, and that nothing passes without the token."""

import re
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("httpx", reason="httpx is not installed")
from starlette.routing import Route
from studio_client import BASE, PLACE, PROOF, SECRETS, enter, stranger_at, studio_at

from parley.studio.guard import CONTENT_SECURITY_POLICY, CSRF_HEADER
from parley.studio.pages import STATIC, TAB_TITLES


@pytest.fixture
def stranger(tmp_path):
    return stranger_at(studio_at(tmp_path))


@pytest.fixture
def client(stranger):
    """A browser that has the cookie."""
    return enter(stranger)


@pytest.fixture
def app(stranger):
    return stranger.app


def test_the_cookie_is_for_this_server_alone_and_no_script_reads_it(stranger):
    said = stranger.post("/enter", content=SECRETS.token, headers={"origin": BASE}).headers["set-cookie"].lower()
    assert "httponly" in said
    assert "samesite=strict" in said
    assert "domain" not in said
    assert SECRETS.token.lower() not in said


@pytest.mark.parametrize("given", ["", "x", SECRETS.token[:-1], SECRETS.token + "x", SECRETS.session, SECRETS.csrf])
def test_only_the_token_itself_is_exchanged(stranger, given):
    answer = stranger.post("/enter", content=given, headers={"origin": BASE})
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def _gets(app):
    return [
        re.sub(r"\{\w+\}", "x", route.path)
        for route in app.routes
        if isinstance(route, Route) and "GET" in (route.methods or ()) and not route.path.startswith("/static")
    ]


def _posts(app):
    return [
        re.sub(r"\{\w+\}", "x", route.path)
        for route in app.routes
        if isinstance(route, Route) and "POST" in (route.methods or ()) and route.path != "/enter"
    ]


def test_every_page_needs_the_cookie(app, stranger):
    pages = [path for path in _gets(app) if path != "/welcome"]
    assert set(TAB_TITLES) <= set(pages)
    for path in pages:
        assert stranger.get(path).status_code == 401, path
        wrong = {"cookie": f"{PLACE.cookie}={SECRETS.token}"}
        assert stranger.get(path, headers=wrong).status_code == 401, path


def test_every_change_needs_cookie_origin_and_the_token_of_the_page(app, client, stranger):
    paths = _posts(app)
    assert len(paths) >= 8
    for path in paths:
        assert client.post(path, headers={"origin": BASE}).status_code == 403, path
        assert client.post(path, headers={**PROOF, CSRF_HEADER: SECRETS.session}).status_code == 403, path
        assert client.post(path, headers={CSRF_HEADER: SECRETS.csrf}).status_code == 403, path
        for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8711", ""):
            assert client.post(path, headers={**PROOF, "origin": origin}).status_code == 403, (path, origin)
    stranger.cookies.clear()
    for path in paths:
        assert stranger.post(path, headers=PROOF).status_code == 401, path


@pytest.mark.parametrize("host", ["evil.example:8711", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.evil.example:8711", ""])
def test_a_name_that_somebody_points_at_loopback_is_refused(client, host):
    """DNS rebinding: the browser believes that it talks to the attacker's own host."""
    for path in ("/play", "/welcome", "/static/studio.js"):
        assert client.get(path, headers={"host": host}).status_code == 421
    answer = client.post("/enter", content=SECRETS.token, headers={"host": host, "origin": f"http://{host}"})
    assert answer.status_code == 421


def test_requests_that_other_pages_make_are_refused(client):
    assert client.get("/play", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.get("/play", headers={"sec-fetch-site": "same-site"}).status_code == 403
    assert client.get("/play", headers={"origin": "http://localhost:1234"}).status_code == 403
    assert client.get("/play", headers={"sec-fetch-site": "same-origin"}).status_code == 200


def test_all_answers_forbid_scripts_and_styles_from_elsewhere(client):
    for path in ("/play", "/files", "/welcome", "/static/studio.js", "/nothing"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert (
        client.get("/play", headers={"host": "evil.example"}).headers["content-security-policy"]
        == CONTENT_SECURITY_POLICY
    )


def test_no_template_has_inline_script_style_or_an_address_elsewhere():
    templates = sorted((STATIC.parent / "templates").glob("*.html"))
    assert len(templates) > 10
    own = [STATIC / name for name in ("studio.js", "studio.css", "enter.js")]
    for file in [*templates, *own]:
        text = Path(file).read_text(encoding="utf-8")
        assert not re.search(r"https?://", text), file.name
        if file.suffix == ".html":
            assert not re.search(r"<script(?![^>]*\bsrc=\"/static/)", text), file.name
            assert not re.search(r"\son\w+=|\sstyle=|<style|hx-on|hx-vals=.?js", text), file.name


def test_every_field_has_a_label():
    for file in sorted((STATIC.parent / "templates").glob("*.html")):
        text = file.read_text(encoding="utf-8")
        for tag in re.findall(r"<(?:input|select|textarea|progress)\b[^>]*>", text):
            found = re.search(r'\bid="([^"]+)"', tag)
            labelled = found is not None and f'for="{found.group(1)}"' in text
            inside = re.search(r"<label>" + re.escape(tag), text) is not None
            assert labelled or inside or 'type="hidden"' in tag or "aria-label" in tag, (file.name, tag)


def test_the_folder_is_not_left(client):
    for name in ("../secret.toml", "/etc/passwd", "a/../../secret.toml"):
        answer = client.post("/play/load", data={"file": name}, headers=PROOF)
        assert "expected a file in the studio" in answer.text
    assert client.get("/jobs/..%2F..%2Fetc").status_code in (404, 200)
    assert "no job has this name" in client.get("/jobs/.hidden").text
