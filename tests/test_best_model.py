"""How benchmarks/best_model.py measures: a public sample of its own for every split, costs in one unit, and what chance
explains."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BENCHMARKS = str(Path(__file__).parents[1] / "benchmarks")


@pytest.fixture(scope="module")
def best_model():
    """The benchmark; it is not part of the package."""
    sys.path.insert(0, BENCHMARKS)
    try:
        import best_model

        yield best_model
    finally:
        sys.path.remove(BENCHMARKS)
        sys.modules.pop("best_model", None)


def some_book(best_model, rows=400):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"a": rng.normal(size=rows), "b": np.exp(rng.normal(size=rows)), "c": rng.choice([*"uvw"], rows)}
    )
    y = table["a"] + np.log1p(table["b"]) + (table["c"] == "u") + 0.5 * rng.normal(size=rows)
    return best_model.books.Book(
        "some", "linear-regression", "y", ("a", "b"), ("b",), ("c",), table.assign(y=10 + 3 * y)
    )


def splits(best_model, book, folder, monkeypatch, raw=False, runs=2):
    monkeypatch.setattr(best_model, "SIZES", (200, 100))
    found = []
    for run in range(runs):
        (folder / str(run)).mkdir()
        place = best_model.Place("some", 1, 60, run, raw, 1)
        found.append(best_model.make_split(book, place, folder / str(run)))
    return found


def test_every_split_has_rows_of_its_own_and_none_twice(best_model, tmp_path, monkeypatch):
    book = some_book(best_model)
    found = splits(best_model, book, tmp_path, monkeypatch)
    for split in found:
        assert split.tested.start == 260
        assert len(split.book.rows) == 360
        assert not split.book.rows.duplicated().any()
        sample, files = split.files
        held = [pd.read_parquet(file) for file in (sample, *files)]
        assert [len(each) for each in held] == [60, 200]
        pd.testing.assert_frame_equal(pd.concat(held, ignore_index=True), split.coded.iloc[:260])
    assert not found[0].book.rows.iloc[:60].equals(found[1].book.rows.iloc[:60])


def test_columns_as_they_are_have_the_target_in_the_same_units(best_model, tmp_path, monkeypatch):
    """What a model says in the target's units costs what its parameters do, whoever says it."""
    split = splits(best_model, some_book(best_model), tmp_path, monkeypatch, raw=True)[0]
    assert list(split.given) == ["a", "b", "c", "y"]
    theta, made = split.public_model, split.base.preparation
    said = split.test.X @ theta * made.target_scale + made.target_centre
    assert split.said_excess(said) == pytest.approx(split.excess(theta), rel=1e-9)
    assert split.excess(theta) > 0


def test_the_public_hessian_is_near_the_identity_in_a_rivals_coordinates(best_model, tmp_path, monkeypatch):
    book = some_book(best_model)
    book = best_model.replace(
        book, kind="logistic-regression", rows=book.rows.assign(y=(book.rows["y"] > 14).astype(float))
    )
    split = splits(best_model, book, tmp_path, monkeypatch)[0]
    turned, theta = split.sample.turned(split.turn), np.linalg.solve(split.turn, split.public_model)
    assert turned.X @ theta == pytest.approx(split.sample.X @ split.public_model)
    hessian = turned.moments(turned.curvatures(theta)) / len(turned)
    before = split.sample.moments(split.sample.curvatures(split.public_model)) / len(turned)
    ridge = len(before) / len(turned) * np.trace(before) / len(before)
    assert hessian + ridge * split.turn @ split.turn == pytest.approx(np.eye(len(before)), abs=1e-9)


def test_chances_are_corrected_for_all_that_are_looked_at(best_model):
    from common.cells import BOOSTED, DESCENT, PLANNED, Cell, Entry, comparisons, holm

    assert holm([0.01, 0.5, 0.02, 0.9]) == pytest.approx([0.04, 1.0, 0.06, 1.0])
    assert holm([]) == []
    plain, noisy = Entry((1.0, 1.1, 0.9, 1.0)), Entry((0.5, 1.9, 0.2, 1.8))
    cell = Cell("some", 1, 1.0, 60, {PLANNED: plain, DESCENT: Entry((3.0, 3.2, 2.9, 3.1)), BOOSTED: noisy})
    lines = comparisons([cell])
    assert len(lines) == 3
    assert lines[1].endswith("ahead")
    assert "-2.05 ± 0.03" in lines[1]
    assert not lines[2].endswith(("ahead", "BEHIND"))


def test_splits_that_a_rival_has_not_run_count_for_nothing(best_model):
    from common.cells import BOOSTED, PLANNED, Cell, Entry, comparisons

    cell = Cell("some", 1, 1.0, 60, {PLANNED: Entry((1.0, 1.1, 9.0)), BOOSTED: Entry((3.0, 3.2, np.nan))})
    assert "-2.05 ± 0.05" in comparisons([cell])[1]
    assert "2 splits" in comparisons([cell])[1]


def test_it_runs_through_at_a_size_that_measures_nothing(best_model, tmp_path, monkeypatch, capsys):
    """From files to a table: drafted, planned and trained as `parley init` does it, beside every rival; what a file
    holds is not made again."""
    table = best_model.replace(some_book(best_model), name="loans")
    monkeypatch.setattr(best_model, "BOOKS", {"loans": lambda: table})
    monkeypatch.setattr(best_model, "SIZES", (200, 100))
    monkeypatch.setattr("common.boosted.SIZES", {"max_iter": [5]})
    file = tmp_path / "found.jsonl"
    size = ["--task", "loans", "--owners", "1", "--epsilon", "1", "--public", "60", "--runs", "2", "--replicates", "1"]
    monkeypatch.setattr(sys, "argv", ["best_model.py", *size, "--jobs", "1", "--json", str(file)])
    best_model.main()
    assert "corrected by Holm for 7" in capsys.readouterr().out
    lines = [json.loads(line) for line in file.read_text().splitlines() if line]
    assert len(lines) == 2 * (1 + 1 + 4) + 4  # Parley, what needs no eps and four rivals on each split; four settings
    ours = [line["figure"] for line in lines if line["key"][0] == "parley"]
    assert all({"excess", "cost", "setting"} <= set(each["Parley as planned"]) for each in ours)
    kept = [line for line in lines if line["key"][0] != "public" or line["key"][4] == 0]  # one is cut short
    file.write_text("".join(json.dumps(line) + "\n" for line in kept) + '{"key": ["public", "lo')
    best_model.main()
    assert "corrected by Holm for 7" in capsys.readouterr().out
    assert len([line for line in file.read_text().splitlines() if line]) == len(lines) + 1
