"""The budgets that rational owners would choose by terms, or break-even values for owners that stated none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parley.decisions.games.break_even import BreakEvens, break_even, equal_owners
from parley.decisions.games.negotiate import CommonNegotiation, Negotiation, negotiate, stated_values
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.durable import write_file
from parley.errors import SettingError
from parley.report.sheet import BLANK_LINE, Grid, Line, Part, lines
from parley.report.words import negotiation as said
from parley.report.words import noise as kinds
from parley.report.words.outlook import verdict_sentence
from parley.terms import Terms, load_terms, write_terms
from parley.workflows.assumptions import read_differences
from parley.workflows.person import Nobody, Person


@dataclass(frozen=True, eq=False)
class NegotiationReport:
    """The result of a negotiation; break-even values if an owner has not stated its value and privacy cost."""

    terms: Terms
    found: Negotiation | BreakEvens
    needs_deal: bool = False  # whether what was asked for takes one
    written: Path | None = None

    inside = False

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that `parley negotiate --json` prints."""
        self._require_stated()
        return self.found.to_json()

    @property
    def headline(self) -> str:
        """The agreed model's quality; without one, whether joining is worth it."""
        found = self.found
        return said.headline(found) if isinstance(found, Negotiation) else verdict_sentence(found.outlook)

    @property
    def table(self) -> Grid:
        """Each owner's budget, or what it would choose, or what joining saves it."""
        found = self.found
        if isinstance(found, BreakEvens):
            return Grid(said.break_even_rows(found.owners), said.BREAK_EVEN_TITLE)
        if not found.deal.members.any():
            return Grid(said.wish_rows(found), said.wishes_title(found))
        return Grid(said.owner_rows(found), said.title(found))

    @property
    def sentences(self) -> list[str]:
        """The costs; without a deal, what would move owners."""
        found = self.found
        if isinstance(found, BreakEvens):
            return [said.UNSTATED_NOTE, said.break_even_line(found.owners)]
        return said.prices(found) if found.deal.members.any() else said.moves(found)

    @property
    def notes(self) -> list[str]:
        """Warnings and the caveat for the reader."""
        if isinstance(self.found, BreakEvens):
            return []
        return [*(f"Note: {each}." for each in self.found.warnings), said.INTERPOLATION_NOTE]

    def parts(self) -> Iterator[Part]:
        yield from (Line(self.headline, "bold"), BLANK_LINE, self.table, BLANK_LINE)
        joined = isinstance(self.found, Negotiation) and self.found.deal.members.any()
        if isinstance(self.found, Negotiation) and self.found.truthful is not None:
            yield from (Grid(said.truthful_rows(self.found), said.TRUTHFUL), BLANK_LINE)
            yield from (*lines(said.truthful_lines(self.found), folded=True), BLANK_LINE)
        if isinstance(self.found, CommonNegotiation) and joined:
            content = self.found.to_json()
            yield from (Grid(kinds.preference_rows(content), kinds.preferences_title(content)), BLANK_LINE)
            yield from lines(kinds.weakest_link(content), folded=True)
        yield from lines(self.sentences)
        if isinstance(self.found, Negotiation):
            yield from lines([said.checked(self.found)] if joined else [], "dim", folded=True)
            yield from lines(self.notes[:-1], "yellow", folded=True)
            yield Line(self.notes[-1], "dim", folded=True)
        if self.written is not None:
            yield Line(f"\nNext: parley train {self.written}", "dim")

    def _require_stated(self) -> None:
        if self.needs_deal:
            stated_values(self.terms)

    def require_done(self) -> None:
        """Raise an error if the request needs a deal and there is none."""
        self._require_stated()
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
    truthful: bool = False,
    max_price: float | None = None,
) -> NegotiationReport:
    """Return the owners' chosen budgets; or what joining saves them, if one has not stated its value and cost."""
    with (person or Nobody()).progress("running the pilot") as progress:
        if any(part.value is None or part.privacy_cost is None for part in terms.owners):
            progress.says("what joining saves")
            return NegotiationReport(terms, break_even(terms, pilot, differences=differences))
        found = negotiate(
            terms,
            pilot,
            target,
            balanced,
            keep_own=keep_own,
            differences=differences,
            doing=progress.says,
            truthful=truthful,
            max_price=max_price,
        )
        return NegotiationReport(terms, found)


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
    truthful: bool = False,
    max_price: float | None = None,
    write: Path | None = None,
    plot: Path | None = None,
    plot_owners: Path | None = None,
    report: Path | None = None,
) -> NegotiationReport:
    """Negotiate a terms file and write files; `value` and `privacy_cost` fill in for owners that state none."""
    terms = load_terms(terms_file)
    drawn = [file for file in (plot, plot_owners) if file is not None]
    if drawn:
        from parley.report.figures import game_figures, picture  # a library that is slow to load

        for file in drawn:
            picture.require_figure_name(file)
    if balanced and target is None:
        raise SettingError("--balanced: allowed only with --target; without a target nobody is paid")
    known, differ = None if pilot is None else str(pilot), read_differences(differences)
    terms = _with_stated_values(terms, value, privacy_cost)
    report_so_far = bargain(terms, person, known, target, balanced, keep_own, differ, truthful, max_price)
    if not isinstance(report_so_far.found, Negotiation):
        unstated = all(part.value is None or part.privacy_cost is None for part in terms.owners)
        asked = bool(drawn) or truthful or target is not None or write is not None
        return replace(report_so_far, needs_deal=asked or not unstated)
    joined = bool(report_so_far.found.agreed_budgets)
    if write is not None and joined:
        write_terms(report_so_far.found.agreed_terms(), write)
    if plot is not None:
        picture.save(game_figures.negotiation_figure(report_so_far.found), plot)
    if plot_owners is not None:
        with person.progress("comparing numbers of owners") as progress:
            many = equal_owners(terms, known, progress=progress, differences=differ)
        picture.save(game_figures.equal_owners(many.counts, many.payoff, many.fitness, many.like), plot_owners)
    if report is not None:
        from parley.report.pages.forecast_page import negotiation_page

        write_file(report, negotiation_page(report_so_far.found))
    return replace(report_so_far, needs_deal=write is not None, written=write if joined else None)


def _with_stated_values(terms: Terms, value: float | None, weight: float | None) -> Terms:
    stated_owners: dict[str, dict[str, object]] = {}
    for part in terms.owners:
        own: dict[str, object] = {} if value is None or part.value is not None else {"value": value}
        if weight is not None and part.privacy_cost is None:
            own["privacy_cost"] = {"kind": "linear", "weight": weight}
        stated_owners |= {part.name: own} if own else {}
    return terms.changed(owners=stated_owners) if stated_owners else terms
