"""Which two tables are neighbours. An epsilon means nothing without it: whatever prints, plots or stores one names
it."""

from enum import StrEnum


class Adjacency(StrEnum):
    """What makes two tables neighbours (dp_accounting: `NeighboringRelation`), written as commands and JSON name it.

    Parley promises for `REPLACE_ONE`: the number of records is public, and one person's records are replaced by others.
    Where terms say so, for `REPLACE_OWNER`: all of an owner's records are replaced by as many others, so that what
    holds there holds for a person, too. The other is how some papers count. Replacing is leaving out and adding: what
    is eps-DP there is 2 eps-DP here.

    >>> f"eps = 1 ({Adjacency.REPLACE_ONE}: a record is {Adjacency.REPLACE_ONE.verb})"
    'eps = 1 (replace-one: a record is replaced)'
    """

    REPLACE_ONE = "replace-one"
    REPLACE_OWNER = "replace-one-owner"
    ADD_OR_REMOVE_ONE = "add-or-remove-one"

    @classmethod
    def of_unit(cls, unit: str) -> "Adjacency":
        """That of terms whose `privacy.unit` this is."""
        return cls.REPLACE_OWNER if unit == "owner" else cls.REPLACE_ONE

    @property
    def verb(self) -> str:
        """What happens to the one by whom two neighbouring tables differ."""
        return "added or left out" if self is Adjacency.ADD_OR_REMOVE_ONE else "replaced"
