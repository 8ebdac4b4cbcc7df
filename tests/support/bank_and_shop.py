"""A bank and a shop who know different things about the same people."""

import numpy as np
import pandas as pd

import parley

BOUNDS = {"income": [0, 10], "balance": [-5, 5], "spending": [0, 4], "returns": [0, 2], "rate": [0, 20]}
BANK, SHOP = ("income", "balance"), ("spending", "returns")


def people(count, seed=0):
    """Return everybody's columns: two targets that depend on both owners' columns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "customer_id": [f"c{number}" for number in rng.permutation(count)],
            "income": rng.uniform(0, 10, count),
            "balance": rng.uniform(-5, 5, count),
            "spending": rng.uniform(0, 4, count),
            "returns": rng.uniform(0, 2, count),
            "grade": rng.choice(["low", "mid", "high"], count),
        }
    )
    line = 0.5 * frame.income - 0.4 * frame.balance + 1.5 * frame.spending - 2 * frame.returns
    frame["rate"] = np.clip(8 + line + rng.normal(0, 1, count), 0, 20)
    frame["default"] = (line + rng.logistic(0, 1, count) > 3.5).astype(int)
    return frame


def tables(frame, bank_only, shop_only, target="default"):
    """Return (bank, shop): the first people only in one, the next only in the other, all others in both, shuffled."""
    bank = frame.drop(index=frame.index[bank_only : bank_only + shop_only])
    shop = frame.drop(index=frame.index[:bank_only])
    return (
        bank[["customer_id", *BANK, target]].sample(frac=1, random_state=1).reset_index(drop=True),
        shop[["customer_id", *SHOP]].sample(frac=1, random_state=2).reset_index(drop=True),
    )


def content(bank=100, shop=100, kind="logistic-regression", target="default", epsilon=1.0, **changes):
    """Return terms as a file has them; `changes` are section__key = value, and owners by name: bank__clip = 2.0."""
    bounds = {column: BOUNDS[column] for column in (*BANK, *SHOP, *([target] if target in BOUNDS else []))}
    made = {
        "title": "Bank and shop",
        "model": {"kind": kind, "target": target, "bounds": bounds},
        "learning": {"algorithm": "joined-moments"},
        "privacy": {"mechanism": "gaussian", "noise": "shared", "delta": 1e-6},
        "join": {"key": "customer_id", "epsilon": 0.1, "delta": 1e-7},
        "hosts": [{"name": name} for name in ("bank", "shop", "auditor")],
        "owners": [
            {"name": "bank", "records": bank, "epsilon": epsilon, "columns": [*BANK, target]},
            {"name": "shop", "records": shop, "epsilon": epsilon, "columns": [*SHOP]},
        ],
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        owner = {"bank": 0, "shop": 1}.get(section)
        part = made if not name else made["owners"][owner] if owner is not None else made.setdefault(section, {})
        if value is None:
            part.pop(name or section, None)
        else:
            part[name or section] = value
    return made


def joined_terms(*sizes, **changes):
    return parley.Terms.from_dict(content(*sizes, **changes))
