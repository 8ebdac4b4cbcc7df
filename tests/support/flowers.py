"""Irises at three owners, and terms of private descent for them."""

from samples import IRIS, SPECIES

import parley
from parley.owner.ledger import Ledger

GAUSSIAN = {"mechanism": "gaussian", "delta": 1e-5}
HOSTS = [{"name": name} for name in "xyz"]


def sgd_terms(epsilon=2.0, rows=(50, 50, 50), kind="softmax-regression", hosts=False, **sections):
    content = {
        "model": {
            "kind": kind,
            "target": "species",
            "features": [*IRIS],
            "bounds": IRIS,
            "categories": {"species": SPECIES},
            "radius": 10.0,
        },
        "learning": {"algorithm": "private-sgd", "batches": 5, "epochs": 3, "step": 0.1},
        "privacy": {"clip": 4.0, **GAUSSIAN},
        "owners": [{"name": "abc"[i], "records": n, "epsilon": epsilon} for i, n in enumerate(rows)],
    }
    if hosts:
        content["privacy"]["noise"], content["hosts"] = "shared", HOSTS
    for name, changes in sections.items():
        content[name] = {k: v for k, v in (content[name] | changes).items() if v is not None}
    return parley.Terms.from_dict(content)


def parts(flowers):
    return {name: flowers.iloc[50 * i : 50 * (i + 1)] for i, name in enumerate("abc")}


def studied(flowers, terms, **settings):
    owners = [parley.Owner(part.name, parts(flowers)[part.name]) for part in terms.owners]
    return parley.train(terms, owners, **({"seed": 1} | settings))


def releasing(flowers, terms, folder):
    owners = []
    for part in terms.owners:
        new = {} if (folder / part.name).exists() else {"lifetime": part.epsilon, "lifetime_delta": "1e-5"}
        owners.append(parley.Owner(part.name, parts(flowers)[part.name], ledger=Ledger(folder / part.name, **new)))
        owners[-1].accept(terms, other_books="compared")
    return owners


PURE = {"mechanism": "laplace", "delta": None}
