"""The studio's pages behind its guard, and slow libraries, which one thread loads before any page that needs them is
answered: two threads that import a package from both ends would each get half of it."""

import asyncio
import threading
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from parley.errors import ParleyError
from parley.report.figures.colours import ALONE, LIMIT, TOGETHER
from parley.studio import file_pages, job_pages, owner_pages, play_pages, training_pages
from parley.studio.guard import AUTHENTICATED_KEY, ENTER_PATH, WELCOME_PATH, Guard, Place, Secrets, secrets_equal
from parley.studio.pages import STATIC, Studio, content, error_page, page

MAX_CONNECTIONS = 100
REQUEST_TIMEOUT_S = 10.0
MAX_TOKEN_BYTES = 200  # bytes that somebody may bring as a token
SLOW_MODULES = (
    *("data.headers", "learning.owners", "owner.ledger", "report.words.training"),
    *("workflows.draft", "workflows.forecast", "workflows.negotiate", "workflows.release"),
)
PATHS_WITHOUT_SLOW_MODULES = (
    "/",
    "/welcome",
    "/enter",
    "/play",
    "/files",
    "/train",
    "/audit",
    "/jobs",
)  # pages without any of it

_loading = threading.Lock()


def make_app(studio: Studio, place: Place, secrets: Secrets) -> Starlette:
    """Make the studio's application; every request passes the guard first."""
    routes = [
        Route(WELCOME_PATH, _welcome),
        Route(ENTER_PATH, _enter, methods=["POST"]),
        Route("/", _home),
        Route("/static/colours.css", _colours),
        *play_pages.ROUTES,
        *file_pages.ROUTES,
        *training_pages.ROUTES,
        *owner_pages.ROUTES,
        *job_pages.ROUTES,
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, place=place, secrets=secrets), Middleware(LibrariesMiddleware)],
        exception_handlers={ParleyError: _explained, OSError: _unreadable, 404: _missing},
    )
    app.state.studio, app.state.place, app.state.secrets = studio, place, secrets
    app.state.csrf = secrets.csrf
    return app


class Connection(H11Protocol):
    """A connection to the studio, bounded in number and time, so that silent clients do not keep its user out.

    A client without the cookie has `REQUEST_TIMEOUT_S` seconds from connecting, or from the last answer, until the next
    answer has been read. At most `MAX_CONNECTIONS` are open: the oldest that is not being answered with the cookie
    makes room for the next.
    """

    began = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin()
        others = [each for each in self.connections if isinstance(each, Connection) and not each.transport.is_closing()]
        if len(others) > MAX_CONNECTIONS:
            min((each for each in others if not each.serves), key=lambda each: each.began).transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    @property
    def serves(self) -> bool:
        """Whether a request with the cookie is being answered."""
        return self.cycle is not None and not self.cycle.response_complete and AUTHENTICATED_KEY in self.scope

    def _begin(self) -> None:
        self._cancel()
        if not self.transport.is_closing():
            self.began = self.loop.time()
            self._timer = self.loop.call_later(REQUEST_TIMEOUT_S, self._expire)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        if not self.serves:
            self.transport.abort()


async def _welcome(request: Request) -> Response:
    """Serve the page that takes the token out of its own address; it knows nothing else."""
    return page(request, "welcome.html")


async def _enter(request: Request) -> Response:
    """Exchange the token for the cookie."""
    place, known = request.app.state.place, request.app.state.secrets
    given = await content(request, MAX_TOKEN_BYTES)
    if given is None or not secrets_equal(given.decode("ascii", "replace"), known.token):
        return PlainTextResponse("Refused: the address must contain the token that `parley studio` printed.", 401)
    response = PlainTextResponse("", 204)
    response.set_cookie(place.cookie, known.session, httponly=True, samesite="strict", path="/")
    return response


async def _home(request: Request) -> Response:
    return RedirectResponse("/play", 303)


async def _colours(request: Request) -> Response:
    names = {"together": TOGETHER, "alone": ALONE, "limit": LIMIT}
    lines = "".join(f"--{name}: {colour};" for name, colour in names.items())
    return PlainTextResponse(f":root {{ {lines} }}", media_type="text/css")


async def _explained(request: Request, error: Exception) -> Response:
    return error_page(request, str(error))


async def _missing(request: Request, error: Exception) -> Response:
    return error_page(request, "The studio has no page at this address.", "Page not found", 404)


async def _unreadable(request: Request, error: Exception) -> Response:
    name = Path(error.filename).name if isinstance(error, OSError) and error.filename else "a file"
    return error_page(request, f"{name}: {getattr(error, 'strerror', None) or 'cannot be read'}")


def load_libraries() -> None:
    """Load slow libraries, or wait until another thread has."""
    with _loading:
        for name in SLOW_MODULES:
            import_module(f"parley.{name}")


@dataclass(frozen=True)
class LibrariesMiddleware:
    """The studio, whose answers wait for the libraries they need."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "/")
        if scope["type"] == "http" and path not in PATHS_WITHOUT_SLOW_MODULES and not path.startswith("/static/"):
            await run_in_threadpool(load_libraries)
        await self.app(scope, receive, send)
