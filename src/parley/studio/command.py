"""`parley studio`: a page on this machine for trying out a collaboration."""

import html
import secrets
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from parley.durable import create
from parley.errors import ParleyError, SettingError
from parley.report.extras import extras
from parley.report.terminal import console, errors_console, warn

if TYPE_CHECKING:
    from parley.studio.playground import Playground

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SHOWN_HOSTS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - where a studio is found that listens anywhere
FIRST_FORECAST_DELAY_S = 0.7  # seconds for the page to open before the first forecast takes the processor
UVICORN_OPTIONS: dict[str, Any] = {
    "log_level": "critical",  # the guard says what went wrong
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,  # nobody stands in between
    "ws": "none",
    "backlog": 64,
    "timeout_graceful_shutdown": 1,  # pages that follow a job would keep it for ever
}
REDIRECT_PAGE = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<title>Parley studio</title>
<meta http-equiv="refresh" content="0; url={0}"><a href="{0}">Open the studio</a>
"""


def studio_command(
    about: Annotated[
        Path, typer.Argument(metavar="FOLDER|TERMS", help="The folder with tables and terms, or a terms file in it.")
    ] = Path(),
    port: Annotated[int, typer.Option(help="Port to listen on; 0 means any free port.", min=0, max=65535)] = 8711,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Traffic to other machines is not encrypted.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
) -> None:
    """Open a web page on this machine to try terms, train models, read ledgers and audit guarantees. The web page
    contacts no other machine.

    Every request needs the token in the printed address. Each job runs in its own process.

    Example:  parley studio parley-demo/terms.toml
    """
    with extras():
        import uvicorn

        from parley.studio.guard import Place, Secrets
        from parley.studio.jobs import JobFolder, studio_state
        from parley.studio.pages import Studio
        from parley.studio.playground import Playground
        from parley.studio.server import Connection, make_app

    folder = about if about.is_dir() else about.parent
    if not about.exists():
        raise SettingError(f"{about}: this folder or file does not exist; give a folder or a terms file")
    play = Playground()
    if about.is_file():
        play.load(about)
    if host not in LOOPBACK:
        warn(
            f"The studio listens on {host}. Anyone who reads the network traffic sees the token and all pages; use an "
            "encrypting tunnel or proxy."
        )
    jobs = JobFolder(studio_state(folder) / "jobs", folder)
    listener = _listen(host, port)
    (bound, bound_port), known = listener.getsockname()[:2], Secrets()
    shown = SHOWN_HOSTS.get(bound, f"[{bound}]" if ":" in bound else bound)
    about_it = Studio(folder, play, jobs, brings=host in LOOPBACK)
    app = make_app(about_it, Place(bound_port, (*names(host), shown)), known)
    address = f"http://{shown}:{bound_port}/welcome#{known.token}"
    console.print(address, soft_wrap=True, markup=False)
    errors_console.print("Press Ctrl-C to stop the studio; running jobs continue.", style="dim")
    warming = threading.Timer(FIRST_FORECAST_DELAY_S, _first_forecast, args=[play])
    warming.daemon = True
    warming.start()
    _end_by_signals()
    with _open_browser(address, folder) if browser else nullcontext():
        uvicorn.Server(uvicorn.Config(app, http=Connection, **UVICORN_OPTIONS)).run(sockets=[listener])


def _end_by_signals() -> None:
    """Let SIGTERM, and SIGHUP unless it is ignored, exit normally, so that the token's file is removed."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda number, frame: signal.raise_signal(signal.SIGTERM))


@contextmanager
def _open_browser(address: str, folder: Path) -> Iterator[None]:
    """Open the page in a browser by a new file that leads there: other accounts can read command lines, so the token
    must not be in one. The file lies in the studio's folder, since confined browsers may not read the state folder."""
    redirect_file = folder / f".parley-studio-{secrets.token_hex(8)}.html"
    try:
        create(redirect_file, REDIRECT_PAGE.format(html.escape(address)).encode(), lasting=False)
        webbrowser.open(redirect_file.resolve().as_uri())
        yield
    finally:
        redirect_file.unlink(missing_ok=True)


def names(host: str) -> tuple[str, ...]:
    """Return the names by which requests may call a studio on this host; an attacker's own name is none of them."""
    here = ("127.0.0.1", "localhost", "[::1]")
    if host in LOOPBACK:
        return here
    own = (socket.gethostname().lower(),) if host in SHOWN_HOSTS else (f"[{host}]" if ":" in host else host.lower(),)
    return (*here, *own)


def _first_forecast(play: "Playground") -> None:
    from parley.studio.server import load_libraries

    load_libraries()
    if play.played is not None:
        with suppress(ParleyError, OSError):  # the page says so when it asks itself
            play.at_once()


def _listen(host: str, port: int) -> socket.socket:
    """Listen at one address; a name may have several, and another program may have the rest."""
    listener = None
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen()  # whoever comes before the server is ready waits
    except OSError as error:
        if listener is not None:
            listener.close()
        raise SettingError(f"--host {host} --port {port}: {error.strerror}; --port 0 chooses a free port") from None
    return listener
