"""The studio in a real browser, by keys alone: a slider moves the forecast, files become terms, a training is stopped.
Nothing is asked of the outside, no page is wider than the screen, nothing is written to the console, and axe-core finds
no serious fault. How long things took is printed, not judged. Pictures go to a folder that goes with the test."""

import re
import time

import pytest
from clinics import clinic_terms, write_tables
from samples import regression_table
from studio_pictures import in_a_browser, pictures, require_well_made

pytestmark = in_a_browser

HOSTILE = "<img src=x onerror=document.title='taken'>"
CLINICS = {f"clinic-{n}": (200 + 10 * n, 1.0) for n in range(20)}
SHOWN = "was => document.querySelector('#now .headline')?.innerText !== was"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("browser")
    write_tables(place, public=200, north=60)
    settings = {"public": True, "clip": 1000.0, "data": False}
    twenty = clinic_terms("Twenty clinics", CLINICS, horizon=5, **settings)
    (place / "terms.toml").write_text(twenty.replace("records = 200\n", 'data = "north.csv"\nrecords = 200\n'))
    (place / f"{HOSTILE}.toml").write_text("")
    long = clinic_terms(owners={"north": (60, 1.0)}, horizon=2000, **{**settings, "data": True})
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
    assert page.locator(".means .gain.join, .means .gain.stay, .means .gain.unsure").count() == 20
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
    page.click("text=Train under agreed.toml")
    page.wait_for_url("**/train?file=agreed.toml")
    assert page.input_value("#file") == "agreed.toml"
    page.fill("#replicates", "2")
    page.press("#replicates", "Enter")
    page.wait_for_url("**/train/2*")
    pictures.finished(page)
    page.wait_for_selector("text=The relative fitness is")
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
