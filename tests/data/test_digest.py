from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from bookkeeping import old_ledger
from samples import make_terms, regression_table

import parley
from parley.data.sketch import digested_table
from parley.data.sources.parquet import ParquetFolder
from parley.errors import DataError, LedgerError
from parley.owner.ledger import Ledger


def digest(table):
    return digested_table(table)[1].cells


def test_a_digest_knows_every_cell_of_a_file_and_of_a_frame(tmp_path):
    table = regression_table(60)
    changed = table.copy()
    changed.loc[59, "y"] += 1e-9
    for name, frame in (("one.csv", table), ("same.csv", table), ("other.csv", changed)):
        frame.to_csv(tmp_path / name, index=False)
    assert digest(tmp_path / "one.csv") == digest(str(tmp_path / "same.csv")) != digest(tmp_path / "other.csv")
    assert digest(table) == digest(table.copy()) != digest(changed)
    others = [
        table.rename(columns={"x0": "z"}),
        table[["y", "x0", "x1", "x2"]],
        table.iloc[::-1],
        table.iloc[:-1],
        table.astype(str),
    ]
    assert len({digest(frame) for frame in (table, *others)}) == 6
    odd = pd.DataFrame({"x": [1, "1", None, Decimal("1.0")]}, dtype=object)
    assert digest(odd) == digest(odd.copy())


def folder_of(tmp_path, frames):
    tmp_path.mkdir()
    for k, frame in enumerate(frames):
        frame.to_parquet(tmp_path / f"part{k}.parquet")
    return tmp_path


def test_a_digest_of_a_folder_knows_its_files_and_their_order(tmp_path):
    parts = [regression_table(30, seed=k) for k in range(3)]
    one, other, less = (
        folder_of(tmp_path / name, part) for name, part in (("a", parts), ("b", parts[::-1]), ("c", parts[:2]))
    )
    opened, found = digested_table(one)
    first = found.cells
    assert isinstance(opened, ParquetFolder)
    assert first == digest(str(folder_of(tmp_path / "same", parts)))
    assert len({first, digest(other), digest(less)}) == 3
    regression_table(30, seed=9).to_parquet(one / "part1.parquet")
    with pytest.raises(DataError, match="changed since the table was opened"):
        opened.require_unchanged()


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    regression_table(60).to_csv(path, index=False)
    read = pd.read_csv

    def meddled(*arguments, **settings):
        frame = read(*arguments, **settings)
        regression_table(60, seed=1).to_csv(path, index=False)
        return frame

    monkeypatch.setattr(pd, "read_csv", meddled)
    with pytest.raises(DataError, match="changed while it was being read"):
        digested_table(path)


def ask(owner, terms, k):
    return owner.answer(parley.protocol.queries.GradientQuery.ask(terms.hash, "learner", k, np.zeros(3)))


@pytest.mark.parametrize("kind", ["frame", "file", "folder"])
def test_another_table_under_the_same_agreement_is_refused_and_a_new_agreement_may_have_it(tmp_path, kind):
    """16 answers came from one table and the rest from another, without a word."""

    def table(seed):
        frame = regression_table(60, seed=seed)
        if kind == "frame":
            return frame
        if kind == "file":
            frame.to_csv(tmp_path / "a.csv", index=False)
            return tmp_path / "a.csv"
        (tmp_path / "parts").mkdir(exist_ok=True)
        frame[:30].to_parquet(tmp_path / "parts" / "one.parquet")
        frame[30:].to_parquet(tmp_path / "parts" / "two.parquet")
        return tmp_path / "parts"

    terms, later = make_terms(60), make_terms(60, learning__horizon=5)
    path = tmp_path / "a.ledger"
    owner = parley.Owner("a", table(1), ledger=Ledger(path, lifetime=3.0))
    owner.accept(terms)
    ask(owner, terms, 1)
    owner.ledger.close()
    refreshed = parley.Owner("a", table(2), ledger=Ledger(path))
    with pytest.raises(LedgerError, match="accepted with a table that differs from the current table"):
        refreshed.accept(terms)
    refreshed.accept(later)  # the month's new rows, under terms of their own
    ask(refreshed, later, 1)
    refreshed.ledger.close()
    back = parley.Owner("a", table(1), ledger=Ledger(path))
    back.accept(terms)
    ask(back, terms, 2)
    with pytest.raises(LedgerError, match="accepted with a table that differs from the current table"):
        back.accept(later)
    assert back.ledger.account(terms.hash).answered == 2
    assert back.ledger.verify() == 6
    back.ledger.close()


def test_a_digest_lies_in_the_file_only_sealed(tmp_path):
    """Two ledgers of one table hold nothing in common that tells so."""
    table, terms, kept = regression_table(60), make_terms(60), []
    for name in ("one", "two"):
        owner = parley.Owner("a", table, ledger=Ledger(tmp_path / name, lifetime=3.0))
        owner.accept(terms, other_books="compared")
        owner.ledger.remember()
        kept += [entry["content"] for entry in owner.ledger.entries() if entry["kind"] == "accept"]
        owner.ledger.close()
        content = (tmp_path / name).read_bytes()
        assert digest(table) not in content
        assert digest(table).hex().encode() not in content
    assert kept[0] != kept[1]


def test_a_ledger_that_did_not_know_its_tables_believes_the_first_one(tmp_path):
    from fractions import Fraction

    from bookkeeping import reserve

    from parley.owner.ledger.account import Reservation

    ledger = Ledger(old_ledger(tmp_path))
    known = Reservation("t", "a", "learner", Fraction(1), Fraction("1e-6"), 10)
    assert not ledger.knows_table("t")
    ledger.accept(known, b"1" * 32)
    assert ledger.knows_table("t")
    assert not ledger.knows_table("u")
    ledger.accept(known, b"1" * 32)
    with pytest.raises(LedgerError, match="accepted with a table that differs from the current table"):
        ledger.accept(known, b"2" * 32)
    assert [entry["kind"] for entry in ledger.entries()].count("table") == 1
    ledger.accept(reserve("new", Fraction(1, 10), 1), b"2" * 32)
    assert ledger.knows_table("new")
    ledger.close()
    again = Ledger(ledger.path)
    assert again.verify() == 11
    with pytest.raises(LedgerError, match="accepted with a table that differs from the current table"):
        again.accept(known, b"2" * 32)
