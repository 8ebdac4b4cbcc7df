"""Other books of a table within one account: a second lifetime budget for the same people needs a reason."""

import json
import os
import shutil
import stat
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from samples import make_terms, regression_table

import parley
from parley.data.sources import find_source
from parley.errors import BudgetExhausted, LedgerError, OtherBooksError
from parley.owner.ledger import Ledger
from parley.owner.other_books import REASON_WHEN_ASKED

REASON = "the first books were of a test table"


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("PARLEY_STATE", str(tmp_path / "state"))
    return tmp_path / "state" / "tables"


@pytest.fixture
def table(tmp_path):
    file = tmp_path / "table.csv"
    regression_table(60).to_csv(file, index=False)
    return file


def owner(table, ledger, name="a"):
    Path(ledger).parent.mkdir(parents=True, exist_ok=True)
    return parley.Owner(name, table, ledger=Ledger(ledger, lifetime=2.0))


def accept(table, ledger, name="a", rows=60, **how):
    made = owner(table, ledger, name)
    made.accept(make_terms(rows, 40), **how)
    made.ledger.close()
    return made


def test_another_folder_is_no_fresh_budget(state, tmp_path, table):
    first = accept(table, tmp_path / "books" / "a.ledger")
    for place in ("books2/a.ledger", "deep/er/books3/a.ledger", "books/b.ledger"):
        with pytest.raises(OtherBooksError, match=r"books/a\.ledger is another ledger for the table of a\..*ε = 1"):
            accept(table, tmp_path / place)
        assert Ledger(tmp_path / place).reserved == (0, 0)
    copy, link, same = (tmp_path / "elsewhere" / name for name in ("copy.csv", "link.csv", "same.csv"))
    copy.parent.mkdir()
    shutil.copy(table, copy)
    link.symlink_to(table)
    same.hardlink_to(table)
    more = regression_table(60).assign(more=1.0).sample(frac=1, random_state=1)
    for again in (copy, link, same, regression_table(60), more):
        with pytest.raises(OtherBooksError):
            accept(again, tmp_path / "new" / "a.ledger")
    made = accept(table, tmp_path / "books2" / "a.ledger", other_books=f" {REASON}\n")
    assert Ledger(made.ledger.path).other_books(make_terms(60, 40).hash) == REASON
    assert Ledger(made.ledger.path).verify() == 2
    accept(table, first.ledger.path)  # the first one goes on


def test_some_of_the_people_are_a_question(state, tmp_path):
    accept(regression_table(400), tmp_path / "a.ledger", rows=400)
    mixed = pd.concat([regression_table(400).iloc[:160], regression_table(400, seed=9).iloc[160:]])
    with pytest.raises(OtherBooksError, match=r"shares rows or people with the table of.*different people"):
        accept(mixed, tmp_path / "b.ledger", rows=400)
    made = accept(mixed, tmp_path / "b.ledger", rows=400, anyway=True)
    assert Ledger(made.ledger.path).other_books(make_terms(400, 40).hash) == REASON_WHEN_ASKED
    with pytest.raises(OtherBooksError, match="is another ledger for the table of"):
        accept(regression_table(400), tmp_path / "c.ledger", rows=400, anyway=True)
    accept(regression_table(400, seed=5), tmp_path / "d.ledger", rows=400)  # other people


def test_by_its_own_ledger_a_table_goes_on_wherever_that_lies(state, tmp_path, table):
    """Again, by new terms, moved, with new rows, and beside books for which a reason was given."""
    ledger = tmp_path / "one" / "a.ledger"
    accept(table, ledger)
    accept(table, tmp_path / "two" / "a.ledger", other_books=REASON)
    moved = tmp_path / "three"
    ledger.parent.rename(moved)
    made = parley.Owner("a", table, ledger=Ledger(moved / "a.ledger"))
    made.accept(make_terms(60, 40))
    made.accept(make_terms(60, 40, learning__horizon=3))
    assert made.ledger.other_books(make_terms(60, 40, learning__horizon=3).hash) is None


def test_a_ledger_that_was_removed_spent_what_it_spent(state, tmp_path, table):
    accept(table, tmp_path / "books" / "a.ledger")
    shutil.rmtree(tmp_path / "books")
    with pytest.raises(OtherBooksError, match="no longer exists"):
        accept(table, tmp_path / "books" / "a.ledger")


def test_beside_the_table_lies_a_note_that_outlasts_the_state_folder(state, tmp_path, table):
    accept(table, tmp_path / "books" / "a.ledger")
    shutil.rmtree(state)
    with pytest.raises(OtherBooksError, match=r"books/a\.ledger"):
        accept(table, tmp_path / "books2" / "a.ledger")
    regression_table(60, seed=3).to_csv(table, index=False)  # other people in its place
    accept(table, tmp_path / "books2" / "a.ledger")


def test_a_folder_that_cannot_be_written_to_keeps_no_note(state, tmp_path, table, monkeypatch):
    def refuse(*given, **named):
        raise PermissionError

    monkeypatch.setattr("parley.owner.other_books.replace_text", refuse)
    accept(table, tmp_path / "books" / "a.ledger")
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(OtherBooksError):
        accept(table, tmp_path / "books2" / "a.ledger")


def test_what_is_noted_is_for_the_account_alone_and_holds_no_cell(state, tmp_path):
    table = tmp_path / "table.csv"
    people = regression_table(60).assign(name=[f"person-{k}" for k in range(60)])
    people.to_csv(table, index=False)
    accept(table, tmp_path / "a.ledger")
    files = [*state.iterdir(), tmp_path / ".table.csv.books"]
    assert len(files) == 4
    digest = find_source(table).digest()
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        held = file.read_bytes()
        assert not any(word in held for word in (b"person-", digest, digest.hex().encode()))
    numbers = np.load(next(state.glob("*.npz")))["hashes"]
    assert not np.isin(people["y"].to_numpy().view(np.uint64), numbers).any()


def _race(table, ledger, state, barrier, results):
    os.environ["PARLEY_STATE"] = state
    made = owner(table, ledger)
    barrier.wait()
    try:
        made.accept(make_terms(60, 40))
        results.put("accepted")
    except OtherBooksError:
        results.put("refused")


def test_of_two_ledgers_that_race_for_a_table_one_is_refused(state, tmp_path, table):
    context = get_context("fork")
    barrier, results = context.Barrier(4), context.Queue()
    ledgers = [tmp_path / f"{k}" / "a.ledger" for k in range(4)]
    processes = [
        context.Process(target=_race, args=(table, ledger, str(state.parent), barrier, results)) for ledger in ledgers
    ]
    for process in processes:
        process.start()
    found = sorted(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join()
    assert found == ["accepted", "refused", "refused", "refused"]


def test_a_refusal_by_the_ledger_itself_notes_nothing(state, tmp_path, table):
    with pytest.raises(BudgetExhausted):
        parley.Owner("a", table, ledger=Ledger(tmp_path / "a.ledger", lifetime=0.5)).accept(make_terms(60, 40))
    assert not [*state.glob("*.npz"), *tmp_path.glob(".*")]
    accept(table, tmp_path / "b.ledger")


def test_what_cannot_be_noted_is_not_accepted(state, tmp_path, table, monkeypatch):
    made = owner(table, tmp_path / "a.ledger")
    with monkeypatch.context() as patch:
        patch.setattr("parley.owner.other_books.replace_bytes", lambda *given: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            made.accept(make_terms(60, 40))
    assert made.ledger.reserved == (0, 0)
    made.accept(make_terms(60, 40))


def test_a_crash_between_note_and_acceptance_promised_nothing(state, tmp_path, table, monkeypatch):
    made = owner(table, tmp_path / "a.ledger")
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "accept", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
        patch.setattr("parley.owner.other_books.TableNotes.remove", lambda *given: None)
        with pytest.raises(KeyboardInterrupt):
            made.accept(make_terms(60, 40))
    assert len(list(state.glob("*.npz"))) == 1
    accept(table, tmp_path / "b.ledger")
    with pytest.raises(OtherBooksError, match=r"b\.ledger"):
        made.accept(make_terms(60, 40))


def test_a_note_that_cannot_be_read_is_refused_and_nothing_is_spent(state, tmp_path, table):
    accept(table, tmp_path / "a.ledger")
    next(state.glob("*.npz")).write_bytes(b"PK half of a file")
    made = owner(regression_table(60, seed=4), tmp_path / "b.ledger")
    with pytest.raises(LedgerError, match="this note about a table's ledger cannot be read"):
        made.accept(make_terms(60, 40))
    assert made.ledger.reserved == (0, 0)


def test_books_of_an_earlier_time_are_noted_when_they_are_opened_again(state, tmp_path, table):
    accept(table, tmp_path / "a.ledger")
    for note in (*state.glob("*.npz"), tmp_path / ".table.csv.books"):
        note.unlink()
    accept(table, tmp_path / "a.ledger")
    with pytest.raises(OtherBooksError):
        accept(table, tmp_path / "b.ledger")
    assert json.loads((tmp_path / ".table.csv.books").read_text())["books"][0]["owner"] == "a"
