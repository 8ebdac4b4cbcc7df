"""Owners' own verdicts on the joint model as pages, in the sentences of the terminal. For their eyes only."""

from collections.abc import Sequence

from parley.learning.outcome.guarantee import INSIDE
from parley.learning.outcome.verdict import Verdict
from parley.report.figures import picture
from parley.report.figures.model_costs import model_costs
from parley.report.figures.owner_gains import OwnerGain, owner_gains
from parley.report.figures.picture import Picture
from parley.report.pages.page import Section, page
from parley.report.words.verdict import explained, headline, owners_rows, owners_sentence, verdict_rows
from parley.terms import Terms

KEEP = "Who may see this?"


def verdict_page(verdict: Verdict, terms: Terms) -> str:
    """The HTML page of one owner's verdict."""
    words = [*explained(verdict), *([] if verdict.target_words is None else [verdict.target_words])]
    drawn = picture.svg(model_costs(verdict))
    sections = [Section("On its own held-out rows", words, verdict_rows(verdict), drawn), Section(KEEP, [INSIDE])]
    title = f"Is the joint model better for {verdict.owner}?"
    return page(title, headline(verdict), sections, f"Parley · {terms.title} · terms {terms.hash}")


def owners_page(verdicts: Sequence[Verdict], terms: Terms) -> str:
    """The HTML page of all owners' verdicts."""
    drawn = picture.svg(verdicts_figure(verdicts))
    sections = [Section("On their own held-out rows", (), owners_rows(verdicts), drawn), Section(KEEP, [INSIDE])]
    title = f"For whom was it worth it? {terms.title}".strip()
    return page(title, owners_sentence(verdicts), sections, f"Parley · terms {terms.hash}")


def verdicts_figure(verdicts: Sequence[Verdict]) -> Picture:
    """What joining saves each owner on its own held-out rows, with its personal model."""
    gains = [_gain(each) for each in verdicts]
    paid, surely = sum(gain.mean > 0 for gain in gains), sum(gain.low > 0 for gain in gains)
    title = f"Joining pays for {paid:,} of {len(gains):,}, for {surely:,} beyond chance"
    return owner_gains(gains, title, "saved a row by the personal model", "lines: 90 % intervals on own held-out rows")


def _gain(found: Verdict) -> OwnerGain:
    gain = found.personal_gain
    return OwnerGain(found.owner, gain.mean, gain.low, gain.high, found.measured)
