"""Which budgets rational owners would choose by terms, or from which value on joining pays who has stated none yet."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parley.decisions.games.break_even import BreakEvens, break_even, equal_owners
from parley.decisions.games.negotiate import CommonNegotiation, Negotiation, negotiate, stated_values
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.durable import write_file
from parley.errors import SettingError
from parley.report.words import negotiation as said
from parley.report.words import noise as kinds
from parley.report.words.outlook import verdict_sentence
from parley.terms import Terms, load_terms, write_terms
from parley.workflows.assumptions import read_differences
from parley.workflows.person import Nobody, Person

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class NegotiationReport:
    """What came of a negotiation; where an owner has not stated what it goes by, from which value on joining pays."""

    terms: Terms
    found: Negotiation | BreakEvens
    needs_deal: bool = False  # whether what was asked for takes one
    written: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The object that `parley negotiate --json` prints."""
        return self.found.to_json()

    @property
    def headline(self) -> str:
        """How good the agreed model would be; before there is one, whether joining is worth it."""
        found = self.found
        return said.headline(found) if isinstance(found, Negotiation) else verdict_sentence(found.outlook)

    @property
    def tables(self) -> list[tuple[str, Rows]]:
        """Every table with its title."""
        found = self.found
        if isinstance(found, BreakEvens):
            return [(said.BREAK_EVEN, said.break_even_rows(found.owners))]
        if not found.deal.members.any():
            return [(said.wishes_title(found), said.wish_rows(found))]
        tables: list[tuple[str, Rows]] = [(said.title(found), said.owner_rows(found))]
        if isinstance(found, CommonNegotiation):
            content = found.to_json()
            tables.append((kinds.preferences_title(content), kinds.preference_rows(content)))
        return tables

    @property
    def sentences(self) -> list[str]:
        """What it costs and what holds it together; without a deal, what would move owners."""
        found = self.found
        if isinstance(found, BreakEvens):
            return [said.break_even_line(found.owners)]
        if not found.deal.members.any():
            return said.moves(found)
        common = kinds.weakest_link(found.to_json()) if isinstance(found, CommonNegotiation) else []
        return [*common, *said.prices(found), said.checked(found)]

    @property
    def notes(self) -> list[str]:
        """What a reader should know beside the figures."""
        return [f"Note: {each}." for each in self.found.warnings] if isinstance(self.found, Negotiation) else []

    @property
    def caveat(self) -> str | None:
        """What gains rest on."""
        return said.CAVEAT if isinstance(self.found, Negotiation) else None

    def require_stated(self) -> None:
        """Refuse where what was asked for takes a deal, and an owner has not stated what it goes by."""
        if self.needs_deal:
            stated_values(self.terms)

    def require_deal(self) -> None:
        """Refuse where what was asked for takes a deal, and there is none."""
        self.require_stated()
        if self.needs_deal and isinstance(self.found, Negotiation):
            self.found.agreed_terms()


def bargain(
    terms: Terms,
    person: Person | None = None,
    pilot: str | None = None,
    target: float | None = None,
    balanced: bool = False,
    keep_own: bool = True,
    differences: Heterogeneity | None = None,
) -> NegotiationReport:
    """The budgets that these owners would choose; what joining saves them, where one has not stated what it goes by."""
    with (person or Nobody()).progress("running the pilot") as progress:
        if any(part.value is None or part.privacy_cost is None for part in terms.owners):
            progress.says("what joining saves")
            return NegotiationReport(terms, break_even(terms, pilot, differences=differences))
        given = terms, pilot, target, balanced
        return NegotiationReport(
            terms, negotiate(*given, keep_own=keep_own, differences=differences, doing=progress.says)
        )


def negotiate_terms(
    terms_file: Path,
    person: Person,
    *,
    pilot: Path | None = None,
    target: float | None = None,
    value: float | None = None,
    privacy_cost: float | None = None,
    balanced: bool = False,
    keep_own: bool = True,
    differences: str | None = None,
    write: Path | None = None,
    plot: Path | None = None,
    plot_owners: Path | None = None,
    report: Path | None = None,
) -> NegotiationReport:
    """Negotiate by a terms file, and write what was asked for; `value` and `privacy_cost` stand in for owners whose
    terms state none."""
    terms = load_terms(terms_file)
    drawn = [file for file in (plot, plot_owners) if file is not None]
    if drawn:
        from parley.report.figures import game_figures, picture  # a library that takes its time

        for file in drawn:
            picture.require_figure_name(file)
    if balanced and target is None:
        raise SettingError("--balanced: expected --target beside it; without a target nobody is paid")
    known, differ = None if pilot is None else str(pilot), read_differences(differences)
    terms = _stating(terms, value, privacy_cost)
    told = bargain(terms, person, known, target, balanced, keep_own, differ)
    if not isinstance(told.found, Negotiation):
        unstated = all(part.value is None or part.privacy_cost is None for part in terms.owners)
        return replace(told, needs_deal=bool(drawn) or not unstated or target is not None or write is not None)
    joined = told.found.relative_fitness is not None
    if write is not None and joined:
        write_terms(told.found.agreed_terms(), write)
    if plot is not None:
        picture.save(game_figures.negotiation_figure(told.found), plot)
    if plot_owners is not None:
        with person.progress("owners in growing numbers") as progress:
            many = equal_owners(terms, known, progress=progress, differences=differ)
        picture.save(game_figures.equal_owners(many.counts, many.payoff, many.fitness, many.like), plot_owners)
    if report is not None:
        from parley.report.pages.forecast_page import negotiation_page

        write_file(report, negotiation_page(told.found))
    return replace(told, needs_deal=write is not None, written=write if joined else None)


def _stating(terms: Terms, value: float | None, weight: float | None) -> Terms:
    """The terms, with what is said here for owners that state nothing themselves."""
    told: dict[str, dict[str, object]] = {}
    for part in terms.owners:
        own: dict[str, object] = {} if value is None or part.value is not None else {"value": value}
        if weight is not None and part.privacy_cost is None:
            own["privacy_cost"] = {"kind": "linear", "weight": weight}
        told |= {part.name: own} if own else {}
    return terms.changed(owners=told) if told else terms
