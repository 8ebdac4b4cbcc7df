"""The studio in a real browser, by keys alone: a slider moves the forecast, files become terms, a training is stopped.
Nothing is asked of the outside, no page is wider than the screen, nothing is written to the console, and axe-core finds
no serious fault. How long things took is printed, not judged. Pictures go to a folder that goes with the test."""

import importlib.util
import re
import sys
import time
from pathlib import Path

import pytest
from samples import regression_table

pytest.importorskip("starlette", reason="the extra parley-dp[studio] is not installed")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra browser)")

DOCS = Path(__file__).parents[2] / "docs"
spec = importlib.util.spec_from_file_location("take_screenshots", DOCS / "take_screenshots.py")
pictures = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = pictures
spec.loader.exec_module(pictures)

pytestmark = pytest.mark.skipif(pictures.CHROMIUM is None, reason="no chromium on PATH")

HOSTILE = "<img src=x onerror=document.title='taken'>"
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
SHOWN = "was => document.querySelector('#now .headline')?.innerText !== was"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("browser")
    regression_table(200, seed=3).to_csv(place / "public.csv", index=False)
    regression_table(60, seed=1).to_csv(place / "north.csv", index=False)
    owners = [f'[[owners]]\nname = "clinic-{n}"\nrecords = {200 + 10 * n}\nepsilon = 1.0\n' for n in range(20)]
    owners[0] += 'data = "north.csv"\n'
    (place / "terms.toml").write_text(TERMS + "".join(owners))
    (place / f"{HOSTILE}.toml").write_text("")
    long = TERMS.replace("horizon = 5", "horizon = 2000") + owners[0].replace("records = 200", "records = 60")
    (place / "long.toml").write_text(long)
    return place


class Visit:
    """A browser in a studio, and what went wrong in it."""

    def __init__(self, page, address):
        self.page, self.outside, self.complaints = page, [], []
        self.base = address.partition("/welcome")[0]
        page.on("request", lambda asked: None if asked.url.startswith(self.base) else self.outside.append(asked.url))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )

    def to(self, tab):
        self.page.goto(f"{self.base}/{tab}")


@pytest.fixture(scope="module")
def visit(folder):
    began = time.monotonic()
    with pictures.served(folder / "terms.toml") as address, pictures.browser() as chromium:
        print(f"from `parley studio` to its address: {time.monotonic() - began:.1f} s")  # noqa: T201
        found = Visit(chromium.new_page(viewport={"width": 1280, "height": 900}), address)
        assert found.page.request.get(f"{found.base}/play").status == 401
        began = time.monotonic()
        pictures.enter(found.page, address)
        print(f"from its address to the page: {time.monotonic() - began:.1f} s")  # noqa: T201
        assert "#" not in found.page.url
        yield found
    assert found.outside == []
    assert found.complaints == []


def test_a_slider_moved_by_keys_changes_the_forecast(visit):
    page = visit.page
    pictures.forecast_shown(page)
    seen = page.inner_text("#now .headline")
    slider = page.locator("input[data-of='epsilon-0']")
    slider.focus()
    began = time.monotonic()
    page.keyboard.press("PageDown")
    page.wait_for_function(SHOWN, arg=seen)
    print(f"a slider shows a new forecast of 20 owners in {1e3 * (time.monotonic() - began):.0f} ms")  # noqa: T201
    assert float(page.input_value("#epsilon-0")) < 1.0
    page.wait_for_selector("#chart canvas")
    page.wait_for_function("() => document.querySelector('#told').textContent.includes('ψ')")  # read out when it rests
    assert page.locator(".asked").count() == 20
    pictures.forecast_shown(page)


def test_by_keys_alone_one_gets_everywhere_and_sees_where_one_is(visit):
    visit.to("play")
    page, reached = visit.page, []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.innerText"))
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", reached[-1]
    order = [reached.index(name) for name in ("To the page", "Play", "Jobs", "file", "save_as", "target", "records-0")]
    assert order == sorted(order)


def test_a_training_is_followed_and_stopped_and_a_reload_finds_it(visit):
    visit.to("train")
    page = visit.page
    page.select_option("#file", "long.toml")
    page.fill("#replicates", "10000")
    page.press("#replicates", "Enter")
    page.wait_for_url("**/train/2*")
    assert "Simulation · spends nothing" in page.inner_text("main")
    page.reload()
    assert page.locator("progress").count() == 1
    page.click("text=Stop it")
    page.wait_for_selector("strong:has-text('stopped')")
    assert page.locator("progress").count() == 0


def require_well_made(page):
    """No page is wider than the screen, and axe-core finds no serious fault."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra browser)")
    for width in pictures.WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, width
    for scheme in pictures.SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        faults = axe.Axe().run(page).response["violations"]
        serious = [fault for fault in faults if fault["impact"] in ("serious", "critical")]
        assert [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in serious] == []


@pytest.mark.parametrize("tab", [*pictures.TABS, "train/release?file=terms.toml&where=here&ledgers=books&lifetime=3"])
def test_every_tab_fits_and_has_no_serious_fault(visit, tab, tmp_path):
    visit.to(tab)
    page = visit.page
    if tab == "play":
        pictures.forecast_shown(page)
    require_well_made(page)
    looks = pictures.LOOKS if tab == "play" else ((1280, "light"), (390, "dark"))
    made = pictures.screenshots(page, tab.partition("?")[0].replace("/", "-"), tmp_path, looks)
    assert all(re.match(rb"\x89PNG", file.read_bytes()) for file in made)


def test_two_files_without_a_public_sample_become_terms_that_a_simulation_trains_by(visit, folder, tmp_path):
    """Columns are asked about when tables are chosen; what was typed stays when something else is chosen."""
    visit.to("files")
    page, files = visit.page, [tmp_path / "bank_a.csv", tmp_path / f"{HOSTILE.replace('/', '')}.csv"]
    for seed, file in enumerate(files):
        regression_table(80, seed=seed).to_csv(file, index=False)
    page.set_input_files("#bring", files)
    page.wait_for_function("() => document.querySelectorAll('#tables input:checked').length === 2")
    assert page.inner_text("#brought").count("80 rows, 4 columns") == 2
    page.fill("[aria-label='x0, low']", "-1")
    for field, value in (("#target", "y"), ("#kind", "linear-regression")):  # nobody looks into private rows for that
        with page.expect_response("**/files/columns"):
            page.select_option(field, value)
    page.wait_for_selector("[aria-label='y, names']", state="detached")
    assert page.input_value("[aria-label='x0, low']") == "-1"
    for column in ("x0", "x1", "x2", "y"):
        page.fill(f"[aria-label='{column}, low']", "-1")
        page.fill(f"[aria-label='{column}, high']", "1")
    require_well_made(page)
    page.select_option("#missing", "refuse")
    page.fill("#write", "agreed.toml")
    began = time.monotonic()
    page.press("#write", "Enter")
    page.wait_for_url("**/jobs/2*")
    pictures.finished(page)
    page.wait_for_selector("strong:has-text('done')")
    print(f"two files became planned terms in {time.monotonic() - began:.1f} s")  # noqa: T201
    page.click("text=Train by agreed.toml")
    page.wait_for_url("**/train?file=agreed.toml")
    assert page.input_value("#file") == "agreed.toml"
    page.fill("#replicates", "2")
    page.press("#replicates", "Enter")
    page.wait_for_url("**/train/2*")
    pictures.finished(page)
    page.wait_for_selector("text=Relative fitness came out at")
    assert page.title() == "Simulation of agreed.toml, 2 runs · Parley studio"  # no name of a file was run
    assert "data = " in (folder / "agreed.toml").read_text()


def test_a_studio_that_is_gone_is_said(visit):
    visit.to("audit")
    page = visit.page
    page.context.clear_cookies()
    page.click("button:has-text('Attack')")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "does not answer" in page.inner_text("#trouble")
    visit.complaints.clear()  # the browser writes down what was refused
