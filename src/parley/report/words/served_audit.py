"""An audit of a served owner for a privacy officer: what its daemon was asked, and what came back."""

import math
from collections.abc import Sequence

from parley.audit.served.noise_law import FALSE_ALARM
from parley.audit.served.one_host import HostVerdict
from parley.audit.served.verdict import ServedVerdict
from parley.numerals import counted, number
from parley.privacy.adjacency import Adjacency

HOSTS = (
    "Three hosts draw one noise for all, and none of them may know it; of two each adds a whole one of its "
    "own. Each of them was given everything that one host sees, and what the learner opens; it took off the sums "
    "whatever of its own numbers left least of them. Before a sum is opened its shares must look like even dice, "
    "whatever they stand for."
)
LIMITS = (
    "A lower bound that is small proves nothing; that noise covers every pair of tables is what the proofs say "
    "(docs/guarantee.md). Not tried: other questions than training's, the time that answers take, and whether the "
    "daemon knows that it is audited."
)
TABLES = "The tables are the audit's own, with books of their own: no record of anybody is in them."


def served_rows(verdict: ServedVerdict) -> list[list[str]]:
    """A table: what is claimed of the daemon, what was seen, and whether they agree."""
    guesses = verdict.guesses
    rows = [["looked at", "claimed", "seen", "holds"]]
    proved = f"at least {math.floor(verdict.lower_bound * 1e3) / 1e3:.3f} ({guesses.correct} of {guesses.made} coins)"
    rows.append(
        [f"ε of all answers ({Adjacency.REPLACE_ONE})", f"{verdict.claimed_epsilon:g}", proved, _yes(not verdict.leaks)]
    )
    if verdict.noise is not None:
        noise = verdict.noise
        seen = f"{number(noise.lowest)} to {number(noise.highest)}"
        rows.append(
            ["scale of the noise", number(noise.scale), seen, _yes(noise.lowest <= noise.scale <= noise.highest)]
        )
        rows.append(["law of the noise", "as agreed", f"p = {number(noise.p_value)}", _yes(noise.shaped)])
    if verdict.repeats is not None:
        again = verdict.repeats
        seen = f"{again.answers:,} of {again.of_answers:,} answers, {again.numbers:,} of {again.of_numbers:,} numbers"
        rows.append(["noise again", "by chance alone", seen, _yes(again.holds)])
    asked = counted(verdict.rounds, "question")
    rows.append(["asked again", "the same answer", f"another: {verdict.changed} of {asked}", _yes(not verdict.changed)])
    rows.append(["debits", "once each", f"wrong: {verdict.charged} of {asked}", _yes(not verdict.charged)])
    return rows


def served_sentences(verdict: ServedVerdict) -> list[str]:
    """What came of it."""
    if verdict.holds:
        first = "Nothing was found that contradicts what the daemon claims."
    else:
        first = f"Broken: {'; '.join(verdict.faults)}."
    tables = "one table" if verdict.tables == 1 else f"{verdict.tables} tables"
    found = [
        first,
        f"{verdict.guesses.places} coins decided what stood in {tables}; the answers to "
        f"{counted(verdict.rounds, 'question')} were used to guess {verdict.guesses.made} of them. At "
        f"{verdict.confidence:.0%} confidence the true ε is at least what the table shows."
        + ("" if verdict.lower_bound > 0 else " So few coins, or so small a budget, prove nothing: more tables do."),
    ]
    if verdict.noise is None:
        found.append("No two answers differ by their noise alone, so its law was not looked at.")
    else:
        found.append(
            f"{verdict.noise.numbers:,} differences of answers to one question are noise and nothing else. Honest "
            f"noise is called another once in {1 / FALSE_ALARM:,.0f} audits, and noise of less than "
            f"{verdict.noise.noticed:.0%} of the claimed scale would have been noticed."
        )
    if verdict.repeats is None:
        found.append("Rows are drawn in secret, so whether noise comes again was not looked at.")
    else:
        found.append(
            f"The noise of {verdict.repeats.of_answers:,} answers, which the known table leaves of them, was compared "
            "with all that came before it, at other coordinates, in other rounds and at other starts of the daemon."
        )
    if verdict.tables == 1:
        found.append(
            "One start was seen: noise that comes again at every start, and books after a restart, were not looked at."
        )
    return found


def host_rows(verdicts: Sequence[HostVerdict]) -> list[list[str]]:
    """A table: what one answer is claimed to cost, and what each host was shown to learn of it."""
    rows = [
        [
            "one host and the learner",
            f"claimed ε ({Adjacency.REPLACE_ONE})",
            "shown: at least",
            "shares are even",
            "holds",
        ]
    ]
    for verdict in verdicts:
        shown = f"{math.floor(verdict.lower_bound * 1e3) / 1e3:.3f}"
        even = f"p = {verdict.p_value:.2g}"
        rows.append([verdict.host, f"{verdict.claimed_epsilon:.4g}", shown, even, "yes" if verdict.holds else "NO"])
    return rows


def _yes(holds: bool) -> str:
    return "yes" if holds else "NO"
