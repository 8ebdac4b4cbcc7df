"""What owners are told of tables whose cells decide where rows stand."""

from collections.abc import Sequence

from parley.terms.warning import TermsWarning
from parley.validate import printable


def place_warnings(columns: Sequence[str]) -> list[TermsWarning]:
    """Columns by which rows are placed: batches and held-out rows are chosen by places, which count as public."""
    if not columns:
        return []
    listed = ", ".join(printable(column) for column in columns)
    said = (
        f"The rows of your table stand in the order of {listed}, after which its folders are named. Somebody with "
        "another value there would stand elsewhere and move the rows between: these columns count as public, and the "
        "promise is about all others."
    )
    return [TermsWarning("owners.data", said)]
