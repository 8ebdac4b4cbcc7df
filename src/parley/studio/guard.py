"""Who may talk to the studio: the browser that was given its token, from its own pages, by its own name.

Loopback is no protection by itself: any page in the same browser can send requests there, and a name that its owner
points at 127.0.0.1 makes them look like its own. So every request must name this server as its host, come from its own
origin, and carry the cookie that the token was exchanged for; what changes anything also carries a token of the page.
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
ENTER = "/enter"  # where the token is exchanged for the cookie
WELCOME = "/welcome"  # where the token is brought to: from a file, from a mail, from anywhere
OPEN = ("/static/", WELCOME)  # what says nothing about anybody
KNOWN = "parley.known"  # in the scope of a request that carries the cookie
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
WEB = 80
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


FAULT = "That failed because of a fault in the studio; its terminal has the details. Load the page again."


def _secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(frozen=True)
class Secrets:
    """What one run of the studio has that nobody can guess: the token of its address, the cookie that is given for it,
    and what its pages prove themselves by."""

    token: str = field(default_factory=_secret, repr=False)
    session: str = field(default_factory=_secret, repr=False)
    csrf: str = field(default_factory=_secret, repr=False)


@dataclass(frozen=True)
class Place:
    """Where the studio listens, and by which names it may be called."""

    port: int
    names: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]")

    @property
    def hosts(self) -> frozenset[str]:
        """What a request may say in its Host header, from which browsers leave out the port of the web."""
        return frozenset(name if self.port == WEB else f"{name}:{self.port}" for name in self.names)

    @property
    def cookie(self) -> str:
        """The cookie's name: cookies do not tell ports apart, so studios side by side need names of their own."""
        return f"parley_studio_{self.port}"


def same(given: str | None, expected: str) -> bool:
    """Whether a secret is the expected one, in a time that does not say how much of it was right."""
    return given is not None and hmac.compare_digest(given.encode(), expected.encode())


def where(error: Exception) -> str:
    """The lines of code that an error came through, without its words: they may hold what a table holds."""
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
        if refusal is None and scope["path"] != ENTER and not scope["path"].startswith(OPEN):
            scope[KNOWN] = True

        async def send_guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun, given = True, MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    given.setdefault(name, value)
            await send(message)

        answer = self.app if refusal is None else PlainTextResponse(refusal[1], status_code=refusal[0])
        try:
            await answer(scope, receive, send_guarded)
        except Exception as error:  # a fault of the studio's own: where it happened is told, never about which values
            logging.getLogger("parley.studio").error("%s%s", where(error), type(error).__name__)
            if not begun:
                await PlainTextResponse(FAULT, status_code=500)(scope, receive, send_guarded)

    def _refusal(self, method: str, path: str, headers: Headers) -> tuple[int, str] | None:
        """The status and the sentence with which a request is refused; None: it may pass."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if headers.getlist("host") != [host] or host not in self.place.hosts:
            return 421, "Refused: this is not the studio's host name."
        changes = method not in ("GET", "HEAD")
        if origin is not None and origin != f"http://{host}":
            return 403, "Refused: the request comes from another page."
        if path != WELCOME and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403, "Refused: the request comes from another page."
        if changes and origin is None:
            return 403, "Refused: the request does not say which page it comes from."
        if path.startswith(OPEN) and not changes:
            return None
        if path == ENTER:
            return None  # which compares the token itself
        if not same(self._cookie(headers), self.secrets.session):
            return 401, "Refused: open the address that `parley studio` printed, with its token."
        if changes and not same(headers.get(CSRF_HEADER), self.secrets.csrf):
            return 403, "Refused: the page does not belong to this studio; load it again."
        return None

    def _cookie(self, headers: Headers) -> str | None:
        """The studio's cookie; what other servers of this machine left beside it, however odd, is passed over."""
        return cookie_parser(headers.get("cookie", "")).get(self.place.cookie)
