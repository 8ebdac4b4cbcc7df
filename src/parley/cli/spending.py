"""Before budgets are spent: is anybody expected to be better off by it?"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from parley.errors import DataError, SettingError, TermsError
from parley.report.terminal import warn
from parley.terms import Terms

if TYPE_CHECKING:
    from parley.decisions.forecasting import Worth

ANYWAY = (
    "release even what is forecast to be worse than the zero model or the public sample's own, or to be of use to no "
    "owner (items of ratings: worse than what owners learn alone), and where some people may have another ledger."
)


def require_worth_spending(terms: Terms, speeds: Mapping[str, float] | None = None) -> "Worth | None":
    """Refuse what is forecast to be worth no budget; what cannot be forecast passes, with a line that says so."""
    from parley.decisions.forecasting import require_worth, worth_spending
    from parley.report.words.released import unforeseen

    try:
        found = worth_spending(terms, speeds=speeds)
    except (DataError, SettingError, TermsError) as error:
        if isinstance(error, SettingError) and terms.model.public is not None:
            raise
        warn(unforeseen(error))
        return None
    require_worth(found)
    return found
