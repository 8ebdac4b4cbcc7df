"""Pictures of the studio, as a browser shows it: python docs/take_screenshots.py [FOLDER]

Needs Playwright (extra `browser`) and chromium on PATH. Starts `parley studio` about the demo's files, opens it as
somebody would, and saves each tab. The browser tests take their pictures by the same functions.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from parley.studio import pages

IMAGES = Path(__file__).parent / "images" / "studio"
CHROMIUM = shutil.which("chromium")
SWITCHED_OFF = ("gpu", "quic", "background-networking", "component-update", "sync")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{each}" for each in SWITCHED_OFF)]
TABS = tuple(address.strip("/") for address in pages.TAB_TITLES)
WIDTHS, SCHEMES, HEIGHT = (1280, 390), ("light", "dark"), 860
LOOKS = tuple((width, scheme) for width in WIDTHS for scheme in SCHEMES)
PATIENCE = 120_000  # milliseconds for a forecast on a busy machine


@contextmanager
def served(about: Path) -> Iterator[str]:
    """The address of a studio about terms or a folder, while it runs."""
    command = [sys.executable, "-m", "parley", "studio", str(about), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as studio:  # noqa: S603
        try:
            yield "" if studio.stdout is None else studio.stdout.readline().strip()
        finally:
            studio.send_signal(signal.SIGINT)
            studio.wait(20)


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium without a window, which asks nothing of the outside."""
    with sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield found
        found.close()


def enter(page: Page, address: str) -> str:
    """Open the printed address; the studio's address without its token."""
    page.goto(address)
    page.wait_for_url("**/play")
    return address.partition("/welcome")[0]


def forecast_shown(page: Page) -> None:
    """Wait until the whole forecast is on the page."""
    page.wait_for_selector("#now details", timeout=PATIENCE)


def screenshots(page: Page, name: str, folder: Path, looks: Sequence[tuple[int, str]] = LOOKS) -> list[Path]:
    """What a screen shows of a page, at these widths and in these schemes."""
    made = []
    for width, scheme in looks:
        page.set_viewport_size({"width": width, "height": HEIGHT})
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.wait_for_timeout(100)  # for the next frame
        made.append(folder / f"{name}-{width}-{scheme}.png")
        page.screenshot(path=made[-1])
    page.set_viewport_size({"width": WIDTHS[0], "height": HEIGHT})
    page.emulate_media(color_scheme=SCHEMES[0])
    return made


def finished(page: Page) -> None:
    """Wait until the job that a page follows has ended."""
    while page.locator("[data-follow]").count():
        time.sleep(0.3)


def simulated(page: Page, base: str) -> None:
    """A simulation by the terms that are played with, until its outcome is drawn."""
    page.goto(f"{base}/train")
    page.fill("#seed", "1")
    page.click("text=Simulate")
    page.wait_for_url("**/train/2*")
    finished(page)
    page.wait_for_selector("#chart canvas", timeout=PATIENCE)


def take(about: Path, folder: Path) -> list[Path]:
    """Every tab of a studio about these terms, and the outcome of a simulation."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with served(about) as address, browser() as chromium:
        page = chromium.new_page(viewport={"width": WIDTHS[0], "height": HEIGHT})
        base = enter(page, address)
        forecast_shown(page)
        simulated(page, base)
        made += screenshots(page, "outcome", folder)
        for tab in TABS:
            page.goto(f"{base}/{tab}")
            if tab == "play":
                forecast_shown(page)
                page.wait_for_selector("#deal table, #deal p:not(:only-of-type)", timeout=PATIENCE)
            made += screenshots(page, tab, folder)
    return made


def take_of_demo(folder: Path = IMAGES, all_of_them: bool = False) -> None:
    """The pictures that documents show, from the demo's files; `all_of_them`: every tab, width and scheme."""
    shown = {"play-1280-light.png", "outcome-1280-light.png"}
    with tempfile.TemporaryDirectory() as place:
        made = Path(place) / "parley-demo"
        subprocess.run(  # noqa: S603
            [sys.executable, "-m", "parley", "demo", "--out", str(made), "--unions", "19"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        pictures = take(made / "terms.toml", Path(place) / "pictures")
        folder.mkdir(parents=True, exist_ok=True)
        for picture in pictures:
            if all_of_them or picture.name in shown:
                shutil.copyfile(picture, folder / picture.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=IMAGES)
    parser.add_argument("--all", action="store_true", help="Every tab at both widths, light and dark.")
    given = parser.parse_args()
    take_of_demo(given.folder, given.all)
