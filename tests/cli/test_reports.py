"""Pages of commands: what the terminal says, in a page that asks nobody and takes names for text."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from samples import regression_table
from typer.testing import CliRunner

from parley.cli.app import app
from parley.report.terminal import console

SCRIPT = "<script>alert(1)</script>"
COLUMN = 'x"><img src=x onerror=alert(2)>'
TERMS = f"""
title = 'Shops & {SCRIPT}'
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", '{COLUMN}']
public = "public.csv"
holdout = 0.2
[learning]
horizon = 8
step = 0.5
[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 20.0
"""
OWNER = """
[[owners]]
name = "{name}"
records = 300
epsilon = {epsilon}
value = 1000.0
privacy_cost = {{ kind = "linear", weight = {weight} }}
data = "{name}.csv"
"""
NAMES = ("_a", "b" + "-and-so-on" * 8, "shy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("reports")
    for seed, name in enumerate((*NAMES, "public")):
        table = regression_table(300, seed=seed).rename(columns={"x2": COLUMN})
        table.to_csv(made / f"{name}.csv", index=False)
    owners = (
        OWNER.format(name=name, epsilon=1.0, weight=weight)
        for name, weight in zip(NAMES, (0.01, 0.02, 1e7), strict=True)
    )
    (made / "terms.toml").write_text(TERMS + "".join(owners))
    run(made, "train", "--seed", 1, "--save", made / "model.json", "--report", made / "train.html")
    return made


def run(folder, command, *options):
    before, console.width = console.width, 400
    files = [folder / "terms.toml"] if command != "score" else [folder / "model.json", folder / "terms.toml"]
    done = CliRunner().invoke(app, [command, *map(str, files), *map(str, options)])
    console.width = before
    assert done.exit_code == 0, done.exception
    return done.stdout


class Reader(HTMLParser):
    """The words, tags and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.words, self.tags, self.attributes, self.inside = [], [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *each) for each in attrs]
        self.inside = tag

    def handle_data(self, data):
        if self.inside != "style":
            self.words.append(data)

    def handle_endtag(self, tag):
        self.inside = None


def read(path):
    reader = Reader()
    text = path.read_text(encoding="utf-8")
    reader.feed(text)
    return text, reader


def require_inert(text, reader):
    """No script, no handler, no address, no style but the one whose digest the policy names."""
    assert not {"script", "img", "iframe", "object", "link", "form", "base"} & set(reader.tags)
    assert not [each for each in reader.attributes if each[1].startswith("on") or each[1] == "style"]
    assert all(value.startswith("#") for _, name, value in reader.attributes if name in ("href", "src"))
    assert not re.search(r"(?:https?:)?//\w", text)
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    (policy,) = [value for tag, name, value in reader.attributes if tag == "meta" and "default-src" in (value or "")]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert f"style-src 'sha256-{digest}'" in policy


def require_readable(reader):
    """Headings, cells that say what they are about, figures with words."""
    assert reader.tags.count("h1") == 1
    assert reader.tags.count("h2") >= 2
    assert all(each[:2] == ("th", "scope") for each in reader.attributes if each[0] == "th")
    assert reader.tags.count("th") == sum(each[:2] == ("th", "scope") for each in reader.attributes)
    assert reader.tags.count("svg") == reader.tags.count("desc") <= reader.tags.count("title")
    ids = [value for _, name, value in reader.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def require_said(stdout, reader):
    """Every sentence of the terminal as it is, and every word of its tables."""
    words = " ".join(" ".join(reader.words).split())
    for line in (" ".join(each.split()) for each in stdout.splitlines()):
        if not line.startswith(("Next:", "terms ", "More:")):
            said = re.split(r"(?<=\.) (?=[A-Z])", line) if line.endswith(".") else line.split()
            assert not [each for each in said if each not in words]


COMMANDS = {
    "forecast": ("forecast", "--plan"),
    "negotiate": ("negotiate",),
    "negotiate-paid": ("negotiate", "--target", 0.5),
    "score": ("score", "--owner", NAMES[1]),
    "scores": ("score", "--all"),
    "audit": ("audit", "--runs", 300, "--tries", 0, "--seed", 1),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_writes_a_page_that_says_what_it_prints(folder, name):
    command, *options = COMMANDS[name]
    stdout = run(folder, command, *options, "--report", folder / f"{name}.html")
    text, reader = read(folder / f"{name}.html")
    require_said(stdout, reader)
    require_inert(text, reader)
    require_readable(reader)
    if "ε" in text:
        assert "replace-one" in text
    assert "svg" in reader.tags


def test_the_page_of_a_run_takes_a_column_for_text(folder):
    text, reader = read(folder / "train.html")
    require_inert(text, reader)
    require_readable(reader)
    assert COLUMN in "".join(reader.words)
    assert f"Shops & {SCRIPT}" in "".join(reader.words)
    assert "ε: replace-one" in text


def test_a_page_that_cannot_be_written_is_refused_before_the_work(folder):
    for command, *options in (("forecast",), ("negotiate",), ("score", "--all")):
        files = [folder / "model.json"] * (command == "score") + [folder / "terms.toml"]
        done = CliRunner().invoke(app, [command, *map(str, files), *options, "--report", str(folder / "no" / "p.html")])
        assert done.exit_code != 0
        assert "no" in str(done.exception)


def test_the_style_of_a_page_has_contrast_in_light_and_dark(folder):
    """Text beside paper and card: 4.5 to 1 at least (WCAG AA)."""

    def light(colour):
        digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
        parts = np.array([int(digits[i : i + 2], 16) for i in (0, 2, 4)]) / 255
        return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)

    text, _ = read(folder / "train.html")
    for scheme in re.findall(r":root \{([^}]*--ink[^}]*--band[^}]*)\}", text):
        found = dict(re.findall(r"--(\w+): #([0-9a-f]+)", scheme))
        pairs = [(ink, paper) for ink in (found["ink"], found["muted"]) for paper in (found["paper"], found["card"])]
        for pair in (*pairs, ("fff", found["band"])):
            low, high = sorted(map(light, pair))
            assert (high + 0.05) / (low + 0.05) >= 4.5
