"""A synthetic loan book, made of nobody's data. A latent creditworthiness drives score, income, utilisation and
arrears; the grade is a noisy view of it. The interest rate follows grade, term and purpose, plus what the lender could
not see."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.validate import whole

HOMES = ("MORTGAGE", "OWN", "RENT")
PURPOSES = ("car", "consolidation", "credit_card", "home", "medical", "small_business")
GRADES = ("A", "B", "C", "D", "E", "F", "G")


def synthetic_lending(n: int, seed: int = 0) -> pd.DataFrame:
    """Return loans with thirteen columns; the last one, `int_rate`, is the yearly interest rate in percent.

    Parameters
    ----------
    n
        How many loans.
    seed
        Of the draws.

    Returns
    -------
    DataFrame
        One row per loan.

    Examples
    --------
    >>> book = synthetic_lending(1000, seed=1)
    >>> list(book.columns)[:3], len(book)
    (['loan_amnt', 'term', 'annual_inc'], 1000)
    """
    n = whole(n, "n")
    rng = np.random.default_rng(seed)
    credit = rng.standard_normal(n, dtype=np.float32)  # latent: what everything else hints at

    def noisy(weight: float) -> NDArray[np.float32]:
        """Return standard normal numbers with correlation `weight` to `credit`."""
        return np.asarray(weight * credit + (1 - weight**2) ** 0.5 * rng.standard_normal(n, dtype=np.float32))

    income = np.round(np.exp(11.0 + 0.45 * noisy(0.35)), -2)
    fico = np.clip(np.round(700 + 38 * noisy(0.8)), 600, 850)
    utilisation = np.clip(50 - 22 * noisy(0.6), 0, 120).round(1)
    arrears = np.maximum(0, np.floor(-1.1 - 0.9 * noisy(0.4))).astype(np.int16)
    accounts = np.clip(np.round(11 + 4.5 * noisy(0.1)), 1, 60).astype(np.int16)
    employed = np.clip(np.round(5.5 + 3.5 * noisy(0.2)), 0, 10).astype(np.int8)
    wish = np.exp(-1.9 + 0.5 * rng.standard_normal(n, dtype=np.float32))
    amount = np.clip(np.round(wish * income, -2), 1000, 40000)
    long_term = rng.random(n, dtype=np.float32) < np.clip(0.12 + amount / 80000, 0, 0.7)
    debt = np.clip(17 - 3.0 * noisy(0.3) + 14 * amount / income, 0, 45).round(2)
    purpose = np.searchsorted(np.cumsum([0.05, 0.55, 0.22, 0.08, 0.04]), rng.random(n)).astype(np.int8)
    comfort = credit + 0.5 * np.log(income / 60000)
    home = np.where(comfort + rng.standard_normal(n, dtype=np.float32) > 0.1, 0, 2).astype(np.int8)
    home[rng.random(n, dtype=np.float32) < 0.09] = 1

    seen = 0.9 * noisy(0.9) + 0.012 * (fico - 700) - 0.004 * (utilisation - 50) - 0.012 * (debt - 18) - 0.2 * arrears
    grade = np.searchsorted([-2.9, -2.2, -1.5, -0.7, 0.2, 1.1], seen, side="right")
    grade = (6 - grade).astype(np.int8)
    surcharge = np.array([0.2, 0.0, -0.5, 0.3, 0.6, 1.6], dtype=np.float32)[purpose]
    rate = 6.9 + 2.6 * grade - 0.5 * credit + 2.1 * long_term + 0.00002 * amount + surcharge
    rate = np.clip(rate + 0.9 * rng.standard_normal(n, dtype=np.float32), 5.3, 30.9)
    return pd.DataFrame(
        {
            "loan_amnt": amount.astype(np.int32),
            "term": np.where(long_term, 60, 36).astype(np.int8),
            "annual_inc": income.astype(np.int32),
            "dti": debt.astype(np.float64),
            "fico": fico.astype(np.int16),
            "revol_util": utilisation.astype(np.float64),
            "delinq_2yrs": arrears,
            "open_acc": accounts,
            "emp_length": employed,
            "home_ownership": pd.Categorical.from_codes(home, pd.Index(HOMES)),
            "purpose": pd.Categorical.from_codes(purpose, pd.Index(PURPOSES)),
            "grade": pd.Categorical.from_codes(grade, pd.Index(GRADES), ordered=True),
            "int_rate": rate.astype(np.float64).round(2),
        }
    )
