"""An audit of a model for its owner's privacy officer: who can be told to have been in the table."""

import math

import numpy as np

from parley.audit.attacks.membership import RARE, Estimate, Membership
from parley.audit.attacks.trained_model import ModelAudit
from parley.learning.outcome.guarantee import INSIDE
from parley.numerals import number
from parley.privacy.accounting.meaning import error_tradeoff

TITLE = "Who was in the table?"
NAMES: dict[str, str] = {
    "online": "likelihood ratio",
    "offline": "likelihood, offline",
    "shadow": "attack model",
    "loss": "a small loss",
}
OWN_EYES = (
    f"{INSIDE} The members' own rows were used, and what is found tells something about them: it is for the owner's "
    "own eyes, on its own machine."
)
NOT_TRIED = (
    "Not tried: attacks that see the answers of every round, not the model alone (`parley audit TERMS` does), rows "
    "other than those given, several rows of one person together. An attack that finds nothing proves nothing."
)


def attack_rows(found: Membership) -> list[list[str]]:
    """A table: how well each attack tells members from others, beside what the claim allows at most."""
    rows = [["attack", "AUC", f"found at {RARE:.1%} alarms", "shown: ε ≥"]]
    for each in found.inferences:
        proved = f"{math.floor(each.lower_bound * 1e3) / 1e3:.3f}"
        rows.append([NAMES[each.method], _interval(each.auc, 3), _interval(each.hits, 4), proved])
    if found.claimed_epsilon is not None:
        most = (
            most_area(found.claimed_epsilon, found.delta),
            1 - error_tradeoff(found.claimed_epsilon, found.delta, RARE),
        )
        area, hits = (number(float(each), 3, side="above") for each in most)
        rows.append(["at most, as claimed", area, hits, f"{found.claimed_epsilon:g}"])
    return [*rows, ["guessing", "0.500", f"{RARE:.4f}", "0"]]


def _interval(found: Estimate, digits: int) -> str:
    return f"{found.value:.{digits}f} ({found.low:.{digits}f}-{found.high:.{digits}f})"


def model_rows(audit: ModelAudit) -> list[list[str]]:
    """A table: the same attacks on the model itself, beside others on which its members are no members."""
    rows = [["attack on this model", "AUC", "on other models"]]
    for name, area in audit.areas.items():
        others = audit.other_models[name]
        rows.append([NAMES[name], f"{area:.3f}", f"{others.mean:.3f} ({others.low:.3f}-{others.high:.3f})"])
    return [*rows, ["without any model", f"{audit.blind_area:.3f}", ""]]


def of_this_model(audit: ModelAudit) -> list[str]:
    """How to read that table."""
    sentences = [
        "Beside each area: what the same attack has, with the same rows taken for members, on models whose tables held "
        "other halves of them (the mean, and nine in ten); and how well members are told from others by no model, from "
        "their features and targets alone. Where nine in ten reach as far, or no model is needed, the area says "
        "nothing about membership; else it is a sign of it and no proof.",
        "ε bounds none of these areas: members and others may be of different laws, which is no secret of any one row.",
    ]
    if audit.shadow_records < audit.records:
        sentences.append(
            f"The attacks were learned on models of {audit.shadow_records:,} rows; this one has {audit.records:,}, so "
            "they may know little of it."
        )
    return sentences


def most_area(epsilon: float, delta: float) -> float:
    """The largest area under the curve of any attack that (eps, delta) allows.

    >>> round(most_area(1.0, 0.0), 3)
    0.731
    """
    x = np.linspace(0, 1, 100_001)
    return min(1.0, float(np.trapezoid(1 - error_tradeoff(epsilon, delta, x), x)) + 1e-5)


def headline(audit: ModelAudit) -> str:
    """The verdict in a sentence: of models of as many rows as were used, and of no other."""
    found, best, records = audit.membership, audit.membership.strongest.auc, f"{audit.shadow_records:,}"
    smaller = audit.shadow_records < audit.records
    if not found.holds:
        trained = f"training like this, on {records} rows," if smaller else "training like this"
        return f"Broken: {trained} tells more about who was in the table than ε = {found.claimed_epsilon:g}."
    aside = f"; yours has {audit.records:,}, and nothing is said of it" if smaller else ""
    if found.claimed_epsilon is None:
        models = f"models of {records} rows, fitted without noise,"
        leaks = f"{models.capitalize()} tell" if best.low > 0.5 else f"No attack on {models} told"
        whom = f" somebody who knows all but {audit.members} of them" if audit.shadow_records > audit.members else ""
        known = f"(area under the curve {best.value:.2f}; guessing has 0.50)"
        return f"{leaks}{whom} who was in their table {known}, and nothing was claimed{aside}."
    where = f" on models of {records} rows" if smaller else ""
    return f"No attack{where} was found to learn more about who was in the table than is claimed{aside}."


def learned(audit: ModelAudit) -> list[str]:
    """What came of it."""
    found, best = audit.membership, audit.membership.strongest
    sentences = [
        headline(audit),
        f"The strongest attack, {NAMES[best.method]}, puts a member before another row {best.auc.value:.0%} of the "
        f"time (guessing: 50%), and finds {best.hits.value:.2%} of members at {RARE:.1%} false alarms.",
        f"On this model itself areas are {min(audit.areas.values()):.2f} to {max(audit.areas.values()):.2f}.",
    ]
    if found.claimed_epsilon is not None:
        most = number(most_area(found.claimed_epsilon, found.delta), 3, side="above")
        sentences.append(
            f"{claim(found)} allows an area of at most {most}. Intervals are Student's over models; lower bounds "
            f"on ε hold together at {found.confidence:.0%}."
        )
    return sentences


def tried(audit: ModelAudit) -> list[str]:
    """What was done, in sentences."""
    found = audit.membership
    how = (
        "by the least cost, without noise, since no terms were given"
        if found.claimed_epsilon is None
        else f"by the terms, noise and all, as if {audit.owner} were alone: nobody else's rows hide one of its"
    )
    return [
        f"{audit.members} rows that were in the table and {audit.others} that could have been were put together. "
        f"{found.shadows} shadow models were trained on random halves of them{_filled(audit)}, {how}. They teach three "
        f"attacks what a model says of a row that it was trained on, and of one that it was not. {found.targets} other "
        "models were attacked; thresholds were chosen on yet others.",
        "The attacks: a likelihood ratio of each row's own (LiRA, Carlini et al. 2022), with shadow models of both "
        "sides and with those without the row alone, and an attack model for all rows of a class (Shokri et al. 2017).",
        "The model itself was attacked in the same way. Of one model there is no confidence: its rows depend on each "
        "other.",
    ]


def _filled(audit: ModelAudit) -> str:
    """What else was in the tables of shadow models."""
    rows = audit.shadow_records - audit.members
    if rows == 0:
        return ""
    return (
        f" and on {rows:,} other rows of the table, of {audit.records:,} in all: as if the attacker knew those and "
        "had only these halves to guess"
    )


def claim(found: Membership) -> str:
    """What was promised."""
    if found.claimed_epsilon is None:
        return "Nothing was claimed"
    delta = f", δ = {found.delta:g}" if found.delta else ""
    return f"ε = {found.claimed_epsilon:g}{delta} ({found.adjacency})"


def promised(found: Membership) -> str:
    """What the claim means for whoever attacks."""
    if found.claimed_epsilon is None:
        return "Nothing is guaranteed: without the terms nobody can say what noise this model has, if any."
    factor = number(math.exp(min(found.claimed_epsilon, 700)), side="above")
    extra = f", plus {found.delta:g}" if found.delta else ""
    return (
        f"At {claim(found)}, whoever attacks: where chance decides which of two rows is in the table, as for the "
        f"models that were attacked here, the share of members that are found is at most {factor} times the share of "
        f"false alarms{extra}, at every threshold. It is no bound on how well rows of different laws are told apart."
    )
