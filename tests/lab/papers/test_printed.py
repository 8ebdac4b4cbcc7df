"""The listing says of every figure and table what a recorded run found, and no more; quick ones are computed again."""

import json
import math
from dataclasses import replace
from importlib.util import find_spec

import pytest
from samples import data_path
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import DataError, SettingError
from parley_lab.papers import records, runner
from parley_lab.papers.document import Document, Exhibit, Shown
from parley_lab.papers.listing import comparison_lines, outcome_of, record_of
from parley_lab.papers.printed import Outcome, Printed
from parley_lab.papers.records import Comparison, Reading, Record, Relation, read_records, rounded, write_records
from parley_lab.papers.reproduce import COMMAND_BY_DOCUMENT

DOCUMENTS = {document.name: document for document in COMMAND_BY_DOCUMENT}
COUNTED = {  # by document: figures and tables as they are numbered there
    "wu2019": [f"figure {k}" for k in range(1, 12)],
    "wu2019-thesis": [
        *("figure 1.1", "figure 1.2", "table 2.1", *(f"figure 2.{k}" for k in range(1, 5)), "equation 2.3"),
        *(f"figure 3.{k}" for k in range(1, 11)),
        *(f"figure 4.{k}" for k in range(1, 4)),
    ],
    "aarhus2020": [*(f"figure {k}" for k in range(1, 10)), *(f"table {k}" for k in range(1, 7))],
    "chase2017": ["table 1", "table 2"],
    "hitaj2017": ["attack"],
    "pejo2018": [*(f"figure {k}" for k in range(1, 6)), *(f"table {k}" for k in range(1, 7)), "section 7.3"],
    "zawacki2024": [
        *("figure 2.1", "figure 2.2", *(f"figure 3.{k}" for k in range(1, 9)), "table 3.1"),
        *(f"figure 4.{k}" for k in range(1, 13)),
        *(f"table 4.{k}" for k in range(1, 7)),
        *("figure 5.1", "figure 5.2", *(f"figure 6.{k}" for k in range(1, 8))),
        *(f"figure 8.{k}" for k in range(1, 9)),
        "figure 9.1",
    ],
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_figure_and_table_is_listed_once(name):
    assert sorted(each.number for each in DOCUMENTS[name].printed) == sorted(COUNTED[name])


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_each_has_a_title_and_a_comparison_and_what_to_type_is_known(document):
    for each in document.printed:
        assert document.title_of(each), each.number
        assert each.compare or each.again or each.without, each.number
        if each.compare and (document.name != "hitaj2017" or find_spec("torch")):  # whose modules import PyTorch
            assert callable(document.load(each.compare))
        assert not (each.quick and not each.compare), each.number
        command = document.command_of(each)
        if command is None or not command.startswith("parley reproduce"):
            continue
        _, _, other, *words = command.split()
        if words:
            DOCUMENTS[other].find(words[0].removeprefix("--"), words[1])


def test_every_exhibit_that_has_a_documents_number_is_listed():
    for document in DOCUMENTS.values():
        commands = {document.command_of(each) for each in document.printed}
        for exhibit in document.exhibits:
            if exhibit.option and exhibit.word[0].isdigit():
                assert f"parley reproduce {document.name} --{exhibit.option} {exhibit.word}" in commands


def test_the_command_lists_them():
    found = json.loads(CliRunner().invoke(app, ["reproduce", "--json"]).stdout)["printed"]
    assert len(found) == sum(map(len, COUNTED.values()))
    seven = next(each for each in found if (each["document"], each["number"]) == ("zawacki2024", "figure 3.7"))
    assert seven["outcome"] == "comes out differently"
    assert seven["command"] == "parley reproduce zawacki2024 --figure 3.7"
    assert {"date", "commit", "command", "comparisons"} <= seven["run"].keys()
    for words in ([], ["--list"]):
        said = CliRunner().invoke(app, ["reproduce", *words])
        assert said.exit_code == 0
        assert "parley reproduce pejo2018 --table 3" in said.output
    refused = CliRunner().invoke(app, ["reproduce", "--json", "wu2019"])
    assert "expected after the document's name" in str(refused.exception)


def test_every_record_is_of_a_figure_that_is_listed_and_names_its_run():
    for name, document in DOCUMENTS.items():
        listed = {each.number: each for each in document.printed}
        for item, record in read_records(name).items():
            assert listed[item].compare, item
            assert record.comparisons, item
            assert record.command.startswith(f"parley reproduce {name}"), item
            assert "/" not in record.command, item
            assert len(record.commit) >= 12, item


def test_nothing_comes_out_without_a_record():
    for document in DOCUMENTS.values():
        for each in document.printed:
            if record_of(document, each) is None:
                assert outcome_of(each, None) in {each.without, Outcome.NOT_RUN}


QUICK = [(name, each.number) for name, document in DOCUMENTS.items() for each in document.printed if each.quick]


@pytest.fixture(scope="module")
def computed_again():
    """Of each document with quick figures: the comparisons of a run of today."""
    found = {}
    for name in dict.fromkeys(name for name, _ in QUICK):
        document, data = DOCUMENTS[name], data_path("ml1m.parquet").parent if name == "pejo2018" else None
        quick = [each for each in document.printed if each.quick]
        needs = dict.fromkeys(need for each in quick for need in document.needs_of(each))
        exhibits = [each for each in document.exhibits if each.name in needs]
        shown = {}
        for each in exhibits:
            bench = BENCHES[name](data)
            shown[each.name] = document.load(each.compute)(bench, each.word, lambda done, count: None)
        found[name] = document.compared(shown)
    return found


def ratings_bench(data):
    from parley_lab.papers.document import Asked
    from parley_lab.papers.pejo2018.settings import Settings

    asked = Asked((), data, data, lambda done, count: None)
    return Settings(asked, 1, None, 943, None, 2e9, None, False, None, None)


def trials_bench(data):
    from parley_lab.papers.zawacki2024.settings import Trials

    return Trials()


BENCHES = {
    "wu2019-thesis": lambda data: False,
    "aarhus2020": lambda data: None,
    "pejo2018": ratings_bench,
    "zawacki2024": trials_bench,
}


@pytest.mark.parametrize(("document", "number"), QUICK)
def test_a_quick_record_is_found_again(computed_again, document, number):
    record, again = read_records(document)[number], computed_again[document][number]
    assert [each.what for each in again] == [each.what for each in record.comparisons]
    for old, new in zip(record.comparisons, again, strict=True):
        assert new.published == old.published
        assert new.found == pytest.approx(old.found, rel=1e-3, abs=1e-6)
        assert new.holds == old.holds


CLOSE = Comparison("close", 1.0, 1.05, 0.1, "ours")
FAR = Comparison("far", 1.0, 1.5, 0.1, "ours")


@pytest.mark.parametrize(
    ("comparisons", "outcome"),
    [
        ((CLOSE,), Outcome.COMES_OUT),
        ((CLOSE, FAR), Outcome.DIFFERS),
        ((CLOSE, replace(FAR, reading=Reading.SOUND)), Outcome.AS_DRAWN),
        ((FAR, replace(FAR, reading=Reading.SOUND)), Outcome.DIFFERS),
        ((CLOSE, replace(FAR, reading=Reading.FITTED), replace(FAR, reading=Reading.BESIDE)), Outcome.COMES_OUT),
        ((replace(CLOSE, reading=Reading.FITTED),), Outcome.UNDECIDED),
        ((replace(CLOSE, found=math.nan),), Outcome.DIFFERS),
        ((replace(FAR, relation=Relation.AT_LEAST),), Outcome.COMES_OUT),
        ((replace(FAR, relation=Relation.AT_MOST),), Outcome.DIFFERS),
    ],
)
def test_the_outcome_follows_from_the_comparisons(comparisons, outcome):
    record = Record("figure 1", "2026-11-18", "0" * 12, "parley reproduce made", 1.0, comparisons)
    assert record.outcome is outcome
    assert outcome_of(Printed("figure 1"), record) is outcome
    assert outcome_of(Printed("figure 1", without=Outcome.NO_DATA), record) is Outcome.NO_DATA


def test_records_are_kept_and_an_outcome_that_its_figures_do_not_bear_out_is_refused(tmp_path):
    far = rounded((replace(FAR, found=1.23456789), replace(CLOSE, found=math.inf)))
    old = Record("figure 2", "2026-11-17", "0" * 12, "parley reproduce made", 1.0, (CLOSE,))
    new = Record("figure 1", "2026-11-18", "1" * 12, "parley reproduce made", 2.0, far)
    write_records("made", [old], ["figure 1", "figure 2"], tmp_path)
    path = write_records("made", [new], ["figure 1", "figure 2"], tmp_path)
    found = read_records("made", tmp_path)
    assert list(found) == ["figure 1", "figure 2"]
    assert found["figure 2"] == old
    assert found["figure 1"].comparisons[0].found == 1.23457
    assert math.isnan(found["figure 1"].comparisons[1].found)
    claimed = path.read_text("utf-8").replace('"comes out differently"', '"comes out"')
    path.write_text(claimed, "utf-8")
    with pytest.raises(DataError, match="figure 1: its figures say 'comes out differently'"):
        read_records("made", tmp_path)


def test_of_many_figures_the_farthest_off_is_printed():
    lines = comparison_lines([*[CLOSE] * 5, FAR, replace(FAR, reading=Reading.FITTED)])
    assert lines[0].startswith("5 of 6 figures agree; farthest off: far: expected 1, found 1.5, tolerance 0.1; ours")
    assert lines[1].endswith("beyond the tolerance (fitted)")


def test_the_farthest_off_is_so_in_its_own_tolerance_and_what_holds_is_near_its_limit():
    """0.05 of 0.1 is nearer its limit than 2 of 100, and an exact count is at none."""
    count, loose = Comparison("count", 3, 3), Comparison("loose", 50.0, 52.0, 100.0, "ours")
    (line,) = comparison_lines([*[count] * 3, loose, CLOSE])
    assert line.startswith("5 of 5 figures agree; nearest its limit: close: expected 1, found 1.05")
    (line,) = comparison_lines([*[loose] * 4, CLOSE, FAR])
    assert line.startswith("5 of 6 figures agree; farthest off: far:")
    unmeasured = replace(FAR, what="unmeasured", found=math.nan)
    assert "farthest off: unmeasured" in comparison_lines([*[FAR] * 4, unmeasured])[0]


def test_only_a_printed_figure_is_called_published():
    """A limit is ours, or a claim in words; 0 and 1 say never and always."""
    printed = Comparison("gain", 2.5, 2.4, 0.2, "half a unit")
    limit = replace(printed, relation=Relation.AT_LEAST)
    words = [
        line.split(": ")[1].split(",")[0]
        for line in comparison_lines([printed, limit, replace(printed, published=1.0)])
    ]
    assert words == ["published 2.5", "expected at least 2.5", "expected 1"]


def test_of_many_figures_beside_none_is_said_to_agree():
    lines = comparison_lines([replace(each, reading=Reading.BESIDE) for each in [CLOSE] * 5 + [FAR]])
    assert lines == ["6 figures beside; farthest off: far: expected 1, found 1.5 (beside)"]


@pytest.mark.parametrize(
    ("document", "number"),
    [
        ("chase2017", "table 1"),  # networks, clips and what epsilon stands for are not printed
        ("chase2017", "table 2"),
        ("aarhus2020", "table 1"),
        ("aarhus2020", "figure 7"),  # nor the scale of the random start
        ("pejo2018", "table 3"),  # nor delta and mu
        ("zawacki2024", "figure 6.6"),  # another attack than Z's
    ],
)
def test_nothing_decides_where_settings_that_matter_are_ours(document, number):
    printed = next(each for each in DOCUMENTS[document].printed if each.number == number)
    assert outcome_of(printed, record_of(DOCUMENTS[document], printed)) is Outcome.UNDECIDED


def test_an_accuracy_is_compared_with_one_that_z_prints_alone():
    """Chapter 8: the numbers in Z's text; our own optimum is nobody's published figure."""
    in_print = {67.0, 80.0, 85.0, 89.0, 91.0, 95.0}
    for item, record in read_records("zawacki2024").items():
        if item.startswith("figure 8."):
            accuracies = [each for each in record.comparisons if each.what.endswith(("accuracy, %", "answer, %"))]
            assert {each.published for each in accuracies} <= in_print, item


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A document whose only figure has one number; its records go to a folder of the test's."""

    def shown(bench, word, progress):
        return Shown({"number": 1.05}, real=bench)

    def compare(shown):
        return [replace(CLOSE, found=shown["figure-1"].content["number"])]

    functions = {"shown": shown, "compare": compare}
    monkeypatch.setattr(Document, "load", lambda self, function: functions[function])
    monkeypatch.setattr(runner, "commit_of_source", lambda: "2" * 12)
    monkeypatch.setattr(runner, "write_records", lambda *words: records.write_records(*words, folder=tmp_path))
    printed = (Printed("figure 1", compare="compare"),)
    return Document("made", (Exhibit("figure", "1", "one number", "shown"),), printed=printed)


def test_a_run_is_recorded_only_if_asked_and_never_of_synthetic_data(made, tmp_path):
    runner.show(made, lambda asked: True, {"figure": ["1"]})
    assert not list(tmp_path.iterdir())
    with pytest.raises(SettingError, match="synthetic"):
        runner.show(made, lambda asked: False, {"figure": ["1"]}, record=True)
    assert not list(tmp_path.iterdir())
    runner.show(made, lambda asked: True, {"figure": ["1"]}, record=True)
    (record,) = read_records("made", tmp_path).values()
    assert record.outcome is Outcome.COMES_OUT
    assert record.commit == "2" * 12
    assert record.comparisons[0].found == 1.05
