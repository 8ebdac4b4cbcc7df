"""What commands print, as tables and sentences for a notebook."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from parley.decisions.from_files.terms_from_files import Draft
from parley.decisions.games.negotiate import Negotiation
from parley.decisions.outlook.forecast import Forecast
from parley.decisions.planning.planner import Proposal
from parley.errors import SettingError
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE, guarantee, kind_of_run
from parley.learning.outcome.result import Result
from parley.learning.outcome.verdict import Verdict
from parley.numerals import number
from parley.privacy.events import Adjacency
from parley.protocol.task import task_of
from parley.report.words import forecast as foreseen
from parley.report.words import negotiation as agreed
from parley.report.words import training as trained
from parley.report.words import verdict as judged
from parley.report.words.outlook import gain_rows, meaning_words, verdict_sentence
from parley.terms import Terms
from parley.terms.sections import OWNER_UNIT
from parley.validate import upper

Rows = Sequence[Sequence[str]]
MAX_EXPLAINED_EPSILONS = 8  # different epsilons that are put into words


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """A headline, a table whose first row is its head, and sentences; notebooks render it, programs print text."""

    headline: str
    rows: Rows = ()
    sentences: Sequence[str] = ()

    def __str__(self) -> str:
        """All of it as plain text."""
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)] if self.rows else []
        table = [
            "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(pairs))
            for pairs in ([*zip(row, widths, strict=True)] for row in self.rows)
        ]
        return "\n".join([self.headline, "", *table, *([""] if table else []), *self.sentences]).rstrip()

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        """Return Markdown in which names chosen by others are escaped."""
        parts = [f"**{_plain(self.headline)}**"]
        if self.rows:
            head, *body = (f"| {' | '.join(map(_plain, row))} |" for row in self.rows)
            rule = "|".join([":--", *["--:"] * (len(self.rows[0]) - 1)])
            parts.append("\n".join([head, f"|{rule}|", *body]))
        parts += [f"```\n{line}\n```" if "\n" in line else _plain(line) for line in self.sentences]
        return "\n\n".join(parts)


def summary(thing: Any) -> Summary:
    """Return what a command prints about its outcome, as a table and sentences.

    Parameters
    ----------
    thing
        Terms, or what `draft_terms`, `forecast`, `plan`, `negotiate`, `train` or `score` returned; or the scores of
        several owners.

    Returns
    -------
    Summary
        A notebook displays it, and `print` writes it as text.

    Examples
    --------
    >>> import parley
    >>> terms = parley.Terms.from_dict({
    ...     "title": "Two clinics",
    ...     "model": {"kind": "linear-regression", "target": "y", "bounds": {"x": [0, 1], "y": [0, 1]}},
    ...     "privacy": {"clip": 1.0},
    ...     "owners": [{"name": "a", "records": 400, "epsilon": 1.0}, {"name": "b", "records": 90, "epsilon": 0.5}],
    ... })
    >>> print(summary(terms))
    Two clinics
    <BLANKLINE>
    owner  records  ε (replace-one)
    a          400                1
    b           90              0.5
    <BLANKLINE>
    ε = 0.5 means: a 50.0% belief about one person can rise to at most 62.3%.
    ε = 1 means: a 50.0% belief about one person can rise to at most 73.2%.
    """
    several = list(thing) if isinstance(thing, Sequence) and not isinstance(thing, str) else []
    if several and all(isinstance(each, Verdict) for each in several):
        return Summary(judged.owners_sentence(several), judged.owners_rows(several), [KEEP_INSIDE_NOTE])
    for kind, made in _KINDS:
        if isinstance(thing, kind):
            return made(thing)
    terms = getattr(thing, "terms", None)
    own = task_of(terms).summary(thing) if isinstance(terms, Terms) else None
    if own is None:
        raise SettingError(
            f"cannot summarise an object of type {type(thing).__name__}; give terms, or a result of forecast, plan, "
            "negotiate, train or score"
        )
    return own


def _of_terms(terms: Terms) -> Summary:
    rows = [["owner", "records", f"ε ({Adjacency.from_unit(terms.privacy.unit)})"]]
    promised = {part.name: upper(terms.promised_epsilon(part.name)) for part in terms.owners}
    rows += [[part.name, f"{part.records:,}", number(promised[part.name], side="above")] for part in terms.owners]
    delta, unit = float(terms.privacy.delta), OWNER_UNIT if terms.privacy.unit == OWNER_UNIT else task_of(terms).unit
    sentences = [
        f"ε = {number(epsilon, side='above')} means: {meaning_words(epsilon, delta, unit)}."
        for epsilon in sorted({*promised.values()})[:MAX_EXPLAINED_EPSILONS]
    ]
    return Summary(terms.title or "Terms", rows, sentences)


def _of_forecast(result: Forecast) -> Summary:
    without = foreseen.better_without(result)
    sentences = [
        foreseen.headline(result),
        *foreseen.verdict_lines(result),
        foreseen.baseline_line(result.worth, result.expected_cost),
        *([] if without is None else [without]),
        foreseen.assumption(result),
        *(f"Note: {warning}." for warning in result.warnings),
    ]
    return Summary(verdict_sentence(result.outlook), gain_rows(result.outlook), sentences)


def _of_plan(proposal: Proposal) -> Summary:
    sentences = [foreseen.plan_advice(proposal), *foreseen.unjudged_lines(proposal)]
    return Summary(foreseen.PLAN_TITLE, foreseen.plan_rows(proposal), sentences)


def _of_draft(made: Draft) -> Summary:
    if made.proposal is None:
        return Summary(made.terms.title or "Terms", (), made.said)
    planned = _of_plan(made.proposal)
    return Summary(planned.headline, planned.rows, [*planned.sentences, *made.said])


def _of_deal(result: Negotiation) -> Summary:
    notes = [*(f"Note: {warning}." for warning in result.warnings), agreed.INTERPOLATION_NOTE]
    if not result.deal.members.any():
        said = [*agreed.moves(result), *agreed.truthful_lines(result), *notes]
        return Summary(agreed.headline(result), agreed.wish_rows(result), said)
    sentences = [*agreed.prices(result), agreed.checked(result), *agreed.truthful_lines(result), *notes]
    return Summary(agreed.headline(result), agreed.owner_rows(result), sentences)


def _of_run(result: Result) -> Summary:
    undefined, aborted = trained.undefined_line(result), trained.aborted_line(result)
    rows = trained.owner_rows(result) if result.quality is None else trained.quality_rows(result)
    notes = [line for line in (undefined, aborted) if line is not None]
    sentences = [*notes, *trained.notice_lines(result), guarantee(result), kind_of_run(result)]
    return Summary(result.terms.title or "A joint model", rows, sentences)


def _of_score(verdict: Verdict) -> Summary:
    return Summary(judged.headline(verdict), judged.verdict_rows(verdict), [KEEP_INSIDE_NOTE])


_KINDS: tuple[tuple[type, Callable[[Any], Summary]], ...] = (
    (Terms, _of_terms),
    (Forecast, _of_forecast),
    (Draft, _of_draft),
    (Proposal, _of_plan),
    (Negotiation, _of_deal),
    (Result, _of_run),
    (Verdict, _of_score),
)


def _plain(text: str) -> str:
    r"""Escape a text for Markdown, formulas included.

    >>> _plain("a|b <i> $2_3")
    'a\\|b &lt;i&gt; \\$2\\_3'
    """
    return re.sub(r"([\\`*_\[\]|~$#])", r"\\\1", escape(" ".join(text.split()), quote=False))
