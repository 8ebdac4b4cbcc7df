"""What training by terms would give, before any data moves; and, for an owner's own eyes, what its own rows say."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.data.sources import held_table
from parley.decisions.knowledge.privacy_cost import price_note
from parley.decisions.outlook.forecast import Forecast, forecast
from parley.decisions.outlook.inside_view import InsideView, inside_view
from parley.decisions.outlook.remedies import compare_noise, remedies
from parley.decisions.planning.planner import Proposal, plan, require_rounds
from parley.durable import write_file
from parley.errors import SettingError
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.owner.owner import Owner
from parley.report.words.forecast import remedy_line
from parley.report.words.outlook import verdict_sentence
from parley.terms import load_terms, write_terms
from parley.terms.file import NOTES
from parley.workflows.assumptions import Assumed, read_speeds
from parley.workflows.person import Person


@dataclass(frozen=True, eq=False)
class ForecastReport:
    """What a forecast comes to, with the plan where one was asked for."""

    result: Forecast
    verdict: tuple[str, ...]  # the sentences that come first
    content: Mapping[str, Any]
    proposal: Proposal | None

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --json` prints."""
        return dict(self.content)

    def require_choice(self) -> None:
        """Refuse a plan that chose nothing: the job was not done."""
        if self.proposal is not None:
            self.proposal.require_choice()


def forecast_terms(
    terms_file: Path,
    person: Person,
    known: Assumed,
    *,
    speeds: str | None = None,
    seed: int = 0,
    planned: bool = False,
    delta: float | None = None,
    write: Path | None = None,
    plot: Path | None = None,
    report: Path | None = None,
    track: Path | None = None,
) -> ForecastReport:
    """Forecast the joint model of a terms file from public knowledge, and write what was asked for."""
    terms = load_terms(terms_file)
    paces = read_speeds(terms, speeds)
    if plot is not None:
        from parley.report.figures import picture  # a library that takes its time

        picture.require_figure_name(plot)
    if (delta is not None or write is not None) and not planned:
        raise SettingError("--delta, --write: expected --plan beside them")
    if planned:
        require_rounds(terms)
    source, differ = known.read()
    with person.progress("reading the pilot") as progress:
        result = forecast(terms, source, seed, differences=differ, progress=progress, doing=progress.says, speeds=paces)
        progress.says("weighing coalitions, looking for break-even budgets")
        content = result.to_json()
        progress.says("comparing kinds of noise")
        compared = compare_noise(result)
        noise = compared.to_json()
        progress.says("looking for terms that would be worth it")
        settled = result.verdict.verdict == "join" or len(terms.owners) < 2
        better = None if settled else remedies(result, compared)
        progress.says("planning")
        proposal = plan(terms, source, delta, seed, progress=progress) if planned else None
        told = None if proposal is None else proposal.to_json()
    verdict = [verdict_sentence(result.outlook)]
    if better is not None:
        verdict.append(remedy_line(better, "join" in result.outlook.verdicts, len(terms.owners)))
    content |= {"sentences": verdict, "would_join": None if better is None else better.to_json()}
    if write is not None and proposal is not None and proposal.best is not None:
        write_terms(proposal.terms, write, notes=NOTES)
    if plot is not None:
        from parley.report.pages.forecast_page import fitness_figure

        picture.save(fitness_figure(result), plot)
    if report is not None:
        from parley.report.pages.forecast_page import forecast_page

        write_file(report, forecast_page(result, noise, verdict, proposal, told))
    if track is not None:
        from parley.report.tracking import tracked_forecast, write_run

        write_run(tracked_forecast(result, "parley forecast", seed), track)
    return ForecastReport(result, tuple(verdict), content | {"noise": noise, "plan": told}, proposal)


@dataclass(frozen=True)
class InsideReport:
    """What joining would add by an owner's own rows: for its own eyes, computed from private rows without noise."""

    view: InsideView
    terms_hash: str

    def to_json(self) -> dict[str, Any]:
        """The object that `parley forecast --inside --json` prints."""
        return self.view.to_json() | {"terms_hash": self.terms_hash}


def look_inside(
    terms_file: Path,
    table: Path,
    owner: str,
    person: Person,
    known: Assumed,
    *,
    seed: int = 0,
    worth: float | None = None,
) -> InsideReport:
    """What joining would add for one owner by its own rows; `worth`: the share of what own rows cost alone that it must
    save, beside what its privacy costs by the terms."""
    terms = load_terms(terms_file)
    source, differ = known.read()
    if (note := price_note(terms, owner)) is not None:
        person.warn(f"Note: {note}.")
    with person.progress("own rows, judged") as progress:
        least = LEAST_GAIN if worth is None else worth
        view = inside_view(terms, Owner(owner, held_table(table)), source, seed, least, differ, progress)
    return InsideReport(view, terms.hash)
