"""A browser's side of the studio, without a browser."""

import warnings

from parley.studio.guard import CSRF_HEADER, Place, Secrets
from parley.studio.jobs import JobFolder
from parley.studio.pages import Studio
from parley.studio.playground import Playground
from parley.studio.server import make_app

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # Starlette prefers a successor of httpx
    warnings.filterwarnings("ignore", message="Using `httpx`")
    from starlette.testclient import TestClient

PLACE = Place(8711)
BASE = "http://127.0.0.1:8711"
SECRETS = Secrets("t" * 43, "s" * 43, "c" * 43)
PROOF = {CSRF_HEADER: SECRETS.csrf, "origin": BASE}


def studio_at(folder, play=None):
    """A studio about a folder."""
    return Studio(folder, play or Playground(), JobFolder(folder / ".jobs", folder))


def stranger_at(studio):
    """A browser that was not given the token."""
    return TestClient(make_app(studio, PLACE, SECRETS), base_url=BASE, follow_redirects=False)


def enter(client):
    """The same with the cookie."""
    assert client.post("/enter", content=SECRETS.token, headers={"origin": BASE}).status_code == 204
    return client
