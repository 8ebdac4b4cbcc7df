"""Terms that spend the same budgets best, and the public numbers that terms pin."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.decisions.knowledge.coding import coding_warning
from parley.decisions.outlook.forecast import forecast
from parley.decisions.planning.planner import Proposal, plan
from parley.errors import SettingError
from parley.protocol.setup import pin
from parley.report.sheet import BLANK_LINE, Finished, Grid, Line, Part, lines
from parley.report.words import forecast as said
from parley.report.words.noise import plan_beside
from parley.report.words.outlook import verdict_sentence
from parley.report.words.terms_comments import PSI_COMMENT, planned_line, without_plan
from parley.terms import load_terms, write_terms
from parley.terms.file import KEY_NOTES, head_of
from parley.workflows.assumptions import Assumed
from parley.workflows.person import Person


def pins_beside(terms_file: Path) -> Path:
    """Return the file for the numbers that terms in this file pin."""
    return terms_file.with_suffix(".preparation.json")


@dataclass(frozen=True, eq=False)
class PlanReport:
    """The planner's choice, its worth, and the file it was written to."""

    proposal: Proposal
    content: Mapping[str, Any]
    verdict: str | None = None  # None: nothing was chosen
    written: Path | None = None
    pinned: Path | None = None

    inside = False

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that `parley plan --json` prints."""
        return {**self.content, "written": None if self.written is None else str(self.written)}

    def parts(self) -> Iterator[Part]:
        yield from plan_parts(self.proposal, self.written is not None)
        yield from (*lines([self.verdict]), Line(PSI_COMMENT, "dim", folded=True))
        yield from lines(plan_beside(self.content), folded=True)
        if (coding := coding_warning(self.proposal.terms)) is not None:
            yield Line(coding, "yellow", aside=True)
        if self.written is not None:
            yield Line(f"\n{self.written}  the planned terms. Next: parley train {self.written}", "dim")
        if self.pinned is not None:
            yield Line(
                f"{self.pinned}  public numbers pinned by the planned terms: send this file with the terms", "dim"
            )

    def require_done(self) -> None:
        """Refuse a plan that chose nothing."""
        self.proposal.require_choice()


def plan_parts(proposal: Proposal, written: bool = False) -> list[Part]:
    """Show the planner's candidates, and the lines to put into the terms unless they were `written`."""
    bold = None if proposal.best is None else proposal.choices.index(proposal.best)
    return [
        *(BLANK_LINE, Grid(said.plan_rows(proposal), said.PLAN_TITLE, bold), BLANK_LINE),
        Line(said.plan_advice(proposal, written), folded=True),
        Line(said.plan_rests_on(proposal), "dim"),
        *lines(said.unjudged_lines(proposal), "yellow"),
    ]


def plan_terms(
    terms_file: Path,
    person: Person,
    known: Assumed,
    *,
    delta: float | None = None,
    write: Path | None = None,
    seed: int = 0,
) -> PlanReport:
    """Plan how to spend the budgets of a terms file best, and write terms that do so."""
    terms = load_terms(terms_file)
    source, differ = known.read()
    with person.progress("planning") as progress:
        proposal = plan(terms, source, delta, seed, progress=progress)
        progress.says("forecasting the model's worth to each owner")
        expected = None if proposal.best is None else forecast(proposal.terms, source, seed, differences=differ)
        content = proposal.to_json() | ({} if expected is None else expected.headline_json())
    if expected is None:
        return PlanReport(proposal, content)
    verdict = verdict_sentence(expected.outlook)
    if write is None:
        return PlanReport(proposal, content, verdict)
    made, pinned = proposal.terms, None
    if terms.model.preparation is not None and made.model.preparation is None:
        # it reads columns in another way, or the terms were edited since they were pinned
        pinned = pins_beside(write)
        made = pin(made, pinned)
    write_terms(made, write, [*without_plan(head_of(terms_file)), planned_line(proposal)], KEY_NOTES)
    return PlanReport(proposal, content | {"terms_hash": made.hash}, verdict, write, pinned)


@dataclass(frozen=True)
class PinReport(Finished):
    """Terms that pin their public numbers."""

    written: Path
    pinned: Path
    terms_hash: str

    inside = False

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that `parley pin --json` prints."""
        return {"written": str(self.written), "pinned": str(self.pinned), "terms_hash": self.terms_hash}

    def parts(self) -> Iterator[Part]:
        yield Line(f"{self.written}  the terms, which pin public numbers: terms {self.terms_hash[:16]}…")
        yield Line(f"{self.pinned}  the public numbers: send this file with the terms")


def pin_terms(terms_file: Path, write: Path) -> PinReport:
    """Compute the public numbers of a terms file once for everybody, and write terms that pin them."""
    terms = load_terms(terms_file)
    if terms.model.public is None and terms.model.basis is None:
        raise SettingError(
            f"{terms_file}: nothing to pin. Without model.public and model.basis, the terms already state every number"
        )
    file = pins_beside(write)
    pinned = pin(terms, file)
    write_terms(pinned, write, notes=KEY_NOTES)
    return PinReport(write, file, pinned.hash)
