"""A model's audit for its owner's privacy officer: whether an attacker can tell who was in the table."""

import math

import numpy as np

from parley.audit.attacks.membership import RARE_ALARM_RATE, Estimate, Membership
from parley.audit.attacks.trained_model import ModelAudit
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.numerals import number
from parley.privacy.accounting.meaning import error_tradeoff

TITLE = "Can an attacker tell who was in the table?"
ATTACK_NAMES: dict[str, str] = {
    "online": "likelihood ratio",
    "offline": "likelihood, offline",
    "shadow": "attack model",
    "loss": "small loss",
}
MEMBERS_ROWS_NOTE = (
    f"{KEEP_INSIDE_NOTE} The audit used the members' own rows, so the findings reveal something about those rows. Keep "
    "the findings on the owner's own machine."
)
NOT_TRIED_NOTE = (
    "The audit did not attack the answers of the rounds (parley audit TERMS attacks them). The audit also did not "
    "test rows other than the given rows, or several rows of one person together. An attack that finds nothing proves "
    "nothing."
)


def attack_rows(found: Membership) -> list[list[str]]:
    """Return a table of how well each attack separates members from others, with the claimed maximum."""
    rows = [["attack", "AUC", f"hits at {RARE_ALARM_RATE:.1%} alarms", "proved ε"]]
    for each in found.inferences:
        proved = f"{math.floor(each.lower_bound * 1e3) / 1e3:.3f}"
        rows.append([ATTACK_NAMES[each.method], _interval(each.auc, 3), _interval(each.hits, 4), proved])
    if found.claimed_epsilon is not None:
        most = (
            most_area(found.claimed_epsilon, found.delta),
            1 - error_tradeoff(found.claimed_epsilon, found.delta, RARE_ALARM_RATE),
        )
        area, hits = (number(float(each), 3, side="above") for each in most)
        rows.append(["claimed maximum", area, hits, f"{found.claimed_epsilon:g}"])
    return [*rows, ["guessing", "0.500", f"{RARE_ALARM_RATE:.4f}", "0"]]


def _interval(found: Estimate, digits: int) -> str:
    return f"{found.value:.{digits}f} ({found.low:.{digits}f}-{found.high:.{digits}f})"


def model_rows(audit: ModelAudit) -> list[list[str]]:
    """Return a table of the same attacks on the model itself, and on models without its members."""
    rows = [["attack on this model", "AUC", "on other models"]]
    for name, area in audit.areas.items():
        others = audit.other_models[name]
        rows.append([ATTACK_NAMES[name], f"{area:.3f}", f"{others.mean:.3f} ({others.low:.3f}-{others.high:.3f})"])
    return [*rows, ["without any model", f"{audit.blind_area:.3f}", ""]]


def of_this_model(audit: ModelAudit) -> list[str]:
    """Explain how to read that table."""
    sentences = [
        "The audit compares each area under the curve (AUC) with the same attack's AUC on other models (mean and 90% "
        "range). The other models were trained on other random halves of the rows. For every model, members are the "
        "rows that the audited model was trained on. The attack in the last row of the table uses only features and "
        "targets, and no model. An AUC is a sign of membership only if it exceeds both the 90% range and the AUC in "
        "the last row. Even a high AUC does not prove membership.",
        "ε does not bound the AUC, because members and other rows may follow different distributions. A difference "
        "between distributions is a property of the groups, not of any single row.",
    ]
    if audit.shadow_records < audit.records:
        sentences.append(
            f"The attacks learned from models that were trained on {audit.shadow_records:,} rows. The audited model "
            f"was trained on {audit.records:,} rows, so the attacks may say little about the audited model."
        )
    return sentences


def most_area(epsilon: float, delta: float) -> float:
    """Return the largest area under the curve of any attack that (eps, delta) allows.

    >>> round(most_area(1.0, 0.0), 3)
    0.731
    """
    x = np.linspace(0, 1, 100_001)
    return min(1.0, float(np.trapezoid(1 - error_tradeoff(epsilon, delta, x), x)) + 1e-5)


def headline(audit: ModelAudit) -> str:
    """Return the verdict in a sentence; it covers only models with as many rows as were used."""
    membership, best, records = audit.membership, audit.membership.strongest.auc, f"{audit.shadow_records:,}"
    smaller = audit.shadow_records < audit.records
    if not membership.holds:
        trained = f"training under the terms on {records} rows" if smaller else "training under the terms"
        return (
            f"Broken: {trained} reveals more about who was in the table than ε = {membership.claimed_epsilon:g} allows."
        )
    aside = (
        f" The audited model was trained on {audit.records:,} rows, so the finding says nothing about the audited "
        "model."
        if smaller
        else ""
    )
    if membership.claimed_epsilon is None:
        models = f"models that were fitted to {records} rows without noise"
        leaks = f"{models.capitalize()} reveal" if best.low > 0.5 else f"No attack on {models} revealed"
        whom = f", to someone who knows all but {audit.members} rows," if audit.shadow_records > audit.members else ""
        known = f"(area under the curve {best.value:.2f}; guessing: 0.50)"
        return f"{leaks}{whom} who was in their table {known}. No ε was claimed.{aside}"
    where = f" on models that were trained on {records} rows" if smaller else ""
    return (
        f"No attack{where} revealed more about who was in the table than ε = {membership.claimed_epsilon:g} allows."
        f"{aside}"
    )


def learned(audit: ModelAudit) -> list[str]:
    """Say what was found."""
    membership, best = audit.membership, audit.membership.strongest
    sentences = [
        headline(audit),
        f"The strongest attack ({ATTACK_NAMES[best.method]}) ranks a member above a non-member {best.auc.value:.0%} "
        f"of the time (guessing: 50%). The strongest attack finds {best.hits.value:.2%} of the members at a "
        f"false-alarm rate of {RARE_ALARM_RATE:.1%}.",
        f"On the audited model, the attacks have AUCs of {min(audit.areas.values()):.2f} to "
        f"{max(audit.areas.values()):.2f}.",
    ]
    if membership.claimed_epsilon is not None:
        most = number(most_area(membership.claimed_epsilon, membership.delta), 3, side="above")
        sentences.append(
            f"{claim(membership)} allows an AUC of at most {most}. Intervals are Student's t intervals over models. "
            f"The lower bounds on ε hold jointly at {membership.confidence:.0%} confidence."
        )
    return sentences


def tried(audit: ModelAudit) -> list[str]:
    """Say what was tried."""
    membership = audit.membership
    how = (
        "to the lowest training cost and without noise, because no terms were given"
        if membership.claimed_epsilon is None
        else f"under the terms with the agreed noise. {audit.owner} was the only owner in the training of shadow "
        f"models, so no other owner's rows hid the rows of {audit.owner}"
    )
    return [
        f"The audit mixed {audit.members} rows of the table with {audit.others} rows that could have been in the "
        f"table. The audit trained {membership.shadows} shadow models on random halves of the mixed "
        f"rows{_filled(audit)}, {how}. Three attacks learned from the shadow models how a model behaves on its "
        "training rows and on other rows. The audit chose the attacks' thresholds on a second set of models. The "
        f"attacks then ran on a third set of {membership.targets} models.",
        "Two attacks use a likelihood ratio for each row (LiRA, Carlini et al. 2022). One likelihood attack uses "
        "models trained with and without the attacked row. The other likelihood attack uses only models trained "
        "without the attacked row. The third attack has one attack model per class (Shokri et al. 2017).",
        "The audit also ran the three attacks on the audited model. An attack on a single model gives no confidence "
        "level, because the results for the model's rows depend on each other.",
    ]


def _filled(audit: ModelAudit) -> str:
    """Say which other rows shadow models were trained on."""
    rows = audit.shadow_records - audit.members
    if rows == 0:
        return ""
    return f" and on {rows:,} of the table's {audit.records:,} rows that the attacker is assumed to know"


def claim(found: Membership) -> str:
    """Return what was promised."""
    if found.claimed_epsilon is None:
        return "No ε was claimed"
    delta = f", δ = {found.delta:g}" if found.delta else ""
    return f"ε = {found.claimed_epsilon:g}{delta} ({found.adjacency})"


def promised(found: Membership) -> str:
    """Say what the claim means for an attacker."""
    if found.claimed_epsilon is None:
        return "Nothing is guaranteed: without the terms, the audit cannot tell whether the model contains noise."
    factor = number(math.exp(min(found.claimed_epsilon, 700)), side="above")
    extra = f", plus {found.delta:g}" if found.delta else ""
    return (
        "Suppose that chance decides which of two rows is in the table, as for the models that the audit trained. "
        f"At {claim(found)}, an attack's hit rate is then at most {factor} times its false-alarm rate{extra}, "
        "at every threshold. ε does not limit how well an attack separates rows of different distributions."
    )
