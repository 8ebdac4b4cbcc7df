"""Reports of a training here or with remote owners: tables and sentences, or one JSON object."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parley.decisions.knowledge.coding import coding_cost, coding_warning
from parley.decisions.outlook.outlook import Outlook
from parley.decisions.outlook.worth import Worth
from parley.errors import SettingError
from parley.learning.outcome import Result
from parley.learning.outcome.guarantee import guarantee, kind_of_run
from parley.report.sheet import BLANK_LINE, Finished, Grid, Line, Part, lines
from parley.report.words import training as words
from parley.report.words.forecast import baseline_line
from parley.report.words.terms_comments import PSI_COMMENT
from parley.terms.file import TermsWarning

if TYPE_CHECKING:
    from parley.learning.peers import PeerOutcome


@dataclass(frozen=True, eq=False)
class TrainReport:
    """The result of a run, beside its forecast."""

    result: Result
    expected: Worth | None  # by the public sample
    outlook: Outlook | None  # what the check before a release said of owners
    missed: Sequence[str] = ()  # that a simulation came out far above its forecast
    misnamed: Sequence[TermsWarning] = ()
    repeated: bool = False  # whether all answers were stored ones
    left: Sequence[str] = ()  # what was written and spent, and what comes next
    undrawn: bool = False  # whether a figure was asked for that there is none of

    @property
    def inside(self) -> bool:
        return not self.result.released

    def to_json(self) -> dict[str, Any]:
        """Return the result and, for each owner, the forecast of the release check."""
        coding = coding_cost(self.result.terms)
        content = self.result.to_json() | {
            "coding": None if coding is None else vars(coding),
            "baselines": None if self.expected is None else self.expected.to_json(),
            "repeated": self.repeated,
            "said": [
                *words.quality_lines(self.result),
                *self.missed,
                *(each.sentence for each in self.misnamed),
                *self.left,
            ],
        }
        if self.outlook is None:
            return content
        outlook_content = self.outlook.to_json()
        foreseen = {owner["name"]: owner for owner in outlook_content["owners"]}
        owners = [{**foreseen.get(owner["name"], {}), **owner} for owner in content["owners"]]
        return content | {"owners": owners, "consortium": outlook_content["consortium"]}

    def parts(self) -> Iterator[Part]:
        yield from (Line(kind_of_run(self.result), "italic", folded=True), BLANK_LINE)
        yield Grid(words.owner_rows(self.result), self.result.terms.title or "Owners")
        yield from lines([words.clip_line(self.result)], "dim")
        yield BLANK_LINE
        yield from self._quality()
        yield from (*intervals(self.result), *scores(self.result), *target(self.result), *notices(self.result))
        if self.expected is not None:
            line = baseline_line(self.expected)
            yield Line(f"According to the public sample: {line[0].lower()}{line[1:]}", folded=True)
        yield Line(guarantee(self.result), "dim", folded=True)
        runs = f"{self.result.replicates} run(s), {self.result.seconds:.1f} s"
        yield Line(f"terms {self.result.terms_hash[:16]}…   {runs}", "dim")
        yield from lines(self.missed, "yellow")
        if (unwise := coding_warning(self.result.terms)) is not None:
            yield Line(unwise, "yellow", aside=True)
        yield from lines(self.left)

    def _quality(self) -> Iterator[Part]:
        if self.result.quality is not None:
            yield Grid(words.quality_rows(self.result))
            why = words.undefined_line(self.result)
            yield Line(PSI_COMMENT, "dim", folded=True) if why is None else Line(why, "yellow")
            yield from lines([words.useless_line(self.result)], "yellow")
            yield BLANK_LINE
        if (stable := words.stable_line(self.result)) is not None:
            yield from (Grid(words.stable_rows(self.result), "What stable noise costs"), Line(stable, folded=True))
            yield BLANK_LINE

    def require_done(self) -> None:
        """Raise an error, at the end, if a requested figure is not defined."""
        if self.undrawn:
            why = self.result.relative_fitness_undefined
            raise SettingError(f"--plot: nothing was drawn, because relative fitness is undefined for this run: {why}")


@dataclass(frozen=True, eq=False)
class DeployedReport(Finished):
    """The result of a run with remote owners."""

    result: Result
    latency: Mapping[str, float | None]
    unheard: Sequence[str]

    inside = False

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley learner run --json` prints."""
        return self.result.to_json() | {"latency": dict(self.latency), "unheard": list(self.unheard)}

    def parts(self) -> Iterator[Part]:
        yield from (Line(kind_of_run(self.result), "italic", folded=True), BLANK_LINE)
        rows = words.remote_owner_rows(self.result, self.latency, self.unheard)
        yield from (Grid(rows, self.result.terms.title or "Owners"), BLANK_LINE)
        yield from (*intervals(self.result), *scores(self.result), *notices(self.result), *target(self.result))
        yield Line(guarantee(self.result), "dim", folded=True)
        if self.result.terms.model.holdout > 0:
            yield Line(
                "Each owner can test the model on its own held-out rows: parley score MODEL TERMS --owner NAME --data "
                "TABLE",
                "dim",
                folded=True,
            )
        yield Line(f"terms {self.result.terms_hash[:16]}…   {self.result.seconds:.1f} s", "dim")


@dataclass(frozen=True, eq=False)
class PeerReport(Finished):
    """The result at one owner of a run without a centre."""

    outcome: "PeerOutcome"

    inside = False

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley peer run --json` prints."""
        outcome = self.outcome
        return outcome.result.to_json() | {"owner": outcome.owner, "point": outcome.point.tolist()}

    def parts(self) -> Iterator[Part]:
        result = self.outcome.result
        yield from (Grid(words.ring_rows(result), result.terms.title or "Owners"), BLANK_LINE)
        yield from scores(result)
        yield from lines([words.consensus_line(result)], folded=True)
        yield from target(result)
        yield Line(words.ring_line(result, self.outcome.owner), "dim")
        yield Line(guarantee(result), "dim", folded=True)
        yield Line(f"terms {result.terms_hash[:16]}…   {result.seconds:.1f} s", "dim")


def intervals(result: Result) -> list[Part]:
    """Show the coefficients' intervals, if they were released."""
    if result.intervals is None:
        return []
    rows = Grid(words.interval_rows(result), "Coefficients, in the columns' own units")
    return [rows, Line(words.interval_line(result), "dim", folded=True), BLANK_LINE]


def scores(result: Result) -> list[Part]:
    """Show the released scores of the model's quality, if any."""
    return (
        [] if result.scores is None else [Grid(words.score_rows(result.scores), words.score_title(result)), BLANK_LINE]
    )


def target(result: Result) -> list[Line]:
    """Show which targets count as 1, if there are two classes."""
    return lines([result.model.preparation_.target_words], "dim", folded=True)


def notices(result: Result) -> list[Line]:
    """Show failed rounds, unexplained answers, and the distance between owners' own points."""
    notice_parts = lines([words.aborted_line(result)], "yellow", folded=True)
    notice_parts += lines(words.notice_lines(result), "yellow")
    return notice_parts + lines([words.consensus_line(result)], folded=True)
