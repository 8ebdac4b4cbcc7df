"""The studio's guard: only the browser with its token may talk to it, from its own pages, by its own name.

Loopback alone is no protection: any page in the same browser can send requests there, under a name that points to
127.0.0.1. So every request must name this server as its host and come from its own origin. Except for static files and
the pages that exchange the token, it must carry the cookie; a change must also carry a token of the page.
"""

import hmac
import logging
import secrets
import traceback
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSRF_HEADER = "x-parley-csrf"
ENTER_PATH = "/enter"  # where the token is exchanged for the cookie
WELCOME_PATH = "/welcome"  # where the token is brought to: from a file, from a mail, from anywhere
PUBLIC_PATHS = ("/static/", WELCOME_PATH)  # what says nothing about anybody
AUTHENTICATED_KEY = "parley.known"  # in the scope of a request that carries the cookie
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
DEFAULT_HTTP_PORT = 80
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


FAULT_MESSAGE = (
    "The request failed because of a fault in the studio. The studio's terminal shows the details. Load the page again."
)
WRONG_HOST_MESSAGE = (
    "Refused: the address in the request is not the studio's address. Open the address that `parley studio` printed."
)
FOREIGN_PAGE_MESSAGE = (
    "Refused: the request comes from a page outside the studio. Open the address that `parley studio` printed."
)


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Secrets:
    """The secrets of one run of the studio: the address's token, the cookie for it, and the pages' CSRF token."""

    token: str = field(default_factory=_secret, repr=False)
    session: str = field(default_factory=_secret, repr=False)
    csrf: str = field(default_factory=_secret, repr=False)


@dataclass(frozen=True)
class Place:
    """The studio's port, and the names by which it may be called."""

    port: int
    names: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")

    @property
    def hosts(self) -> frozenset[str]:
        """The allowed Host headers; browsers leave out port 80."""
        return frozenset(name if self.port == DEFAULT_HTTP_PORT else f"{name}:{self.port}" for name in self.names)

    @property
    def cookie(self) -> str:
        """The cookie's name, by port, since cookies do not distinguish ports."""
        return f"parley_studio_{self.port}"


def secrets_equal(given: str | None, expected: str) -> bool:
    """Compare a secret in constant time."""
    return given is not None and hmac.compare_digest(given.encode(), expected.encode())


def traceback_lines(error: Exception) -> str:
    """Return the lines of code that an error came through, without its message, which may hold a table's values."""
    return "".join(traceback.format_tb(error.__traceback__))


@dataclass(frozen=True)
class Guard:
    """The studio behind its checks."""

    app: ASGIApp
    place: Place
    secrets: Secrets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        begun = False
        if refusal is None and scope["path"] != ENTER_PATH and not scope["path"].startswith(PUBLIC_PATHS):
            scope[AUTHENTICATED_KEY] = True

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun, given = True, MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    given.setdefault(name, value)
            await send(message)

        answer = self.app if refusal is None else PlainTextResponse(refusal[1], status_code=refusal[0])
        try:
            await answer(scope, receive, send_guarded)
        except Exception as error:  # a fault of the studio's own: where it happened is told, never about which values
            logging.getLogger("parley.studio").error("%s%s", traceback_lines(error), type(error).__name__)
            if not begun:
                await PlainTextResponse(FAULT_MESSAGE, status_code=500)(scope, receive, send_guarded)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        """Return the status and sentence with which a request is refused; None if it may pass."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if headers.getlist("host") != [host] or host not in self.place.hosts:
            return 421, WRONG_HOST_MESSAGE
        changes = method not in ("GET", "HEAD")
        if origin is not None and origin != f"http://{host}":
            return 403, FOREIGN_PAGE_MESSAGE
        if path != WELCOME_PATH and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, FOREIGN_PAGE_MESSAGE
        if changes and origin is None:
            return 403, "Refused: the request does not say which page it comes from. Open the studio in a browser."
        if path.startswith(PUBLIC_PATHS) and not changes:
            return None
        if path == ENTER_PATH:
            return None  # which compares the token itself
        if not secrets_equal(self._cookie(headers), self.secrets.session):
            return 401, "Refused: open the whole address that `parley studio` printed, including the token."
        if changes and not secrets_equal(headers.get(CSRF_HEADER), self.secrets.csrf):
            return 403, "Refused: the page does not belong to this studio; load the page again."
        return None

    def _cookie(self, headers: Headers) -> str | None:
        """Return the studio's cookie; odd cookies of other servers are ignored."""
        return cookie_parser(headers.get("cookie", "")).get(self.place.cookie)
