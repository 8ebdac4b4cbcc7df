"""The checks before a release, in one order for every door: room in ledgers, expected gains, owners' own rows. Nothing
is spent before all of them. `--force` and a resumed run skip the gains; daemons check rows and ledgers themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pandas as pd

from parley.decisions.outlook.forecast import worth_spending
from parley.decisions.outlook.inside_view import contradicted
from parley.decisions.outlook.worth import Worth, require_worth
from parley.errors import BelowBaselineError, DataError, ParleyError, SettingError, TermsError
from parley.learning.owners import (
    missing_ledgers,
    open_owners,
    other_books_here,
    owner_table,
    require_ledgers,
    spent_so_far,
    unnamed_people,
)
from parley.numerals import number
from parley.owner.owner import Owner
from parley.owner.warnings import budget_warning
from parley.protocol.setup import resolve
from parley.report.words.ledgers import made_words
from parley.report.words.training import foreseen_words, unforeseen
from parley.tasks.statistics.column_statistics.commands import noise_words
from parley.tasks.statistics.column_statistics.run import require_books, require_learnable, sight
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement
from parley.terms import Terms
from parley.workflows.assumptions import read_differences
from parley.workflows.person import Declined, Person

RESUMED_SENTENCE = "This release began earlier and continues; stored answers cost no further budget."


@dataclass(frozen=True)
class Books:
    """The ledgers of this machine that a release debits, and lifetimes for those that it must create."""

    folder: Path
    lifetime: float | None = None
    lifetime_delta: float | None = None


def require_worth_spending(
    terms: Terms, differences: str | None, person: Person, speeds: Mapping[str, float] | None = None
) -> Worth | None:
    """Refuse terms that are forecast to be worth no budget; terms that cannot be forecast pass with a warning."""
    differ = read_differences(differences)
    try:
        found = worth_spending(terms, speeds=speeds, differences=differ)
    except (DataError, SettingError, TermsError) as error:
        if isinstance(error, SettingError) and terms.model.public is not None:
            raise
        person.warn(unforeseen(error))
        return None
    require_worth(found)
    return found


def ask_where_rows_contradict(terms: Terms, terms_file: Path, person: Person) -> None:
    """Ask the person who is there whether to release, if owners' own rows contradict the public sample behind the
    forecast; nothing is spent unless the answer is yes.

    Formal guarantee: none. The question depends on private rows without noise. It is shown to the person at this
    terminal alone, who holds the tables of all these owners. It is never stored, logged or sent, and no program decides
    by it: if no person sits at a terminal, the rows are not looked at.
    """
    if terms.model.public is None or not person.present:
        return
    with person.progress("comparing the owners' rows with the public sample"):
        try:
            found = contradicted(terms, [Owner(part.name, owner_table(part)) for part in terms.owners])
        except (DataError, SettingError, TermsError):
            return  # nothing was forecast from the public sample either, which was said
    if not found:
        return
    names = ", ".join(f"{name} (p = {number(test.p_value)})" for name, test in found.items())
    person.warn(
        f"Keep this warning to yourself: Parley computed it from private rows. The rows of {names} contradict the "
        f"public sample, so the forecast may be wrong for these owners. See parley forecast {terms_file} "
        f"--inside TABLE --owner {next(iter(found))}."
    )
    if not person.confirm("Release anyway?"):
        raise Declined("Nothing was released, and nothing was spent.")


def ask_where_people_repeat(terms: Terms, person: Person, asks: bool = True) -> None:
    """Warn if a column's name says that it tells people apart and the terms name none; if `asks`, ask the person who is
    there."""
    warning = unnamed_people(terms)
    if warning is not None:
        person.warn(warning.line)
        if asks and person.present and not person.confirm("Release even though the terms protect rows, not people?"):
            raise Declined("Nothing was released, and nothing was spent.")


def asks_statistics(terms: Terms) -> bool:
    """Return whether terms reserve a part of every epsilon for column statistics, which are released first."""
    return terms.privacy.scale_epsilon is not None


def require_allowed(terms: Terms, books: Books | None) -> None:
    """Refuse what this machine's ledgers have no room for, before any table is read; owners elsewhere (`books` None)
    accept or refuse by themselves."""
    if books is None:
        terms.require_shared_sample()
    if not asks_statistics(terms):
        if books is not None:
            require_ledgers(terms, books.folder, books.lifetime, books.lifetime_delta)
        return
    if books is not None:
        require_books(terms, books.folder, books.lifetime, books.lifetime_delta)
    require_learnable(terms, None if books is None else _example(terms))


def other_books(terms: Terms, books: Books) -> list[str]:
    """List, in sentences, other ledgers of this account for the tables or for some of their people."""
    agreed = column_statistics_agreement(terms) if asks_statistics(terms) else terms
    return [each.sentence for each in other_books_here(agreed, books.folder)]


@dataclass(frozen=True)
class ReleaseReview:
    """What a release by these terms would spend, and whether the owners' side allows it."""

    statistics: bool  # whether columns' statistics are released, and no model
    rows: list[list[str]]  # what each owner spends; the first one is the head
    refused: str | None
    notes: list[str]  # budgets that protect little, ledgers that are made
    other_books: list[str]
    seen: str | None  # what can be seen of columns through the noise


def review_release(terms: Terms, books: Books | None, shown: str = "", refused: str | None = None) -> ReleaseReview:
    """Return what a person reads before agreeing to a release; `shown`: the ledgers' folder; `refused`: a reason."""
    statistics = asks_statistics(terms)
    try:
        if refused is None:
            require_allowed(terms, books)
    except ParleyError as error:
        refused = str(error)
    weak_budget = budget_warning(terms, [part.name for part in terms.owners])
    unnamed = None if books is None or refused is not None else unnamed_people(terms)
    notes, others = [each.sentence for each in (weak_budget, unnamed) if each is not None], list[str]()
    if books is not None and refused is None:
        missing, others = missing_ledgers(terms, books.folder), other_books(terms, books)
        if missing and books.lifetime is not None:
            notes.append(made_words(missing, shown, books.lifetime, books.lifetime_delta or 0.0))
    seen = None
    if statistics and refused is None:
        agreed_terms = column_statistics_agreement(terms)
        seen = noise_words(agreed_terms, *sight(resolve(agreed_terms, _example(agreed_terms))))
    return ReleaseReview(statistics, _spending_rows(terms, statistics), refused, notes, others, seen)


def _example(terms: Terms) -> pd.DataFrame | None:
    return None if terms.model.features is not None else open_owners(terms)[0].example


def _spending_rows(terms: Terms, statistics: bool) -> list[list[str]]:
    agreed_terms = column_statistics_agreement(terms) if statistics else terms
    rows = [["owner", "records", "ε to spend", "δ to spend"]]
    for part in terms.owners:
        spent = agreed_terms.promised_epsilon(part.name), Fraction(str(agreed_terms.privacy.delta))
        rows.append([part.name, f"{part.records:,}", *(number(each, side="above") for each in spent)])
    if statistics:
        rows[0].append("ε left for learning")
        for row, part in zip(rows[1:], terms.owners, strict=True):
            row.append(number(terms.promised_epsilon(part.name) - terms.scale_epsilon, side="below"))
    return rows


@dataclass(frozen=True)
class ReleaseForecast:
    """Whether anybody is expected to gain by a release, or why nobody is."""

    said: str
    refused: str | None


def foresee_release(terms: Terms, books: Books | None) -> ReleaseForecast:
    """Return the result of the forecast check before a release."""
    if books is not None and spent_so_far(terms, books.folder):
        return ReleaseForecast(RESUMED_SENTENCE, None)
    try:
        found = worth_spending(terms)
        require_worth(found)
    except BelowBaselineError as error:
        return ReleaseForecast("", f"{error}.")
    except ParleyError as error:
        return ReleaseForecast(unforeseen(error), None)
    return ReleaseForecast(foreseen_words(found), None)
