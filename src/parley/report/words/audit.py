"""An audit for a privacy officer: what was tried, what was learned, what the guarantee says, what it took."""

import math
from collections.abc import Sequence

from parley.audit import Audit, Verdict
from parley.audit.agreement import control_name
from parley.audit.attacks.damage import Damage
from parley.audit.exact.cell_pool import ALL_KINDS, FORMS
from parley.audit.served.noise_law import FALSE_ALARM, ServedVerdict
from parley.audit.served.one_host import HostVerdict
from parley.numerals import counted, number, percent
from parley.privacy.accounting.meaning import least_total_error
from parley.privacy.events import Adjacency
from parley.terms import Terms

MANY = 12  # owners with one promise that are named one by one
NOT_TRIED = (
    "Not tried: runs on other pairs of tables than the one that was found, the digits of the exact samplers, whether a "
    "name leaves that one person alone has, and the time that answers take. An owner's daemon and the network between "
    "are tried by parley audit TERMS --served DIR, and what a host sees here, where terms name hosts. A lower "
    "bound that is small proves nothing; that noise covers every pair of tables is what the proofs say "
    "(docs/guarantee.md)."
)
EXACT = (
    "Where noise is Laplace's, what one answer tells was also computed, over all draws of rows and all values of the "
    "noise; and what all answers cost by the size of their noise. No run is needed, and no confidence."
)
MADE_UP = "Tables are made up: no record of anybody was read."


def owner_rows(audit: Audit) -> list[list[str]]:
    """A table: what each owner claims, and what was proved. Owners with the same promise are a line where they are
    many."""
    rows = [["owner", f"ε ({Adjacency.REPLACE_ONE})", "δ", "shown: at least", "by its noise", "runs", "holds"]]
    groups: dict[str, list[Verdict]] = {}
    for verdict in audit.verdicts:
        groups.setdefault(verdict.like, []).append(verdict)
    for like, verdicts in groups.items():
        names = [each.owner for each in verdicts]
        for name in names if len(names) <= MANY else [f"{like} and {len(names) - 1} alike"]:
            rows.append([name, *_cells(verdicts[0])])
    if audit.score is not None:
        rows.append([f"{audit.score.owner}, its score", *_cells(audit.score)])
    return rows


def _cells(verdict: Verdict) -> list[str]:
    shown = "any: noise repeats" if verdict.noise_repeats else f"{math.floor(verdict.lower_bound * 1e3) / 1e3:.3f}"
    return [
        f"{verdict.claimed_epsilon:g}",
        f"{verdict.delta:g}",
        shown,
        f"{math.floor(verdict.by_noise * 1e3) / 1e3:.3f}",
        f"{verdict.runs:,}",
        "yes" if verdict.holds else "NO",
    ]


def headline(audit: Audit) -> str:
    """The verdict in a sentence."""
    for before in audit.before:
        if not before.holds:
            return headline(before)
    broken = [verdict.owner for verdict in (*audit.verdicts, audit.score) if verdict and not verdict.holds]
    if broken:
        return f"Broken: answers of {_some(broken)} tell more than is claimed."
    if seeing := [verdict.host for verdict in audit.hosts if not verdict.holds]:
        return f"Broken: with the learner, one host sees more than is claimed: {_some(seeing)}."
    if not all(found.holds for found in audit.search):
        return f"Broken: a pair of tables was found that an answer of {audit.verdicts[0].owner} tells apart too well."
    if not audit.holds:
        return f"Broken: an answer of {audit.verdicts[0].owner} tells more than is claimed, by its exact law."
    return "No attack was found to learn more than is claimed."


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")


def tried(audit: Audit, terms: Terms) -> list[str]:
    """What was done, in sentences."""
    first, several = audit.verdicts[0], terms.privacy.records_per_person
    rows = "one row" if several == 1 else f"{several} rows"
    seen = (
        "the sum of all owners' answers in every round"
        if terms.noise.summed
        else "every answer of the owner, asks each question twice"
    )
    return [
        "For an owner of each kind of promise, two tables were made that differ in one person "
        f"({first.adjacency}: {rows} at the ends of what the terms allow). Nobody else in them has a target, so that "
        f"nobody else hides that person. {MADE_UP}",
        f"The agreed algorithm ran {2 * first.runs:,} times, each time by one of the two tables as a fair coin fell, "
        f"with the agreed noise as simulations draw it. The attacker knows both tables, sees {seen}, and guesses by "
        "the likelihood ratio which table it was, where that says enough. How much is enough was chosen on other runs.",
        *(
            [f"Tables had {first.records:,} records in these runs, fewer than were agreed."]
            if first.records < terms.owner(first.like).records
            else []
        ),
    ]


def learned(audit: Audit) -> list[str]:
    """What came of it, and what would have passed unseen."""
    first = audit.verdicts[0]
    sentences = [headline(audit)]
    if audit.holds:
        sentences.append(
            f"At {first.confidence:.0%} confidence, for all owners together, the true ε is at least what the table "
            "shows; the larger number holds if the noise has the claimed law. The claim is an upper bound."
        )
    return [*sentences, *unseen(audit)]


def unseen(audit: Audit) -> list[str]:
    """The power that the attacks had: which faults would have passed."""
    first, sentences = audit.verdicts[0], []
    missed = [control_name(factor) for factor, caught in audit.controls.items() if not caught]
    at = f"at {first.runs:,} runs by either table"
    if audit.noticed is not None:
        sentences.append(
            f"Would a fault be noticed? The same attack on {control_name(audit.noticed)}: caught"
            + (f"; on {' and '.join(missed)}: not, there its power ends." if missed else ".")
            + f" A fault that leaks less than ε = {audit.noticed * first.claimed_epsilon:g} may pass unseen {at}."
        )
    elif missed:
        sentences.append(
            f"Would a fault be noticed? The same attack on {', '.join(missed)} caught nothing: it has no power here. "
            f"Even a fault that leaks ε = {max(audit.controls) * first.claimed_epsilon:g} passes unseen {at}. More "
            "runs have more power."
        )
    for found in audit.search:
        if found.instructions == "as they are" and 0 < found.share <= 1:
            times = math.ceil(100 / found.share) / 100
            sentences.append(
                f"The search for worse pairs used {found.share:.0%} of what {found.kind} answers may move in "
                f"{found.tried:,} tries: a sensitivity claimed up to {times:g} times too small may pass unseen."
                if times > 1.01
                else f"The search for worse pairs used all of what {found.kind} answers may move: no smaller "
                "sensitivity would pass unseen."
            )
    return sentences


def exact_rows(audit: Audit) -> list[list[str]]:
    """A table: what one answer of each kind costs by its exact law, for the worst pair that was found."""
    rows = [["one answer, by its exact law", f"claimed ε ({audit.verdicts[0].adjacency})", "ε of this pair", "holds"]]
    for found in audit.exact:
        holds = "yes" if found.holds else "NO"
        rows.append([found.kind, f"{found.claimed_epsilon:.4g}", f"{found.epsilon:.4g}", holds])
    return rows


def search_rows(audit: Audit) -> list[list[str]]:
    """A table: how much of what one answer may cost the worst pair of tables used that a search found, by kind of
    question and by instructions of the processor."""
    rows = [["search over pairs of tables", "instructions", "trials", "most of the claim", "holds"]]
    for found in audit.search:
        share = f"{math.floor(found.share * 1e4) / 1e2:.2f} %" if math.isfinite(found.share) else "no number"
        rows.append([found.kind, found.instructions, f"{found.tried:,}", share, "yes" if found.holds else "NO"])
    return rows


def searched(audit: Audit) -> list[str]:
    """What was searched, and where most was found."""
    most = max(audit.search, key=lambda found: found.share)
    return [
        f"{sum(found.tried for found in audit.search):,} pairs of small tables that differ in one person were written, "
        f"read and asked about as an owner's are: {len(FORMS)} forms of tables, {len(ALL_KINDS)} types of columns, "
        "gaps and every size of number in cells, what is asked at up to the largest that the terms allow, batches, "
        "all draws of rows, and each of the processor's instructions that is found.",
        f"The pair that came nearest to the claim: {most.kind}; {most.found}.",
    ]


def promised(verdict: Verdict) -> str:
    """What the claim means for whoever attacks."""
    total = math.floor(1e3 * least_total_error(verdict.claimed_epsilon, verdict.delta)) / 1e3
    return (
        f"Whoever attacks, and whatever they know, at {claim(verdict)} the rates of false alarms and of misses of "
        f"telling two such tables apart add up to at least {total:.3f}; guessing comes to 1."
    )


def claim(verdict: Verdict) -> str:
    delta = f", δ = {verdict.delta:g}" if verdict.delta else ""
    return f"ε = {verdict.claimed_epsilon:g}{delta} ({verdict.adjacency})"


LEAD = "What owners that lie can do to a joint model, from public numbers alone: no table was read."


def rule_rows(found: Damage) -> list[list[str]]:
    """A table: what each rule costs where nobody lies, and how far lies move a round's answer."""
    rows = [["rule", "noise, times the mean's", "typical noise", "moved by a lie unnoticed", "by any lie"]]
    for rule in found.rules:
        name = f"{rule.rule} (agreed)" if rule.agreed else rule.rule
        moved = (f"{number(shift, 3)}" for shift in (rule.shift, rule.outside))
        rows.append([name, number(rule.price, 3), number(rule.noise, 3), *moved])
    return rows


def sentences(found: Damage) -> list[str]:
    """What the table means, what cannot be noticed, and what a learner gains that lies."""
    who = ", ".join(found.liars)
    said = [
        f"If {who} ({percent(found.share)} of the records of the lightest round that the terms allow) lied: sizes are "
        "of the combined answer of such a round, in L2, where honest owners agree but for their noise. Where they "
        "differ, a liar has that much more room under every rule but the mean.",
        "Undetectable: exact answers within the bound, with a turned sign or of exchanged labels, are those of an "
        "honest owner of another law. Under the mean they move a round's answer by at most "
        f"{number(found.undetectable, side='above')} ({found.norm.upper()}): the liars' share, times from one "
        "end of the bound to the other. Who lies within what noise hides as well, in every "
        "round, is not named for it either and moves it by at most "
        f"{number(found.unnoticed, side='above')} on average.",
        f"Answers beyond bound and noise are named in the result; of honest runs at most one in "
        f"{1 / found.false_alarms:,.0f} names anybody.",
    ]
    if found.learner is not None:
        said.append(
            f"A learner that asks at parameters of its choice: of two usual people an answer tells "
            f"{percent(found.learner.at_start)} of what its noise was made for where a run begins, and "
            f"{percent(found.learner.at_worst)} at the worst parameter that was found. The bound holds at all of "
            "them, so it is never more than 100%, and epsilon stands."
        )
    return said


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
