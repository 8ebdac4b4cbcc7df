"""Which two tables are neighbours. An epsilon means nothing without it: whatever prints, plots or stores one names
it."""

from enum import StrEnum


class Adjacency(StrEnum):
    """What makes two tables neighbours (dp_accounting: `NeighboringRelation`), written as commands and JSON name it.

    Parley promises for `REPLACE_ONE`: the number of records is public, and one person's records are replaced by others.
    The other is how some papers count. Replacing is leaving out and adding: what is eps-DP there is 2 eps-DP here.

    >>> f"eps = 1 ({Adjacency.REPLACE_ONE}: a record is {Adjacency.REPLACE_ONE.verb})"
    'eps = 1 (replace-one: a record is replaced)'
    """

    REPLACE_ONE = "replace-one"
    ADD_OR_REMOVE_ONE = "add-or-remove-one"

    @property
    def verb(self) -> str:
        """What happens to the one by whom two neighbouring tables differ."""
        return "replaced" if self is Adjacency.REPLACE_ONE else "added or left out"
