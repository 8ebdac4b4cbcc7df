"""The section `[join]`: whose owners hold other columns of the same people, and how a person's key is read."""

from typing import Annotated, Literal

from pydantic import Field

from parley.terms.keys import DateFormat, Name, Positive, Section, quoted_choices
from parley.terms.sections import CheckableTerms

JOINED = "joined"  # the task of terms with this section
JOINING_ALGORITHM = "joined-moments"
MAX_KEY_DIGITS = 20


class Join(Section):
    """The column that names a person in every owner's table. A record is a person: the row that all owners' parts
    make up."""

    key: Name
    case: Literal["ignore"] | None = None  # None: capitals count
    date: DateFormat | None = None  # None: keys are names, not dates
    # parts of every owner's epsilon and delta, for the number of matches that hosts see
    epsilon: Positive
    delta: Annotated[float, Field(gt=0, lt=1, strict=True)]
    digits: Annotated[int, Field(ge=4, le=MAX_KEY_DIGITS, strict=True)] = 12  # binary digits of a value, less its sign


def check_join(terms: CheckableTerms) -> None:
    """Refuse (ValueError) a join without its algorithm or the reverse, and its owners' keys elsewhere."""
    joins = terms.task == JOINED
    if terms.join is not None and not joins:
        raise ValueError(
            f"join|allowed only with learning.algorithm = {quoted_choices([JOINING_ALGORITHM])}, because other "
            "algorithms need every column of a record in one table"
        )
    if terms.join is None and joins:
        raise ValueError(
            f"join|required with algorithm = {JOINING_ALGORITHM!r}: name the column that identifies people in every "
            'table, such as key = "customer_id", and set epsilon and delta for the number of matches'
        )
    for key in ("columns", "clip"):
        if terms.join is None and any(getattr(owner, key) is not None for owner in terms.owners):
            raise ValueError(
                f"owners.{key}|allowed only with [join], where every owner has other columns of the same people"
            )
