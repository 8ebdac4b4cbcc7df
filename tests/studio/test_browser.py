"""The studio in a real browser: a slider is moved by keys and the forecast changes; nothing is asked of the outside, no
page is wider than the screen, nothing is written to the console. Screenshots go to a folder that goes with the test."""

import contextlib
import shutil
import signal
import subprocess
import sys
import time

import pytest
from samples import regression_table

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = shutil.which("chromium")
SWITCHED_OFF = ("gpu", "quic", "background-networking", "component-update", "sync")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{each}" for each in SWITCHED_OFF)]
TERMS = """
title = "Twenty clinics"
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
public = "public.csv"
[learning]
algorithm = "gradient-descent"
horizon = 5
step = 0.3
[privacy]
mechanism = "laplace"
clip = 1000.0
"""


@contextlib.contextmanager
def served(folder):
    """The address of a studio about a folder, while it runs."""
    command = [sys.executable, "-m", "parley", "studio", str(folder / "terms.toml"), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as studio:
        began = time.monotonic()
        try:
            address = studio.stdout.readline().strip()
            print(f"from `parley studio` to its address: {time.monotonic() - began:.1f} s")  # noqa: T201
            yield address
        finally:
            studio.send_signal(signal.SIGINT)
            studio.wait(20)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
def test_a_slider_moved_by_keys_changes_the_forecast(tmp_path):
    regression_table(200, seed=3).to_csv(tmp_path / "public.csv", index=False)
    owners = (f'[[owners]]\nname = "clinic-{n}"\nrecords = {200 + 10 * n}\nepsilon = 1.0\n' for n in range(20))
    (tmp_path / "terms.toml").write_text(TERMS + "".join(owners))
    outside, complaints = [], []
    with served(tmp_path) as address, playwright.sync_playwright() as driver:
        base = address.partition("/welcome")[0]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda asked: None if asked.url.startswith(base) else outside.append(asked.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        assert page.request.get(f"{base}/play").status == 401
        page.goto(address)
        page.wait_for_url("**/play")
        assert "#" not in page.url
        page.wait_for_selector("#now details", timeout=60_000)  # the whole forecast
        seen = page.inner_text("#now .headline")
        slider = page.locator("input[data-of='epsilon-0']")
        slider.focus()
        began = time.monotonic()
        page.keyboard.press("PageDown")
        page.wait_for_function("was => document.querySelector('#now .headline').innerText !== was", arg=seen)
        print(f"a slider shows a new forecast of 20 owners in {1e3 * (time.monotonic() - began):.0f} ms")  # noqa: T201
        assert float(page.input_value("#epsilon-0")) < 1.0
        page.wait_for_selector("#chart canvas")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.screenshot(path=tmp_path / f"play-{width}-{scheme}.png")
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        browser.close()
    assert outside == []
    assert complaints == []
