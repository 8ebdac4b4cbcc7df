"""Forecasts of training by terms, before any data moves, and an owner's inside view of its own rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.data.sources import held_table
from parley.decisions.knowledge.coding import coding_warning
from parley.decisions.knowledge.privacy_cost import price_note
from parley.decisions.outlook.forecast import Forecast, forecast
from parley.decisions.outlook.inside_view import InsideView, inside_view
from parley.decisions.outlook.remedies import compare_noise, remedies
from parley.decisions.planning.noise_terms import kind_of
from parley.decisions.planning.planner import Proposal, plan, require_rounds
from parley.durable import require_store, write_file
from parley.errors import SettingError
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.owner.owner import Owner
from parley.protocol.task import task_of
from parley.report.sheet import BLANK_LINE, Finished, Grid, Line, Part, Report, lines
from parley.report.words import forecast as said
from parley.report.words import noise as kinds
from parley.report.words import outlook as outlook_words
from parley.terms import Terms, load_terms, write_terms
from parley.terms.file import KEY_NOTES
from parley.workflows.assumptions import Assumed, read_speeds
from parley.workflows.person import Person
from parley.workflows.plan import plan_parts


@dataclass(frozen=True, eq=False)
class ForecastReport:
    """A forecast, with a plan if one was requested."""

    result: Forecast
    verdict: Sequence[str]  # what comes first, and what would change it
    content: Mapping[str, Any]
    proposal: Proposal | None
    details: bool  # whether all else is shown, too

    inside = False

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that `parley forecast --json` prints."""
        return self.content

    def parts(self) -> Iterator[Part]:
        result, (first, *others) = self.result, self.verdict
        yield from (Line(first, "bold"), BLANK_LINE)
        if len(result.terms.owners) > 1:
            yield Grid(outlook_words.gain_rows(result.outlook), outlook_words.GAIN_TITLE)
        else:
            yield Line(said.baseline_line(result.worth, result.expected_cost), folded=True)
        if not self.details or len(result.terms.owners) == 1:
            yield from lines(said.verdict_lines(result), "bold yellow", folded=True)
        yield from (Line(f"\n{sentence}") for sentence in others)
        yield from lines([f"Note: {warning}." for warning in result.warnings], "yellow", folded=True)
        if (coding := coding_warning(result.terms)) is not None:
            yield Line(coding, "yellow", aside=True)
        if (hint := outlook_words.inside_hint(result.outlook)) is not None:
            yield Line(f"\n{hint}")
        if self.details:
            yield from self._details()
        else:
            yield Line("More: --details", "dim")
        if self.proposal is not None:
            yield from plan_parts(self.proposal)
            yield from lines(kinds.plan_beside(self.content["plan"]), folded=True)

    def _details(self) -> Iterator[Part]:
        result, noise, kind = self.result, self.content["noise"], kind_of(self.result.terms)
        yield Line(f"\n{said.headline(result)}", "bold", folded=True)
        yield from lines(said.details(result), "dim", folded=True)
        yield Line(said.baseline_line(result.worth, result.expected_cost), folded=True)
        yield from lines(said.verdict_lines(result), "bold yellow", folded=True)
        yield from (BLANK_LINE, Grid(said.owner_rows(result), said.owner_title(result)))
        yield Line(f"\n{said.assumption(result)}", "dim")
        if (without := said.better_without(result)) is not None:
            yield Line(f"\n{without}", folded=True)
        rows = kinds.kind_rows(noise, result.terms.noise.paired)
        yield from (Line(said.SCORING_HINT, "dim", folded=True), BLANK_LINE, Grid(rows, kinds.TITLE))
        yield Line(f"\n{kinds.decision(noise, kind)}", folded=True)
        if kind == "two_hosts":
            yield Line(kinds.two_hosts(len(result.terms.owners)), folded=True)

    def require_done(self) -> None:
        """Refuse a plan that chose nothing."""
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
    details: bool = False,
) -> Report:
    """Forecast a terms file from public knowledge and write the requested files; wings may have their own way."""
    terms = load_terms(terms_file)
    paces = read_speeds(terms, speeds)
    require_store(track)
    if (own := task_of(terms).command("forecast")) is not None:
        for option, given in {"--track": track, "--report": report, "--plot": plot}.items():
            if given is not None:
                raise SettingError(f"{option}: not available for the task {terms.task}; --json prints the figures")
        wings: Report = own(terms, known.pilot)
        return wings
    if plot is not None:
        from parley.report.figures import picture  # a library that is slow to load

        picture.require_figure_name(plot)
    if (delta is not None or write is not None) and not planned:
        raise SettingError("--delta, --write: allowed only with --plan")
    if planned:
        require_rounds(terms)
    source, differ = known.read()
    with person.progress("reading the pilot") as progress:
        result = forecast(terms, source, seed, differences=differ, progress=progress, doing=progress.says, speeds=paces)
        progress.says("comparing coalitions, searching for break-even budgets")
        content = result.to_json()
        progress.says("comparing kinds of noise")
        compared = compare_noise(result)
        noise = compared.to_json()
        progress.says("searching for terms that owners would join")
        settled = result.verdict.verdict == "join" or len(terms.owners) < 2
        better = None if settled else remedies(result, compared)
        progress.says("planning")
        proposal = plan(terms, source, delta, seed, progress=progress) if planned else None
        plan_content = None if proposal is None else proposal.to_json()
    verdict = [outlook_words.verdict_sentence(result.outlook)]
    if better is not None:
        verdict.append(
            said.remedy_line(better, "join" in result.outlook.verdicts, len(terms.owners), terms.noise.paired)
        )
    content |= {"sentences": verdict, "would_join": None if better is None else better.to_json()}
    if write is not None and proposal is not None and proposal.best is not None:
        write_terms(proposal.terms, write, notes=KEY_NOTES)
    if plot is not None:
        from parley.report.pages.forecast_page import fitness_figure

        picture.save(fitness_figure(result), plot)
    if report is not None:
        from parley.report.pages.forecast_page import forecast_page

        write_file(report, forecast_page(result, noise, verdict, proposal, plan_content))
    if track is not None:
        from parley.report.tracking import tracked_forecast, write_run

        write_run(tracked_forecast(result, "parley forecast", seed), track)
    return ForecastReport(result, verdict, content | {"noise": noise, "plan": plan_content}, proposal, details)


def _ignore(*_: object) -> None:
    pass


def foresee(
    terms: Terms, seed: int = 0, progress: Callable[..., None] = _ignore, doing: Callable[[str], None] = _ignore
) -> Forecast:
    """Forecast terms from their own public sample; raise an error if their wing has its own forecast."""
    if task_of(terms).command("forecast") is not None:
        raise SettingError(f"the task {terms.task} has its own forecast: run parley forecast")
    return forecast(terms, seed=seed, progress=progress, doing=doing)


@dataclass(frozen=True)
class InsideReport(Finished):
    """What joining would add by an owner's own rows: for its own eyes, computed from private rows without noise."""

    view: InsideView
    terms_hash: str

    inside = True

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that `parley forecast --inside --json` prints."""
        return self.view.to_json() | {"terms_hash": self.terms_hash}

    def parts(self) -> Iterator[Part]:
        first, *others = outlook_words.inside_sentences(self.view)
        yield from (Line(first, "bold"), BLANK_LINE, Grid(outlook_words.inside_rows(self.view)))
        yield from (Line(f"\n{sentence}") for sentence in others)
        yield Line(KEEP_INSIDE_NOTE, "dim", folded=True)


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
    """Return what joining would add by one owner's own rows; `worth`: the least saving, as a share of cost alone."""
    terms = load_terms(terms_file)
    if task_of(terms).command("forecast") is not None:
        raise SettingError(f"--inside: not available for the task {terms.task}; --json prints the figures")
    source, differ = known.read()
    if (note := price_note(terms, owner)) is not None:
        person.warn(f"Note: {note}.")
    with person.progress("own rows, judged") as progress:
        min_gain = LEAST_GAIN if worth is None else worth
        view = inside_view(terms, Owner(owner, held_table(table)), source, seed, min_gain, differ, progress)
    return InsideReport(view, terms.hash)
