"""The terms that spend the same budgets best, and the public numbers that terms pin."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parley.decisions.outlook.forecast import Forecast, forecast
from parley.decisions.planning.planner import Proposal, plan
from parley.errors import SettingError
from parley.protocol.setup import pin
from parley.report.words.outlook import verdict_sentence
from parley.report.words.terms_comments import planned_line, without_plan
from parley.terms import load_terms, write_terms
from parley.terms.file import NOTES, head_of
from parley.workflows.assumptions import Assumed
from parley.workflows.person import Person


def pins_beside(terms_file: Path) -> Path:
    """Where the numbers lie that terms written to this file pin."""
    return terms_file.with_suffix(".preparation.json")


@dataclass(frozen=True, eq=False)
class PlanReport:
    """What the planner chose, what that is worth, and where it was written."""

    proposal: Proposal
    expected: Forecast | None  # None: nothing was chosen
    content: dict[str, Any]
    verdict: str | None
    written: Path | None = None
    pinned: Path | None = None

    def to_json(self) -> dict[str, Any]:
        """The object that `parley plan --json` prints."""
        return self.content | {"written": None if self.written is None else str(self.written)}

    def require_choice(self) -> None:
        """Refuse a plan that chose nothing: the job was not done."""
        self.proposal.require_choice()


def plan_terms(
    terms_file: Path,
    person: Person,
    known: Assumed,
    *,
    delta: float | None = None,
    write: Path | None = None,
    seed: int = 0,
) -> PlanReport:
    """Choose how the budgets of a terms file are spent best, and write terms that spend them so."""
    terms = load_terms(terms_file)
    source, differ = known.read()
    with person.progress("planning") as progress:
        proposal = plan(terms, source, delta, seed, progress=progress)
        progress.says("what it is worth to each owner")
        expected = None if proposal.best is None else forecast(proposal.terms, source, seed, differences=differ)
        content = proposal.to_json() | ({} if expected is None else expected.headline_json())
    if expected is None:
        return PlanReport(proposal, None, content, None)
    verdict = verdict_sentence(expected.outlook)
    if write is None:
        return PlanReport(proposal, expected, content, verdict)
    made, pinned = proposal.terms, None
    if terms.model.preparation is not None and made.model.preparation is None:
        # it reads columns in another way, or the terms were edited since they were pinned
        pinned = pins_beside(write)
        made = pin(made, pinned)
    write_terms(made, write, [*without_plan(head_of(terms_file)), planned_line(proposal)], NOTES)
    return PlanReport(proposal, expected, content | {"terms_hash": made.hash}, verdict, write, pinned)


@dataclass(frozen=True)
class PinReport:
    """Terms that pin their public numbers."""

    written: Path
    pinned: Path
    terms_hash: str

    def to_json(self) -> dict[str, Any]:
        """The object that `parley pin --json` prints."""
        return {"written": str(self.written), "pinned": str(self.pinned), "terms_hash": self.terms_hash}


def pin_terms(terms_file: Path, write: Path) -> PinReport:
    """Find the public numbers that a terms file leads to, once for everybody, and write terms that pin them."""
    terms = load_terms(terms_file)
    if terms.model.public is None and terms.model.basis is None:
        raise SettingError(
            f"{terms_file}: nothing to pin. Without a public sample or a basis, the terms state every number themselves"
        )
    file = pins_beside(write)
    pinned = pin(terms, file)
    write_terms(pinned, write, notes=NOTES)
    return PinReport(write, file, pinned.hash)
