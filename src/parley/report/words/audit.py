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
    "For each group of owners with the same promise, the audit attacked only one pair of tables. The audit did not "
    "test whether the last digits or the timing of real answers reveal anything. The audit did not test whether an "
    "owner's answers can reveal a category name that only one person has. To test the daemon and the network, audit a "
    "running daemon with parley audit --served. If the terms list hosts, the audit also tests what each host sees. A "
    "small lower bound on ε does not prove privacy. The proofs (docs/proofs/index.md) show that the noise is large "
    "enough for every pair of tables."
)
EXACT_NOTE = (
    "For Laplace noise, the audit also computed exactly how much one answer reveals, over all draws of rows and all "
    "noise values. The audit computed the privacy cost of all answers together from the noise scale. Exact values need "
    "no runs and no confidence level."
)
SYNTHETIC_NOTE = "All tables are synthetic: the audit read no real record."


def owner_rows(audit: Audit) -> list[list[str]]:
    """Return a table of what each owner claims and what was proved; many owners with one promise share a row."""
    rows = [["owner", f"ε ({Adjacency.REPLACE_ONE})", "δ", "proved ε", "assuming claimed noise", "holds"]]
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
        return f"Broken: the answers of {_some(broken)} reveal more than the terms allow."
    if seeing := [verdict.host for verdict in audit.hosts if not verdict.holds]:
        return f"Broken: a host that works with the learner sees more than the terms allow ({_some(seeing)})."
    if not all(result.holds for result in audit.search):
        return f"Broken: an answer of {audit.verdicts[0].owner} reveals more about one pair of tables than claimed."
    if not audit.holds:
        return f"Broken: an answer of {audit.verdicts[0].owner} reveals more than the terms allow (computed exactly)."
    return "No attack revealed more than the terms allow."


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} others" if len(names) > 3 else "")


def tried(audit: Audit, terms: Terms) -> list[str]:
    """Say what was tried."""
    first, several = audit.verdicts[0], terms.privacy.records_per_person
    rows = "row" if several == 1 else f"{several} rows"
    have = "has" if several == 1 else "have"
    seen = (
        "the sum of all owners' answers in every round"
        if terms.noise.summed
        else "every answer of the owner, and asks each question twice"
    )
    return [
        "For each group of owners with the same promise, the audit attacked one owner, on two tables that differ in "
        f"one person ({first.adjacency}). The {rows} in which the two tables differ {have} the most extreme values "
        "that the terms allow. If the terms allow rows without a target, all other rows lack a target, so no other "
        "row hides the person. " + SYNTHETIC_NOTE,
        f"The audit ran the agreed algorithm {2 * first.runs:,} times. In each run, a fair coin chose one of the two "
        "tables. The audit drew noise with the fast method that simulations use. The attacker knows both tables and "
        f"sees {seen}. The attacker guesses which table a run used only if the likelihood ratio exceeds a threshold. "
        "The audit chose the threshold on other runs.",
        *(
            [f"The attacked tables had {first.records:,} records, fewer than the terms state."]
            if first.records < terms.owner(first.like).records
            else []
        ),
    ]


def learned(audit: Audit) -> list[str]:
    """Say what was found, and which faults could have gone unnoticed."""
    first = audit.verdicts[0]
    sentences = [headline(audit)]
    if any(verdict.noise_repeats for verdict in audit.verdicts):
        sentences.append("The same noise occurred twice, so no finite ε can be guaranteed.")
    if audit.holds:
        sentences.append(
            f"At {first.confidence:.0%} confidence for all owners together, the true ε is at least the value in "
            "column 'proved ε'. The value in column 'assuming claimed noise' is a second lower bound, valid only if "
            "the noise follows the claimed distribution. The claimed ε is an upper bound on the true ε."
        )
    return [*sentences, *unseen(audit)]


def unseen(audit: Audit) -> list[str]:
    """Say which faults the attacks could have missed."""
    first, sentences = audit.verdicts[0], []
    missed = [control_name(factor) for factor, caught in audit.controls.items() if not caught]
    at = f"with {first.runs:,} runs on each table"
    if audit.noticed is not None:
        sentences.append(
            f"Would the audit notice a fault? The attack caught {control_name(audit.noticed)}"
            + (f", but not {' or '.join(missed)}." if missed else ".")
            + f" A fault that leaks less than ε = {audit.noticed * first.claimed_epsilon:g} may go unnoticed {at}."
        )
    elif missed:
        sentences.append(
            f"Would the audit notice a fault? The attack did not detect {' or '.join(missed)}, so the attack has no "
            f"power to find faults. Even a fault that leaks ε = {max(audit.controls) * first.claimed_epsilon:g} goes "
            f"unnoticed {at}. More runs give the attack more power."
        )
    for result in audit.search:
        if result.instructions == "as they are" and 0 < result.share <= 1:
            times = math.ceil(100 / result.share) / 100
            sentences.append(
                f"In {result.tried:,} trials, the search for the worst pair of tables reached {result.share:.0%} of "
                f"the claimed sensitivity of {result.kind} answers. A claimed sensitivity that is up to {times:g} "
                "times too small may go unnoticed."
                if times > 1.01
                else f"The search for the worst pair of tables reached the whole claimed sensitivity of {result.kind} "
                "answers. The search would therefore have noticed a claimed sensitivity that is too small."
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
        f"The audit wrote {sum(result.tried for result in audit.search):,} pairs of small tables to files. The two "
        "tables of a pair differ in one person. The audit read and queried each file in the same way as an owner's "
        f"table. The pairs of tables cover {len(FORMS)} file formats, {len(ALL_KINDS)} column types, missing cells and "
        "numbers of every size. The search also covers the largest queries that the terms allow, batches, all draws of "
        "rows, and every instruction set of this processor.",
        f"The pair of tables that came closest to the claimed sensitivity: {most.kind}; {most.found}.",
    ]


def promised(verdict: Verdict) -> str:
    """Say what the claim means for an attacker."""
    total = math.floor(1e3 * least_total_error(verdict.claimed_epsilon, verdict.delta)) / 1e3
    return (
        "Suppose an attacker must tell apart two tables that differ in one person. At "
        f"{claim(verdict)}, the false-alarm rate and the miss rate add up to at least {total:.3f}, whatever the "
        "attacker knows. With guessing, the two rates add up to 1."
    )


def claim(verdict: Verdict) -> str:
    delta = f", δ = {verdict.delta:g}" if verdict.delta else ""
    return f"ε = {verdict.claimed_epsilon:g}{delta} ({verdict.adjacency})"


POISONING_LEAD = "The audit computed from public numbers how much damage lying owners can do. The audit read no table."


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
        f"The audit assumes that {who} may send false answers. In the smallest round that the terms allow, the lying "
        f"owners have {percent(found.share)} of the records. The table shows the L2 norms of noise and of shifts by "
        "lies in a round's combined answer. The audit assumes that honest owners' answers differ only in their noise. "
        "If honest answers also differ in other ways, a liar can shift the combined answer further under every rule "
        "except the mean.",
        "Some lies cannot be detected. An answer within the bound, but with flipped signs or swapped labels, looks "
        "like an honest owner's answer from other data. If the aggregation rule is the mean, undetectable lies "
        f"shift a round's answer by at most {number(found.undetectable, side='above')} ({found.norm.upper()} norm). "
        "The limit on undetectable lies is the liars' share of the records times twice the bound. Liars can also hide "
        "larger lies in the noise of every round. Lies hidden in the noise shift the mean by at most "
        f"{number(found.unnoticed, side='above')} on average, and Parley issues no notice about the liars.",
        "Parley issues a notice if an owner's answers are larger than bound plus noise can explain. If all owners are "
        f"honest, Parley issues a notice in at most one run in {1 / found.false_alarms:,.0f}.",
    ]
    if found.learner is not None:
        lines.append(
            "A lying learner chooses the model parameters in its questions. At the start of a run, swapping one "
            f"typical person for another changes an answer by {percent(found.learner.at_start)} of the claimed "
            "sensitivity. At the worst parameters that the audit found, swapping one typical person for another "
            f"changes an answer by {percent(found.learner.at_worst)} of the claimed sensitivity. The bound on a "
            "record's contribution is valid for all parameters. The promised ε therefore remains valid for all "
            "parameters that the learner chooses."
        )
    return lines


HOSTS_NOTE = (
    "Three hosts draw shared noise that no single host may know. Two hosts each add the full noise, or draw one noise "
    "together, of which each host knows only a small part. The attack used a host's shares, the numbers that the host "
    "drew, and every sum that the learner opens. From each sum, the attack subtracted the host's own numbers, in the "
    "combination that leaves the smallest remainder. Until a sum is opened, its shares must look uniformly random. The "
    "audit did not attack the messages inside the drawing: the audit only tested whether their bytes are evenly "
    "distributed. All hosts followed the protocol during the audit."
)
LIMITS_NOTE = (
    "A small lower bound on ε does not prove privacy. The proofs (docs/proofs/index.md) show that the noise is large "
    "enough for every pair of tables. The audit did not test questions outside training or the timing of answers. The "
    "audit did not test whether the daemon behaves differently during an audit."
)
TABLES_NOTE = "The audited tables are synthetic, contain no real record and have separate ledgers."


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
    first = "No finding contradicts the daemon's claims." if verdict.holds else broken
    tables = "one table" if verdict.tables == 1 else f"{verdict.tables} tables"
    findings = [
        first,
        f"{verdict.guesses.places} coin flips chose the records in {tables}. The attack guessed "
        f"{verdict.guesses.made} of the coin flips from the answers to {counted(verdict.rounds, 'question')}. At "
        f"{verdict.confidence:.0%} confidence, the true ε is at least the lower bound in the table."
        + (
            ""
            if verdict.lower_bound > 0
            else " The audit has too few coin flips, or too small a budget, to prove anything; use more audit tables."
        ),
    ]
    if verdict.noise is None:
        findings.append("No two answers differ only by noise, so the audit could not check the noise distribution.")
    else:
        findings.append(
            f"{verdict.noise.numbers:,} differences between answers to the same question are pure noise. If the "
            f"daemon adds the claimed noise, at most one audit in {1 / FALSE_ALARM:,.0f} reports wrong noise. The "
            f"audit would have noticed a noise scale below {verdict.noise.noticed:.0%} of the claimed scale."
        )
    if verdict.repeats is None:
        findings.append("The owner draws rows in secret, so the audit could not check whether noise repeats.")
    else:
        findings.append(
            f"The audit made the audited tables, so it could compute the noise in {verdict.repeats.of_answers:,} "
            "answers. The audit compared each answer's noise with all earlier noise, at other coordinates, in other "
            "rounds and after other starts of the daemon."
        )
    if verdict.tables == 1:
        findings.append(
            "The daemon started once, so the audit did not check whether noise repeats at every start. The audit did "
            "not check the ledger after a restart of the daemon."
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
