"""Every figure of the product, from the gallery: words that say what is seen, names as they are, nothing cut."""

import ast
import importlib.util
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from parley.report.figures.owner_gains import OwnerGain, owner_gains
from parley.report.figures.picture import NUMBERED_NOTE, Picture, alt_text, save, svg

ROOT = Path(__file__).parents[2]
TITLE = "Better for some"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def gallery():
    spec = importlib.util.spec_from_file_location("gallery", ROOT / "docs" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["gallery"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["gallery"]


def figure_functions():
    """The public functions of the package that return a picture."""
    for path in (ROOT / "src" / "parley").rglob("*.py"):
        if path.parent.name in ("figures", "pages", "decisions") or path.name.endswith("figures.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                returns = getattr(node, "returns", None)
                if isinstance(returns, ast.Name) and returns.id == "Picture" and not node.name.startswith("_"):
                    yield node.name


def test_the_gallery_has_every_figure_of_the_product(gallery):
    said = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(ast.parse(Path(gallery.__file__).read_text(encoding="utf-8")))
        if isinstance(node, (ast.Attribute, ast.Name))
    }
    found = set(figure_functions())
    assert len(found) >= 14
    assert found <= said


def test_every_figure_says_what_is_seen_and_how_much_of_it(gallery):
    for draw in (*gallery.MANY.values(), *gallery.ONE.values()):
        words = draw(3).alt
        assert len(words) > 60
        assert "\n" not in words
        assert any(letter.isdigit() for letter in words)


def test_of_a_crowd_both_ends_have_names_and_the_others_are_counted(gallery):
    for count, lines in ((1, 1), (3, 3), (40, 40), (400, 21)):
        figure = gallery.gains(count)
        labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
        assert len(labels) == lines
        assert ("… and 380 more" in labels) == (count == 400)
    assert not gallery.cut(figure)
    left = gallery.negotiation(400).axes[0]
    legend = [text.get_text() for text in left.get_legend().get_texts()]
    assert len(legend) == 9
    assert legend[-1].startswith("… and 392 more")


def test_a_title_that_does_not_fit_is_noticed(gallery):
    figure = gallery.gains(3)
    figure.axes[0].set_title("as long as it is " * 20)
    assert gallery.cut(figure)


def hostile():
    names = ("_hidden", "$x^{", "<script>alert(1)</script>", "北京協和醫院", 'a style="fill: red" id="b"', "-->")
    return owner_gains([OwnerGain(name, 1.0, 0.5, 2.0, "join") for name in names], TITLE, "saved", "lines: 90%"), names


def test_an_svg_has_title_words_and_names_in_their_own_letters_and_no_style(tmp_path):
    figure, names = hostile()
    save(figure, tmp_path / "f.svg")
    text = (tmp_path / "f.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text == TITLE
    assert root.find(f"{SVG}desc").text == figure.alt
    drawn = {(each.text or "").strip("\u2009") for each in root.iter(f"{SVG}text")}
    assert set(names) <= drawn
    tags = {each.tag.removeprefix(SVG) for each in root.iter()}
    assert tags <= {"svg", "title", "desc", "g", "path", "text", "tspan", "use", "defs", "clipPath", "rect"}
    assert all("style" not in each.attrib for each in root.iter())
    targets = {each.get("id") for each in root.iter()}
    assert {each.get("href")[1:] for each in root.iter(f"{SVG}use")} <= targets


def test_in_a_page_two_figures_share_no_name_and_ask_nobody():
    figure, _ = hostile()
    other = owner_gains([OwnerGain("a", 1.0, 0.5, 2.0, "stay")], TITLE, "saved", "lines: 90%")
    ids = [{each.get("id") for each in ElementTree.fromstring(svg(each)).iter()} - {None} for each in (figure, other)]
    assert not ids[0] & ids[1]
    assert "http" not in svg(figure)


def test_a_bitmap_numbers_names_that_no_font_has_and_the_figure_is_left_as_it_was(tmp_path):
    figure, names = hostile()
    for kind in ("png", "pdf"):
        save(figure, tmp_path / f"f.{kind}")
    with Image.open(tmp_path / "f.png") as bitmap:
        assert bitmap.info["Description"] == figure.alt
    assert (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")
    assert names[3] in [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert figure.get_supxlabel() != NUMBERED_NOTE


def test_a_figure_of_others_is_described_by_its_titles():
    from matplotlib.figure import Figure

    figure = Figure()
    figure.suptitle("Both")
    figure.add_subplot().set_title("left", loc="left")
    assert alt_text(figure) == "Both; left"
    assert alt_text(Picture(2, 2, "words")) == "words"
    assert "<desc" in svg(figure)


def test_runs_that_are_drawn_for_owners_of_one_size_stand_at_that_size(gallery):
    """Sizes that come twice are sizes all the same, not places in a row."""
    axes = gallery.joined(40).axes[0]
    places = np.concatenate([dots.get_offsets()[:, 0] for dots in axes.collections if dots.get_offsets().size])
    assert places.max() == 20_000
