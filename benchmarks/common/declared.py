"""Tables without a public sample: what is declared of their columns, and DP-EBM (interpret) on them.

DP-EBM counts records that are added or removed. Replacing a record moves its sums by up to twice as much, so that its
noise for mu/2 is taken where Parley's is for mu, mu being that of Gaussian differential privacy at (eps, delta): eps 1
is 0.475 of its own. That is exact for its boosting; halving eps, which asks for delta/(1 + exp(eps/2)) too, would give
it a little less.
"""

import importlib.util
import sys
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.metrics import log_loss, roc_auc_score

import parley
from common import books

DELTA = 1e-6
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {
    "adult": {
        "age": (15, 90),
        "education_num": (1, 16),
        "capital_gain": (0, 1e5),
        "capital_loss": (0, 5000),
        "hours_per_week": (0, 100),
    },
    "SBA": {
        "Term": (0, 360),
        "NoEmp": (0, 10_000),
        "CreateJob": (0, 10_000),
        "RetainedJob": (0, 10_000),
        "DisbursementGross": (1000, 5e6),
        "GrAppv": (1000, 5e6),
        "SBA_Appv": (1000, 5e6),
        "ApprovalFY": (1960, 2015),
    },
    "loans": {
        "loan_amnt": (0, 40_000),
        "term": (36, 60),
        "emp_length": (0, 10),
        "annual_inc": (1000, 1e6),
        "dti": (0, 40),
        "open_acc": (0, 100),
        "revol_bal": (0, 1e6),
        "revol_util": (0, 150),
        "delinq_2yrs_zero": (0, 1),
        "pub_rec_zero": (0, 1),
    },
    "flights": {
        "date": (1, 366),
        "sched_dep_time": (0, 2400),
        "distance": (0, 6000),
        "temp": (-20, 120),
        "humid": (0, 100),
        "wind_speed": (0, 60),
        "precip": (0, 2),
        "visib": (0, 10),
    },
    "diamonds": {
        "carat": (0, 6),
        "depth": (40, 80),
        "table": (40, 100),
        "x": (0, 12),
        "y": (0, 12),
        "z": (0, 12),
    },
}
TARGETS = {"loans": (5.0, 31.0), "diamonds": (5.5, 10.0)}  # bounds of numbers that are predicted
# DP-EBM: (rounds, learning rate), its defaults first
TRIED = [(300, 0.01), (30, 0.1), (100, 0.1), (100, 0.3), (100, 1.0), (50, 0.5), (50, 1.0)]


@dataclass(frozen=True, eq=False)
class Declared:
    """A table, and what is declared of it."""

    book: books.Book

    @property
    def name(self) -> str:
        return self.book.name

    @property
    def classes(self) -> bool:
        return self.book.kind != "linear-regression"

    @cached_property
    def frame(self) -> pd.DataFrame:
        """Features as they are, names as text, and the target."""
        rows = self.book.rows[[*self.book.numbers, *self.book.names, self.book.target]].copy()
        for column in self.book.names:
            rows[column] = rows[column].map(_named, na_action="ignore").astype(object)
        return rows.reset_index(drop=True)

    def terms(self, epsilon: float, depth: int, records: int) -> parley.Terms:
        bounds = {column: list(map(float, ends)) for column, ends in BOUNDS[self.name].items()}
        names = {column: sorted(self.frame[column].dropna().unique()) for column in self.book.names}
        return parley.Terms.from_dict(
            {
                "model": {
                    "kind": "boosted-classification" if self.classes else "boosted-regression",
                    "target": self.book.target,
                    "bounds": bounds if self.classes else bounds | {self.book.target: list(TARGETS[self.name])},
                    "categories": names,
                    "transforms": dict.fromkeys(self.book.logs, "log1p"),
                    "missing": "fill",
                    "depth": depth,
                },
                "privacy": {"mechanism": "gaussian", "delta": DELTA},
                "owners": [{"name": "owner", "records": records, "epsilon": epsilon}],
            }
        )

    @cached_property
    def rival_frame(self) -> pd.DataFrame:
        """The same for DP-EBM, which takes no gaps: numbers at the middle of their bounds, names as a name."""
        made = self.frame.copy()
        for column, (low, high) in self._ends.items():
            cells = made[column].astype(np.float64)
            cells = np.log1p(cells.clip(lower=0)) if column in self.book.logs else cells
            made[column] = cells.clip(low, high).fillna((low + high) / 2)
        made[list(self.book.names)] = made[list(self.book.names)].fillna("?")
        return made

    @property
    def _ends(self) -> dict[str, tuple[float, float]]:
        logs = self.book.logs
        return {c: (np.log1p(a), np.log1p(b)) if c in logs else (a, b) for c, (a, b) in BOUNDS[self.name].items()}

    def rival(self, epsilon: float, setting: tuple[int, float], seed: int) -> Any:
        """DP-EBM with as much noise as replace-one at this eps asks for."""
        from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

        own = gaussian_epsilon(gaussian_mu(epsilon) / 2)
        types = ["continuous"] * len(self.book.numbers) + ["nominal"] * len(self.book.names)
        shared = {
            "feature_types": types,
            "epsilon": own,
            "delta": DELTA,
            "privacy_bounds": self._ends,
            "max_rounds": setting[0],
            "learning_rate": setting[1],
            "random_state": seed,
            "n_jobs": 1,
        }
        if self.classes:
            return DPExplainableBoostingClassifier(**shared)
        low, high = TARGETS[self.name]
        return DPExplainableBoostingRegressor(**shared, privacy_target_min=low, privacy_target_max=high)

    def rival_fitted(self, epsilon: float, setting: tuple[int, float], train: Any, test: Any, seed: int) -> Any:
        """(DP-EBM of the rows at these places, the rows to test it on)"""
        rows = self.rival_frame.iloc[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target = rows[self.book.target].to_numpy(dtype=np.float64)
            model = self.rival(epsilon, setting, seed).fit(rows.drop(columns=self.book.target), target)
        return model, self.rival_frame.iloc[test]

    def measured(self, model: Any, test: pd.DataFrame) -> tuple[float, ...]:
        """Cost first: log loss and AUC, or the error over the deviation of the target."""
        y = test[self.book.target].to_numpy(dtype=np.float64)
        X = test.drop(columns=self.book.target)
        if not self.classes:
            return (float(np.sqrt(np.mean((model.predict(X) - y) ** 2)) / self.frame[self.book.target].std()),)
        p = np.clip(model.predict_proba(X)[:, 1], 1e-9, 1 - 1e-9)
        return float(log_loss(y, p)), float(roc_auc_score(y, p))


def _named(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) else str(cell)


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(-epsilon / mu + mu / 2) - np.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2))


def gaussian_mu(epsilon: float) -> float:
    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - DELTA, 1e-4, 50))


def gaussian_epsilon(mu: float) -> float:
    return float(brentq(lambda epsilon: gaussian_delta(mu, epsilon) - DELTA, 1e-6, 100))


def found_interpret(folder: Path | None) -> bool:
    """Whether interpret is there, or in this folder."""
    if folder is not None and str(folder) not in sys.path:
        sys.path.append(str(folder))
    return importlib.util.find_spec("interpret") is not None
