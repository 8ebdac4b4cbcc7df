"""The documents' way to take pictures of the studio (`docs/take_screenshots.py`), and what axe-core says of a page."""

import importlib.util
import sys
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra browser)")

FILE = Path(__file__).parents[2] / "docs" / "take_screenshots.py"
spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
pictures = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = pictures
spec.loader.exec_module(pictures)

in_a_browser = pytest.mark.skipif(pictures.CHROMIUM is None, reason="no chromium on PATH")


def require_well_made(page):
    """The page is never wider than the screen, and axe-core finds nothing serious, in light and in dark."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra browser)")
    for width in pictures.WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
    for scheme in pictures.SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        faults = axe.Axe().run(page).response["violations"]
        serious = [fault for fault in faults if fault["impact"] in ("serious", "critical")]
        assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in serious] == []
