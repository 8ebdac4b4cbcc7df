"""Before budgets are spent: is anybody expected to be better off by it, and is the forecast about these owners?"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from parley.cli.assumptions import read_differences
from parley.errors import DataError, SettingError, TermsError
from parley.numerals import number
from parley.report.terminal import errors_console, progress_bar, warn
from parley.terms import Terms

if TYPE_CHECKING:
    from parley.decisions.outlook.worth import Worth

ANYWAY = (
    "release even what is forecast to be worse than the zero model or the public sample's own, or to be of use to no "
    "owner (items of ratings: worse than what owners learn alone), and where some people may have another ledger."
)


def require_worth_spending(
    terms: Terms, differences: str | None, speeds: Mapping[str, float] | None = None
) -> "Worth | None":
    """Refuse what is forecast to be worth no budget; what cannot be forecast passes, with a line that says so."""
    from parley.decisions.outlook.forecast import worth_spending
    from parley.decisions.outlook.worth import require_worth
    from parley.report.words.training import unforeseen

    differ = read_differences(differences)
    try:
        found = worth_spending(terms, speeds=speeds, differences=differ)
    except (DataError, SettingError, TermsError) as error:
        if isinstance(error, SettingError) and terms.model.public is not None:
            raise
        warn(unforeseen(error))
        return None
    require_worth(found)
    return found


def ask_where_rows_contradict(terms: Terms, terms_file: Path) -> None:
    """Before a release on this machine: ask the person at the terminal where owners' own rows contradict the public
    sample, on which the forecast rests; leave with exit code 1, nothing spent, unless the answer is yes.

    Formal guarantee: none. The question depends on private rows without noise. It is shown to the person at this
    terminal alone, who holds the tables of all these owners; it is never stored, logged or sent, and no program decides
    by it: where no person sits at a terminal the rows are not looked at.
    """
    from parley.decisions.outlook.inside_view import contradicted
    from parley.learning.owners import owner_table
    from parley.owner.owner import Owner

    if terms.model.public is None or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    with progress_bar("own rows beside the public sample"):
        try:
            found = contradicted(terms, [Owner(part.name, owner_table(part)) for part in terms.owners])
        except (DataError, SettingError, TermsError):
            return  # nothing was forecast from the public sample either, which was said
    if not found:
        return
    names = ", ".join(f"{name} (p = {number(test.p_value)})" for name, test in found.items())
    errors_console.print(
        f"For your eyes only, computed from private rows: {names}: own rows contradict the public sample, so the "
        f"forecast may be wrong for them. See parley forecast {terms_file} --inside TABLE --owner {next(iter(found))}.",
        style="yellow",
        markup=False,
        soft_wrap=True,
    )
    if not typer.confirm("Release anyway?", err=True):
        errors_console.print("Nothing was released, nothing was spent.")
        raise typer.Exit(1)
