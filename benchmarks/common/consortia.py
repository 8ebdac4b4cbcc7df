"""Owners that really differ: real tables divided by who holds them, coded by hand from a public sample that no owner's
rows are in.

- SBA amounts (logarithm of what was paid out, least squares) and SBA defaults (logistic): 40 banks of 100 rows and
  more, every twentieth by size; public: 2,000 loans of all other banks.
- adult (who earns more than 50,000, logistic): people by occupation and sex, neither of which is a feature; public:
  2,000 people held back.
- heart (disease, logistic): four hospitals; public: a fifth of everybody's patients, held back.
- loans (interest rates, least squares): 30 states, every one and a half by size; public: 2,000 loans held back.

Of a large owner some rows are taken: 2,000 for least squares, 300 for classes, which take longer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from common import books
from common.books import DATA, Book

PUBLIC, LEAST = 2000, 100
MOST = {"linear-regression": 2000, "logistic-regression": 300}
BANKS, STATES = 40, 30
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")


@dataclass(frozen=True, eq=False)
class Consortium:
    """Owners' tables of numbers and the public one."""

    name: str
    kind: str
    target: str
    owners: dict[str, pd.DataFrame]
    public: pd.DataFrame

    @property
    def tables(self) -> list[pd.DataFrame]:
        return list(self.owners.values())


def sba_amounts() -> Consortium:
    return _banks("SBA amounts", "linear-regression", "DisbursementGross", ())


def sba_defaults() -> Consortium:
    return _banks("SBA defaults", "logistic-regression", "Default", ("DisbursementGross", "SBA_Appv", "ApprovalFY"))


def adult() -> Consortium:
    book = books.adult()
    rows = book.rows[book.rows["occupation"].notna()]
    who = rows["occupation"].astype(str) + ", " + rows["sex"].astype(str)
    names = tuple(name for name in book.names if name not in ("occupation", "sex", "native_country", "relationship"))
    book = Book("adult", book.kind, book.target, book.numbers, book.logs, names, rows)
    return divided(book, who, [name for name, count in who.value_counts().items() if count >= LEAST], PUBLIC)


def heart() -> Consortium:
    parts = {name: pd.read_csv(DATA / f"heart_{name}.csv") for name in HOSPITALS}
    rows = pd.concat(parts.values(), ignore_index=True)
    rows["disease"] = (rows.pop("num") > 0).astype(float)
    rows["chol"] = rows["chol"].where(rows["chol"] > 0)  # 0 stands for not measured
    who = pd.Series(np.repeat(list(parts), [len(part) for part in parts.values()]))
    numbers = ("age", "sex", "trestbps", "chol", "fbs", "thalach", "exang", "oldpeak")
    book = Book("heart", "logistic-regression", "disease", numbers, (), ("cp", "restecg"), rows)
    return divided(book, who, list(HOSPITALS), len(rows) // 5)


def loans() -> Consortium:
    book = books.loans()
    who = book.rows["state"].astype(str)
    sizes = who.value_counts()
    return divided(book, who, _spread([state for state, count in sizes.items() if count >= LEAST], STATES), PUBLIC)


CONSORTIA: dict[str, Callable[[], Consortium]] = {
    "SBA amounts": sba_amounts,
    "SBA defaults": sba_defaults,
    "adult": adult,
    "heart": heart,
    "loans": loans,
}


def _banks(name: str, kind: str, target: str, more: tuple[str, ...]) -> Consortium:
    """Loans of banks; `more` are numbers that are known too when this target is asked for."""
    numbers = ("Term", "NoEmp", "CreateJob", "RetainedJob", *more)
    names = ("NewExist", "UrbanRural", "RevLineCr", "LowDoc")
    rows = pd.read_parquet(DATA / "sba_loans.parquet", columns=list({*numbers, *names, "Bank", "Default", target}))
    rows = rows[rows["Default"].notna() & rows["Bank"].notna()].reset_index(drop=True)
    if kind == "linear-regression":
        rows[target] = np.log1p(rows[target].astype(float))
    who = rows["Bank"].astype(str)
    sizes = who.value_counts()
    banks = _spread([bank for bank, count in sizes.items() if count >= LEAST], BANKS)
    public = np.flatnonzero(~who.isin(banks))
    logs = tuple(column for column in numbers if column not in ("Term", "ApprovalFY"))
    return divided(Book(name, kind, target, numbers, logs, names, rows), who, banks, PUBLIC, public)


def _spread(names: list[str], count: int) -> list[str]:
    """So many of them, evenly by rank."""
    return [names[place] for place in np.linspace(0, len(names) - 1, count).round().astype(int)]


def divided(
    book: Book,
    who: pd.Series,
    owners: list[str],
    public: int,
    pool: np.ndarray | None = None,
    most: int | None = None,
) -> Consortium:
    """The rows of these owners, some at most, and a public sample drawn from `pool` (all rows), which no owner
    keeps."""
    rng = np.random.default_rng(0)
    held_back = rng.permutation(len(book.rows) if pool is None else pool)[:public]
    kept = np.setdiff1d(np.arange(len(book.rows)), held_back)
    by_owner = {name: kept[who.to_numpy()[kept] == name] for name in owners}
    most = MOST[book.kind] if most is None else most
    places = [held_back, *(np.sort(rng.permutation(mine)[:most]) for mine in by_owner.values())]
    chosen = Book(
        book.name, book.kind, book.target, book.numbers, book.logs, book.names, book.rows.iloc[np.concatenate(places)]
    )
    table = chosen.one_hot(public).reset_index(drop=True)
    ends = np.cumsum([len(part) for part in places])
    parts = [table.iloc[first:last] for first, last in pairwise(ends)]
    return Consortium(book.name, book.kind, book.target, dict(zip(owners, parts, strict=True)), table.iloc[:public])
