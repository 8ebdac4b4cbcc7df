"""One owner's fit by terms of its own: a release whose books are closed when it is over, or with a seed a study."""

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from parley.learning.outcome.result import Result
from parley.learning.prediction import learn_model
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner
from parley.protocol.task import RunSettings
from parley.terms import Terms

OWNER = "owner"  # how terms call who fits


def fit_table(terms: Terms, table: pd.DataFrame, seed: int | None) -> Result:
    """What comes of the terms on this table; without a seed with exact noise, debited from a ledger of its own."""
    return _release(terms, table) if seed is None else _study(terms, table, seed)


def _study(terms: Terms, table: pd.DataFrame, seed: int) -> Result:
    return learn_model(terms, [Owner(OWNER, table)], RunSettings(seed=seed, measure=False))


def _release(terms: Terms, table: pd.DataFrame) -> Result:
    """The course of a release, with books that are closed when it is over."""
    epsilon, delta = terms.owners[0].epsilon, terms.privacy.delta
    with (
        TemporaryDirectory() as folder,
        closing(Ledger(Path(folder) / "fit.ledger", epsilon, lifetime_delta=delta or None, remembered=False)) as ledger,
    ):
        owner = Owner(OWNER, table, ledger=ledger)
        owner.accept(terms)
        return learn_model(terms, [owner], RunSettings(measure=False))
