"""What users' ratings say about the items at given item factors: what joint factorisation asks, round after round."""

from dataclasses import dataclass
from typing import ClassVar

from parley.queries.query import Query
from parley.validate import Floats


@dataclass(frozen=True, eq=False)
class ItemFactorsQuery(Query):
    """The mean over an owner's users of their bounded terms at V = [b, Q] [items, factors + 1] (`objectives.user_updates`)."""

    kind: ClassVar[str] = "item-factors"
    items: Floats
