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
    f"{KEEP_INSIDE_NOTE} The members' own rows were used, and the findings reveal something about them. Keep them "
    "on the owner's own machine."
)
NOT_TRIED_NOTE = (
    "Not tried: attacks that see the answers of every round and not only the model (parley audit TERMS does that), "
    "other rows than those given, and several rows of one person together. An attack that finds nothing proves nothing."
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
        "Each area is compared with that of the same attack, with the same rows as members, on models trained on "
        "other halves of them (mean and 90% range). The last row needs no model: it separates members from others by "
        "features and targets alone. If the 90% range or the last row reaches the area, the area says nothing about "
        "membership. Otherwise it is a sign of membership, not a proof.",
        "ε does not bound these areas: members and others may follow different distributions, which is no secret of "
        "any single row.",
    ]
    if audit.shadow_records < audit.records:
        sentences.append(
            f"The attacks were learned on models of {audit.shadow_records:,} rows. This model has {audit.records:,}, "
            "so they may say little about it."
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
        trained = f"training like this, on {records} rows," if smaller else "training like this"
        return (
            f"Broken: {trained} reveals more about who was in the table than ε = {membership.claimed_epsilon:g} allows."
        )
    aside = f" Your model has {audit.records:,} rows, and this says nothing about it." if smaller else ""
    if membership.claimed_epsilon is None:
        models = f"models of {records} rows, fitted without noise,"
        leaks = f"{models.capitalize()} tell" if best.low > 0.5 else f"No attack on {models} told"
        whom = f" someone who knows all rows except {audit.members}" if audit.shadow_records > audit.members else ""
        known = f"(area under the curve {best.value:.2f}; guessing has 0.50)"
        return f"{leaks}{whom} who was in their table {known}. Nothing was claimed.{aside}"
    where = f" on models of {records} rows" if smaller else ""
    return f"No attack{where} learned more about who was in the table than is claimed.{aside}"


def learned(audit: ModelAudit) -> list[str]:
    """Say what was found."""
    membership, best = audit.membership, audit.membership.strongest
    sentences = [
        headline(audit),
        f"The strongest attack, {ATTACK_NAMES[best.method]}, ranks a member above another row {best.auc.value:.0%} "
        f"of the time (guessing: 50%). It finds {best.hits.value:.2%} of members at {RARE_ALARM_RATE:.1%} false "
        "alarms.",
        f"On this very model the areas are {min(audit.areas.values()):.2f} to {max(audit.areas.values()):.2f}.",
    ]
    if membership.claimed_epsilon is not None:
        most = number(most_area(membership.claimed_epsilon, membership.delta), 3, side="above")
        sentences.append(
            f"{claim(membership)} allows an area of at most {most}. Intervals are Student's over models. The lower "
            f"bounds on ε hold together at {membership.confidence:.0%} confidence."
        )
    return sentences


def tried(audit: ModelAudit) -> list[str]:
    """Say what was tried."""
    membership = audit.membership
    how = (
        "at minimum cost and without noise, because no terms were given"
        if membership.claimed_epsilon is None
        else f"under the terms with their noise, as if {audit.owner} were alone, so that no other rows hide its own"
    )
    return [
        f"{audit.members} rows of the table and {audit.others} rows that could have been in it were put together. "
        f"{membership.shadows} shadow models were trained on random halves of them{_filled(audit)}, {how}. They "
        "teach three "
        f"attacks how a model treats rows it was trained on and rows it was not. {membership.targets} other models "
        "were attacked, with thresholds chosen on yet others.",
        "Two attacks use a likelihood ratio for each row (LiRA, Carlini et al. 2022): one with shadow models of both "
        "kinds, one only with models trained without the row. The third is one attack model per class (Shokri et al. "
        "2017).",
        "The model itself was attacked in the same way. One model gives no confidence level, because its rows "
        "depend on each other.",
    ]


def _filled(audit: ModelAudit) -> str:
    """Say which other rows shadow models were trained on."""
    rows = audit.shadow_records - audit.members
    if rows == 0:
        return ""
    return (
        f" and on {rows:,} other rows of the table (of {audit.records:,} in all), as if the attacker knew those and "
        "had to guess only these rows"
    )


def claim(found: Membership) -> str:
    """Return what was promised."""
    if found.claimed_epsilon is None:
        return "Nothing was claimed"
    delta = f", δ = {found.delta:g}" if found.delta else ""
    return f"ε = {found.claimed_epsilon:g}{delta} ({found.adjacency})"


def promised(found: Membership) -> str:
    """Say what the claim means for an attacker."""
    if found.claimed_epsilon is None:
        return "Nothing is guaranteed: without the terms nobody can say what noise this model has, if any."
    factor = number(math.exp(min(found.claimed_epsilon, 700)), side="above")
    extra = f", plus {found.delta:g}" if found.delta else ""
    return (
        f"At {claim(found)}, no attack can do better than this: if chance decides which of two rows is in the table, "
        f"as for the models attacked here, the share of members found is at most {factor} times the share of false "
        f"alarms{extra}, at every threshold. This does not bound how well rows of different distributions are told "
        "apart."
    )
