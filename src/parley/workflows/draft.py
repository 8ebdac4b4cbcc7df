"""From files to planned terms: check and ask for wishes, draft, plan, forecast, write."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parley.data.public_numbers import depends_on_machine
from parley.data.sources import open_table
from parley.data.sources.source import column_names
from parley.decisions.from_files.column_dates import AmbiguousDatesError
from parley.decisions.from_files.known_columns import Wishes
from parley.decisions.from_files.terms_from_files import Draft, draft, planned
from parley.decisions.outlook.forecast import Forecast
from parley.errors import ParleyError, SettingError
from parley.owner.warnings import budget_warning, unnamed_people_warning
from parley.protocol.setup import pin
from parley.report.sheet import Finished, Line, Part, lines
from parley.report.words.noise import plan_beside
from parley.report.words.outlook import verdict_sentence
from parley.report.words.terms_comments import (
    PSI_COMMENT,
    columns_line,
    head_lines,
    lifetime_line,
    next_steps,
    with_hosts,
)
from parley.tasks.statistics.column_statistics.run import NOBODY_ASKED, require_learnable
from parley.terms import Terms, write_terms
from parley.terms.file import KEY_NOTES
from parley.validate import printable
from parley.workflows.forecast import foresee
from parley.workflows.interview import (
    ALWAYS_ASKED_OPTIONS,
    asked_columns,
    asked_dates,
    asked_wishes,
    typed_wishes,
    unsaid_columns,
    with_usual,
)
from parley.workflows.person import Person
from parley.workflows.plan import pins_beside, plan_parts


@dataclass(frozen=True, eq=False)
class DraftReport(Finished):
    """The terms that were drafted, planned and written, and their worth."""

    made: Draft
    plan: Mapping[str, Any] | None  # None: they wait for statistics
    expected: Forecast | None  # None: nothing can be forecast of them
    written: Path
    pinned: Path | None

    inside = False

    def to_json(self) -> Mapping[str, Any]:
        """Return the object that `parley init --json` prints."""
        places = {"written": str(self.written), "pinned": None if self.pinned is None else str(self.pinned)}
        tried = [each.to_json() for each in self.made.tried]
        content = {
            "terms_hash": self.made.terms.hash,
            "said": list(self.made.said),
            "columns": tried,
            "plan": self.plan,
        }
        return places | content | ({} if self.expected is None else self.expected.headline_json())

    def parts(self) -> Iterator[Part]:
        made = self.made
        yield from lines(made.said, folded=True)
        if len(made.tried) > 1:
            yield Line(columns_line(made.tried), folded=True)
        if made.proposal is not None and self.plan is not None:
            yield from (*plan_parts(made.proposal, written=True), Line(PSI_COMMENT, "dim", folded=True))
            yield from lines(plan_beside(self.plan), folded=True)
        if self.expected is not None:
            yield Line(f"\n{verdict_sentence(self.expected.outlook)}", "bold")
        yield from lines(with_hosts(made), folded=True)
        yield Line(f"\n{self.written}  the terms: read this file before any owner accepts the terms")
        if self.pinned is not None:
            yield Line(f"{self.pinned}  public numbers pinned by the terms: send this file with the terms")
        for line in (lifetime_line(made), "Next:", *next_steps(made, self.written, self._stays)):
            yield Line(line, "dim", aside=True)

    @property
    def _stays(self) -> bool:
        """Whether the forecast says that nobody gains by joining."""
        return self.expected is not None and self.expected.outlook.consortium.verdict == "stay"


def draft_terms(
    files: Sequence[Path],
    write: Path,
    person: Person,
    typed: Mapping[str, Any],
    *,
    asks: bool = True,
    anyway: bool = False,
    seed: int = 0,
    taken: Sequence[Path] = (),
) -> DraftReport:
    """Draft terms for the owners of these files and write them. `typed` holds the options of `parley init` by name; if
    one is None and `asks` is true, the person is asked. Folders `taken` from a database are removed if drafting fails.
    """
    with _gone_unless_drafted(taken):
        if write.exists() and any(write.samefile(file) for file in (*files, typed["public"]) if file and file.exists()):
            raise SettingError(f"{write}: this file is one of the tables; name another file for the terms")
        wishes, unsaid = typed_wishes(typed), [key for key in ALWAYS_ASKED_OPTIONS if typed[key] is None]
        if not files and not (wishes.owners and wishes.public):
            raise SettingError(
                "FILES: expected at least one private table, --uri, or --public FILE with --owner NAME=RECORDS for "
                "every owner"
            )
        wishes = with_usual(files, wishes, unsaid)
        wishes = asked_wishes(files, wishes, unsaid, person) if asks else wishes
        drafted = draft_to_learn_by(files, wishes, person, asks, anyway)
    with person.progress("planning") as progress:
        made = planned(drafted, seed, progress)
        plan = None if made.proposal is None else made.proposal.to_json()
        progress.says("forecasting the model's worth to each owner")
        expected = None
        with suppress(ParleyError):  # not everything can be forecast
            expected = foresee(made.terms, seed)
    weak_budget = budget_warning(made.terms, [part.name for part in made.terms.owners])
    unnamed = unnamed_people_warning(column_names(open_table(files[0]).example) if files else (), made.terms)
    for warning in (weak_budget, unnamed):
        if warning is not None:
            person.warn(warning.line)
    made, pinned = pinned_beside(made, write)
    write_terms(made.terms, write, head_lines(made), KEY_NOTES)
    return DraftReport(made, plan, expected, write, pinned)


@contextmanager
def _gone_unless_drafted(taken: Sequence[Path]) -> Iterator[None]:
    """Remove folders that were taken from a database if drafting fails, so that it can be repeated."""
    try:
        yield
    except ParleyError:
        for folder in taken:
            shutil.rmtree(folder)
        raise


def draft_to_learn_by(files: Sequence[Path], wishes: Wishes, person: Person, asks: bool, anyway: bool) -> Draft:
    """Draft terms that `parley column-stats` will not refuse; if it would, ask for more about columns."""
    while True:
        try:
            drafted = draft(files, wishes)
        except AmbiguousDatesError as error:
            if not asks:
                raise
            wishes = asked_dates(error, wishes, person)
            continue
        why = _why_unlearnable(drafted.terms, anyway)
        if why is None:
            return drafted
        unsaid = unsaid_columns(drafted.terms)
        refused = f"{why} No range or names are stated for these columns: {', '.join(map(printable, unsaid))}."
        more = wishes
        if asks:
            person.warn(refused)
            more = asked_columns(unsaid, wishes, person)
        if more == wishes:
            helps = " (--force writes them)" if _why_unlearnable(drafted.terms, anyway=True) is None else ""
            raise SettingError(
                f"{refused} Declare all these columns with --bounds COLUMN=LOW,HIGH or --categories COLUMN=A,B,C, so "
                "that no owner needs to be asked. Alternatively, drop columns with --features, or give a larger "
                f"--epsilon. No terms were written{helps}"
            )
        wishes = more


def _why_unlearnable(terms: Terms, anyway: bool) -> str | None:
    """Return why `parley column-stats` would refuse these terms; None if it would not, or is not needed."""
    if terms.privacy.scale_epsilon is None:
        return None
    try:
        require_learnable(terms, anyway=anyway)
    except SettingError as error:
        return str(error).partition(f" {NOBODY_ASKED}")[0]
    return None


def pinned_beside(made: Draft, write: Path) -> tuple[Draft, Path | None]:
    """Pin public numbers beside the terms, if machines may compute different ones."""
    if made.terms.privacy.scale_epsilon is not None or not depends_on_machine(made.terms.model):
        return made, None
    path = pins_beside(write)
    return replace(made, terms=pin(made.terms, path)), path
