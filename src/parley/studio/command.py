"""`parley studio`: a page on this machine on which one plays with a collaboration."""

import html
import socket
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.durable import make_folder, replace_text
from parley.errors import ParleyError, SettingError
from parley.report.extras import extras
from parley.report.terminal import console, errors_console, warn

if TYPE_CHECKING:
    from parley.studio.playground import Playground

LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - recognised, not bound
OPENING = 0.7  # seconds for the page to open before the first forecast takes the processor
JOBS = ".parley-studio"
SERVER: dict[str, Any] = {
    "log_level": "critical",  # the guard says what went wrong
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,  # nobody stands in between
    "ws": "none",
    "timeout_graceful_shutdown": 1,  # pages that follow a job would keep it for ever
}
LEADS = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Parley studio</title>
<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">To the studio</a>
"""


def studio_command(
    about: Annotated[
        Path, typer.Argument(metavar="FOLDER|TERMS", help="The folder with tables and terms, or terms in it.")
    ] = Path(),
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8711,
    host: Annotated[str, typer.Option(help="Where it listens; elsewhere than here it is not encrypted.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """A page on this machine: play with owners' records and budgets, train, look at books, audit. Asks nobody else.

    Every request needs the token of the address that is printed. Jobs run in processes of their own.

    Example:  parley studio parley-demo/terms.toml
    """
    with extras():
        import uvicorn

        from parley.studio.guard import Place, Secrets
        from parley.studio.jobs import JobFolder
        from parley.studio.pages import Studio
        from parley.studio.playground import Playground
        from parley.studio.server import make_app

    folder = about if about.is_dir() else about.parent
    if not about.exists():
        raise SettingError(f"{about}: expected a folder, or terms that exist")
    play = Playground()
    if about.is_file():
        play.load(about)
    if host not in LOOPBACK:
        warn(
            f"Listening on {host}: whoever reads the network sees the token and all pages; use it behind a tunnel or "
            "a proxy that encrypts."
        )
    listener = _listen(host, port)
    found, known = listener.getsockname()[1], Secrets()
    about_it = Studio(folder, play, JobFolder(folder / JOBS / "jobs", folder), brings=host in LOOPBACK)
    app = make_app(about_it, Place(found, names(host)), known)
    shown = "127.0.0.1" if host in ANYWHERE else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{found}/welcome#{known.token}"
    console.print(address, soft_wrap=True, markup=False)
    errors_console.print("Stop with Ctrl-C; jobs go on.", style="dim")
    warming = threading.Timer(OPENING, _first_forecast, args=[play])
    warming.daemon = True
    warming.start()
    with _opened(address, folder / JOBS) if browser else nullcontext():
        uvicorn.Server(uvicorn.Config(app, **SERVER)).run(sockets=[listener])


@contextmanager
def _opened(address: str, folder: Path) -> Iterator[None]:
    """The page opened in a browser, by a file that leads there: all accounts of a machine can read what a program was
    started with, and the token must not be in it."""
    make_folder(folder)
    leads = folder / "open.html"
    replace_text(leads, LEADS.format(html.escape(address)), lasting=False)
    try:
        webbrowser.open(leads.resolve().as_uri())
        yield
    finally:
        leads.unlink(missing_ok=True)


def names(host: str) -> tuple[str, ...]:
    """By which names requests may call a studio that listens there: an attacker's own name is none of them."""
    here = ("127.0.0.1", "localhost", "[::1]")
    if host in LOOPBACK:
        return here
    own = (socket.gethostname().lower(),) if host in ANYWHERE else (f"[{host}]" if ":" in host else host.lower(),)
    return (*here, *own)


def _first_forecast(play: "Playground") -> None:
    """Load what a forecast needs, and make the first one, while the page opens."""
    from parley.studio.libraries import load_libraries

    load_libraries()
    if play.played is not None:
        with suppress(ParleyError, OSError):  # the page says so when it asks itself
            play.at_once()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # whoever comes before the server is ready waits
    except OSError as error:
        listener.close()
        raise SettingError(f"--port {port}: {error.strerror}; another one may be free (--port 0)") from None
    return listener
