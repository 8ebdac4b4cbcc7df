"""Audits for a privacy officer: attacks, findings, guarantee and duration."""

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

MAX_OWNERS_NAMED = 12  # owners with one promise that are named one by one
NOT_TRIED_NOTE = (
    "Not tried: runs on other pairs of tables than the one found, the digits of the exact samplers, whether a name "
    "that only one person has can leave, and the timing of answers. An audit of the served owner (parley audit "
    "--served) tries the daemon and the network. What a host sees is tried here if the terms name hosts. A small "
    "lower bound proves nothing. That noise covers every pair of tables is shown by the proofs (docs/guarantee.md)."
)
EXACT_NOTE = (
    "For Laplace noise, what one answer reveals was also computed exactly, over all draws of rows and all values of "
    "the noise. So was what all answers cost, from the size of their noise. This needs no runs and no confidence "
    "level."
)
SYNTHETIC_NOTE = "All tables are synthetic: no real record was read."


def owner_rows(audit: Audit) -> list[list[str]]:
    """Return a table of what each owner claims and what was proved; many owners with one promise share a row."""
    rows = [["owner", f"ε ({Adjacency.REPLACE_ONE})", "δ", "proved ε", "if noise as claimed", "holds"]]
    groups: dict[str, list[Verdict]] = {}
    for verdict in audit.verdicts:
        groups.setdefault(verdict.like, []).append(verdict)
    for like, verdicts in groups.items():
        names = [each.owner for each in verdicts]
        for name in names if len(names) <= MAX_OWNERS_NAMED else [f"{like} + {len(names) - 1} alike"]:
            rows.append([name, *_cells(verdicts[0])])
    if audit.score is not None:
        rows.append([f"{audit.score.owner} (score)", *_cells(audit.score)])
    return rows


def _cells(verdict: Verdict) -> list[str]:
    shown = "any" if verdict.noise_repeats else f"{math.floor(verdict.lower_bound * 1e3) / 1e3:.3f}"
    return [
        f"{verdict.claimed_epsilon:g}",
        f"{verdict.delta:g}",
        shown,
        f"{math.floor(verdict.by_noise * 1e3) / 1e3:.3f}",
        "yes" if verdict.holds else "NO",
    ]


def headline(audit: Audit) -> str:
    """Return the verdict in a sentence."""
    for before in audit.before:
        if not before.holds:
            return headline(before)
    broken = [verdict.owner for verdict in (*audit.verdicts, audit.score) if verdict and not verdict.holds]
    if broken:
        return f"Broken: answers of {_some(broken)} reveal more than is claimed."
    if seeing := [verdict.host for verdict in audit.hosts if not verdict.holds]:
        return f"Broken: with the learner, one host sees more than is claimed: {_some(seeing)}."
    if not all(result.holds for result in audit.search):
        return f"Broken: an answer of {audit.verdicts[0].owner} tells one pair of tables apart too well."
    if not audit.holds:
        return f"Broken: by its exact law, an answer of {audit.verdicts[0].owner} reveals more than is claimed."
    return "No attack learned more than is claimed."


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")


def tried(audit: Audit, terms: Terms) -> list[str]:
    """Say what was tried."""
    first, several = audit.verdicts[0], terms.privacy.records_per_person
    rows = "one row" if several == 1 else f"{several} rows"
    seen = (
        "the sum of all owners' answers in every round"
        if terms.noise.summed
        else "every answer of the owner and asks each question twice"
    )
    return [
        f"For one owner of each kind of promise, two tables were made that differ in one person ({first.adjacency}: "
        f"{rows} at the extremes the terms allow). Nobody else in them has a target, so nobody else hides that "
        f"person. {SYNTHETIC_NOTE}",
        f"The agreed algorithm ran {2 * first.runs:,} times. Each time a fair coin chose one of the two tables, and "
        f"noise was drawn as simulations draw it. The attacker knows both tables and sees {seen}. It guesses the table "
        "by the likelihood ratio, if the ratio is decisive. The threshold for that was chosen on other runs.",
        *(
            [f"The tables had {first.records:,} records in these runs, fewer than agreed."]
            if first.records < terms.owner(first.like).records
            else []
        ),
    ]


def learned(audit: Audit) -> list[str]:
    """Say what was found, and which faults could have gone unnoticed."""
    first = audit.verdicts[0]
    sentences = [headline(audit)]
    if any(verdict.noise_repeats for verdict in audit.verdicts):
        sentences.append("The same noise came twice, so no ε holds.")
    if audit.holds:
        sentences.append(
            f"At {first.confidence:.0%} confidence, for all owners together, the true ε is at least the proved one. "
            "The larger number holds if the noise follows the claimed law. The claim is an upper bound."
        )
    return [*sentences, *unseen(audit)]


def unseen(audit: Audit) -> list[str]:
    """Say which faults the attacks could have missed."""
    first, sentences = audit.verdicts[0], []
    missed = [control_name(factor) for factor, caught in audit.controls.items() if not caught]
    at = f"at {first.runs:,} runs by either table"
    if audit.noticed is not None:
        sentences.append(
            f"Would a fault be noticed? The same attack caught {control_name(audit.noticed)}"
            + (f", but not {' or '.join(missed)}." if missed else ".")
            + f" A fault that leaks less than ε = {audit.noticed * first.claimed_epsilon:g} may go unnoticed {at}."
        )
    elif missed:
        sentences.append(
            f"Would a fault be noticed? The same attack missed {', '.join(missed)}, so it has no power here. Even a "
            f"fault that leaks ε = {max(audit.controls) * first.claimed_epsilon:g} goes unnoticed {at}. More runs have "
            "more power."
        )
    for result in audit.search:
        if result.instructions == "as they are" and 0 < result.share <= 1:
            times = math.ceil(100 / result.share) / 100
            sentences.append(
                f"The search for worse pairs reached {result.share:.0%} of the claimed sensitivity of {result.kind} "
                f"answers in {result.tried:,} trials. A claim up to {times:g} times too small may go unnoticed."
                if times > 1.01
                else f"The search for worse pairs reached the whole claimed sensitivity of {result.kind} answers. Any "
                "smaller claim would be noticed."
            )
    return sentences


def exact_rows(audit: Audit) -> list[list[str]]:
    """Return a table of the exact cost of one answer of each kind, for the worst pair found."""
    rows = [["one answer, exactly", f"claimed ε ({audit.verdicts[0].adjacency})", "ε of the worst pair", "holds"]]
    for result in audit.exact:
        holds = "yes" if result.holds else "NO"
        rows.append([result.kind, f"{result.claimed_epsilon:.4g}", f"{result.epsilon:.4g}", holds])
    return rows


def search_rows(audit: Audit) -> list[list[str]]:
    """Return a table of the largest share of the claim that a search reached, by question and instruction set."""
    rows = [["search for pairs", "instructions", "trials", "share of claim", "holds"]]
    for result in audit.search:
        share = f"{math.floor(result.share * 1e4) / 1e2:.2f}%" if math.isfinite(result.share) else "no number"
        rows.append([result.kind, result.instructions, f"{result.tried:,}", share, "yes" if result.holds else "NO"])
    return rows


def searched(audit: Audit) -> list[str]:
    """Say what was searched, and which pair came closest to the claim."""
    most = max(audit.search, key=lambda result: result.share)
    return [
        f"{sum(result.tried for result in audit.search):,} pairs of small tables that differ in one person were "
        "written "
        f"to files, read and queried like an owner's. They cover {len(FORMS)} file formats, {len(ALL_KINDS)} column "
        "types, missing cells and numbers of every size. They also cover the largest queries the terms allow, batches, "
        "all draws of rows, and every instruction set of this processor.",
        f"The pair that came closest to the claim: {most.kind}; {most.found}.",
    ]


def promised(verdict: Verdict) -> str:
    """Say what the claim means for an attacker."""
    total = math.floor(1e3 * least_total_error(verdict.claimed_epsilon, verdict.delta)) / 1e3
    return (
        f"At {claim(verdict)}, whoever tries to tell two such tables apart, whatever they know, has rates of false "
        f"alarms and misses that add up to at least {total:.3f}. Guessing has 1."
    )


def claim(verdict: Verdict) -> str:
    delta = f", δ = {verdict.delta:g}" if verdict.delta else ""
    return f"ε = {verdict.claimed_epsilon:g}{delta} ({verdict.adjacency})"


POISONING_LEAD = "What lying owners can do to a joint model, computed from public numbers: no table was read."


def rule_rows(found: Damage) -> list[list[str]]:
    """Return a table of what each rule costs without lies, and how far lies can move a round's answer."""
    rows = [["rule", "noise vs mean", "typical noise", "moved unnoticed", "moved at most"]]
    for rule in found.rules:
        name = f"{rule.rule} (agreed)" if rule.agreed else rule.rule
        moved = (f"{number(shift, 3)}" for shift in (rule.shift, rule.outside))
        rows.append([name, number(rule.price, 3), number(rule.noise, 3), *moved])
    return rows


def sentences(found: Damage) -> list[str]:
    """Explain the table, the lies that cannot be noticed, and what a lying learner gains."""
    who = ", ".join(found.liars)
    lines = [
        f"This is what happens if {who} lie, with {percent(found.share)} of the records of the smallest round the "
        "terms allow. Sizes are L2 norms of a round's combined answer, where honest owners differ only by their "
        "noise. If they differ more, a liar has that much more room under every rule except the mean.",
        "Some lies cannot be detected: answers within the bound, with the sign flipped or labels swapped, look like "
        "those of an honest owner with other data. Under the mean they move a round's answer by at most "
        f"{number(found.undetectable, side='above')} ({found.norm.upper()}), the liars' share of the bound's whole "
        "width. A liar that also hides in the noise, in every round, moves it by at most "
        f"{number(found.unnoticed, side='above')} on average and is not named either.",
        f"Answers larger than bound plus noise can explain are named in the result. At most one honest run in "
        f"{1 / found.false_alarms:,.0f} names anyone.",
    ]
    if found.learner is not None:
        lines.append(
            "A lying learner asks at parameters of its choice. An answer about two typical people then uses "
            f"{percent(found.learner.at_start)} of the claimed sensitivity at the start of a run, and "
            f"{percent(found.learner.at_worst)} at the worst parameter found. The bound holds at all of them, so it is "
            "never more than 100%, and epsilon holds."
        )
    return lines


HOSTS_NOTE = (
    "Three hosts draw one noise for all, and none of them may know it. With two hosts, each adds a full noise of its "
    "own. The attack gave each host everything it sees plus what the learner opens. It then subtracted from the sums "
    "whichever of its own numbers left the least. Until a sum is opened, its shares must look uniformly random."
)
LIMITS_NOTE = (
    "A small lower bound proves nothing. That noise covers every pair of tables is shown by the proofs "
    "(docs/guarantee.md). Not tried: questions other than those of training, the time answers take, and whether the "
    "daemon knows that it is being audited."
)
TABLES_NOTE = "The tables are synthetic and have ledgers of their own: they hold no real record."


def served_rows(verdict: ServedVerdict) -> list[list[str]]:
    """Return a table of what is claimed of the daemon, what was seen, and whether they agree."""
    guesses = verdict.guesses
    rows = [["checked", "claimed", "seen", "holds"]]
    proved = f"≥ {math.floor(verdict.lower_bound * 1e3) / 1e3:.3f} ({guesses.correct}/{guesses.made} coins)"
    rows.append([f"ε ({Adjacency.REPLACE_ONE})", f"{verdict.claimed_epsilon:g}", proved, _yes(not verdict.leaks)])
    if verdict.noise is not None:
        noise = verdict.noise
        seen = f"{number(noise.lowest)} to {number(noise.highest)}"
        rows.append(["noise scale", number(noise.scale), seen, _yes(noise.lowest <= noise.scale <= noise.highest)])
        rows.append(["noise law", "as agreed", f"p = {number(noise.p_value)}", _yes(noise.shaped)])
    if verdict.repeats is not None:
        again = verdict.repeats
        rows.append(["repeated answers", "by chance", f"{again.answers:,} of {again.of_answers:,}", _yes(again.holds)])
        rows.append(["repeated numbers", "by chance", f"{again.numbers:,} of {again.of_numbers:,}", _yes(again.holds)])
    questions = counted(verdict.rounds, "question")
    rows.append(["asked again", "same answer", f"changed: {verdict.changed} of {questions}", _yes(not verdict.changed)])
    rows.append(["debits", "once each", f"wrong: {verdict.charged} of {questions}", _yes(not verdict.charged)])
    return rows


def served_sentences(verdict: ServedVerdict) -> list[str]:
    """Say what was found."""
    broken = f"Broken: {'; '.join(verdict.faults)}."
    first = "Nothing contradicts what the daemon claims." if verdict.holds else broken
    tables = "one table" if verdict.tables == 1 else f"{verdict.tables} tables"
    findings = [
        first,
        f"{verdict.guesses.places} coin flips decided the content of {tables}. From the answers to "
        f"{counted(verdict.rounds, 'question')} the attack guessed {verdict.guesses.made} of them. At "
        f"{verdict.confidence:.0%} confidence the true ε is at least what the table shows."
        + ("" if verdict.lower_bound > 0 else " So few coins or so small a budget prove nothing; use more tables."),
    ]
    if verdict.noise is None:
        findings.append("No two answers differ only by their noise, so its law was not checked.")
    else:
        findings.append(
            f"{verdict.noise.numbers:,} differences between answers to the same question are pure noise. Honest "
            f"noise is rejected once in {1 / FALSE_ALARM:,.0f} audits. Noise below {verdict.noise.noticed:.0%} of "
            "the claimed scale would have been noticed."
        )
    if verdict.repeats is None:
        findings.append("Rows are drawn in secret, so repeated noise was not checked.")
    else:
        findings.append(
            f"Since the table is known, the noise of {verdict.repeats.of_answers:,} answers could be compared with all "
            "earlier noise: at other coordinates, in other rounds and after other starts of the daemon."
        )
    if verdict.tables == 1:
        findings.append(
            "The daemon started once, so noise that repeats at every start and ledgers after a restart were not "
            "checked."
        )
    return findings


def host_rows(verdicts: Sequence[HostVerdict]) -> list[list[str]]:
    """Return a table of the claimed cost of one answer, and what each host was shown to learn from it."""
    rows = [
        [
            "host, with the learner",
            f"claimed ε ({Adjacency.REPLACE_ONE})",
            "proved ε",
            "shares uniform",
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
