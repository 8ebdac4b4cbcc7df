"""The two markets of W section IV: loans with their interest rates, and card payments with their frauds.

Real where the data lie in the folder given; otherwise synthetic, and the market says so. A pilot of 10,000 rows is set
aside as public: the last ones, as W does for its PCA - of the shuffled table, or of the table as it was filed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parley.data import synthetic_lending
from parley.terms import Terms

PILOT_ROWS = 10_000
LOAN_FEATURES = (
    "loan_amnt", "term", "installment", "grade", "sub_grade", "emp_length", "home_ownership", "annual_inc", "purpose",
    "dti", "open_acc", "revol_bal", "revol_util", "delinq_2yrs_zero", "pub_rec_zero",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Market:
    """A table to be divided among banks, and the terms by which they learn; sizes and budgets are the experiment's to
    set."""

    name: str
    table: pd.DataFrame
    terms: Terms
    real: bool

    @property
    def rows(self) -> int:
        return len(self.table)


def loan_market(folder: Path | None, scratch: Path, as_filed: bool = False) -> Market:
    """Linear regression of the interest rate on ten principal components (W section IV-A), with a constant.

    W has none; without it a rate of 13 % on average cannot be met by centred features.
    """
    file = None if folder is None else folder / "lendingclub.parquet"
    real = file is not None and file.is_file()
    if real and file is not None:
        book = pd.read_parquet(file, columns=[*LOAN_FEATURES, "int_rate"])
        for column in book.columns:
            if not isinstance(book[column].dtype, pd.CategoricalDtype):
                book[column] = book[column].astype(np.float64).fillna(0.0)  # a constant: no row touches another
    else:
        book = synthetic_lending(900_000, seed=1)
    features = [column for column in book.columns if column != "int_rate"]
    model = {
        "kind": "linear-regression",
        "target": "int_rate",
        "features": features,
        "components": 10,
        "intercept": True,
    }
    return _market("loans", book, model, 60.0, real, scratch, as_filed)


def card_market(folder: Path | None, scratch: Path, as_filed: bool = False) -> Market:
    """A linear SVM that detects fraud (W section IV-B), on V1 to V28 and the amount."""
    file = None if folder is None else folder / "creditcard.parquet"
    real = file is not None and file.is_file()
    cards = pd.read_parquet(file).drop(columns="Time") if real and file is not None else _synthetic_cards(284_807)
    return _market("cards", cards, {"kind": "linear-svm", "target": "Class"}, 30.0, real, scratch, as_filed)


def _market(
    name: str, table: pd.DataFrame, model: dict[str, Any], clip: float, real: bool, scratch: Path, as_filed: bool
) -> Market:
    if not as_filed:
        table = table.iloc[np.random.default_rng(0).permutation(len(table))]
    public = scratch / f"{name}-public.parquet"
    table.iloc[-PILOT_ROWS:].reset_index(drop=True).to_parquet(public)
    owners = [{"name": f"bank-{i}", "records": 1000, "epsilon": 1.0} for i in (1, 2, 3)]
    content = {
        "model": model | {"public": str(public)},
        "learning": {"horizon": 100},
        "privacy": {"clip": clip},
        "owners": owners,
    }
    return Market(name, table.iloc[:-PILOT_ROWS].reset_index(drop=True), Terms.from_dict(content), real)


def _synthetic_cards(n: int) -> pd.DataFrame:
    """Payments made of nobody's data: 28 independent components, heavier tails and a shift for the 0.17 % that are
    frauds."""
    rng = np.random.default_rng(2)
    fraud = rng.random(n) < 0.00172
    X = rng.standard_t(5, (n, 28)) * np.linspace(1.9, 0.3, 28) + fraud[:, None] * rng.normal(0, 3, 28)
    table = pd.DataFrame(X, columns=[f"V{j}" for j in range(1, 29)])
    return table.assign(Amount=np.round(np.exp(3 + 1.3 * rng.standard_normal(n)), 2), Class=fraud.astype(np.int64))
