"""Documents are short, their sentences too, and the reference of the terms has a row for every key."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def script():
    """A script of the documents, by its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        yield import_module
    for name in ("count_words", "renew_terms"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def counting(script):
    return script("count_words")


# long pages on deployment and proofs, whose words are counted apart
MOST_WORDS = 45_000


def test_documents_keep_their_length(counting):
    counted = [counting.measure(page.read_text(encoding="utf-8")) for page in counting.pages()]
    assert counting.together(counted).words <= MOST_WORDS


def test_sentences_and_cells_are_short(counting):
    for page in counting.pages():
        counted = counting.measure(page.read_text(encoding="utf-8"))
        assert counted.mean <= 16, page.name
        assert counted.long <= 0.03, page.name
        assert counted.longest_cell <= 200, page.name


def test_a_long_sentence_and_a_wide_cell_are_noticed(counting):
    counted = counting.measure(f"{'word ' * 31}end.\n\nShort.\n\n| {'x' * 201} | b |\n")
    assert counted.sentences == (32, 1)
    assert (counted.long, counted.longest_cell) == (0.5, 201)


def test_every_key_of_the_terms_has_its_row(script):
    """With the type and the default of the schema, and a meaning of at most twenty words."""
    renew = script("renew_terms")
    text = renew.TERMS.read_text(encoding="utf-8")
    assert renew.renewed(text) == text
    rows = [row for line in text.splitlines() if (row := renew.ROW.fullmatch(line))]
    assert len(rows) > 100
    assert [row[1] for row in rows if len(row[4].split()) > 20] == []
    without = "\n".join(line for line in text.splitlines() if not line.startswith("| `clip` |"))
    with pytest.raises(ValueError, match=r"\[privacy\] has no row for clip"):
        renew.renewed(without)
    with pytest.raises(ValueError, match=r"\[privacy\] has no key clap"):
        renew.renewed(text.replace("| `clip` |", "| `clap` |"))
