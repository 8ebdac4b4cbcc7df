"""How many bits all that leaves under an agreement can tell about one person, everybody else's records known."""

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeVar

from parley.numerals import number
from parley.owner.owner import reservation
from parley.privacy.accounting.meaning import Leakage, gaussian_bits, pure_leakage, zcdp_leakage
from parley.privacy.mechanisms import Gaussian
from parley.protocol.aggregation.mean import pieces
from parley.protocol.setup import Setup
from parley.protocol.stages import Stage
from parley.terms import Terms
from parley.terms.catalogue import ALL_MECHANISMS
from parley.terms.sections import OWNER
from parley.validate import upper

Cost = TypeVar("Cost", float, Fraction)


def record_leakage(setup: Setup, name: str) -> Leakage:
    """What is promised of a person in the table of the owner of this name, in bits, by all that leaves.

    Formal guarantee: by `accounting.meaning`, the smallest of the bounds that hold. Pure noise: by the epsilon of all
    answers. Gaussian noise: by the zCDP of all, or answer by answer; a score's pure noise adds up with it. A record
    that kappa owners hold is in the answers of this one and of kappa - 1 others, at worst those that tell most
    (`covering`).
    """
    terms = setup.terms
    if terms.noise.approximate or setup.task.fails(terms):
        return Leakage(None, None, "nothing: some of delta is the probability that the noise fails")
    if not ALL_MECHANISMS[terms.privacy.mechanism].approximate:
        return pure_leakage(upper(covering_epsilon(terms, name)))
    parts = _involved(setup, name)
    if any(setup.part(each).training.question.own_noise is not None for each in parts):
        return Leakage(None, None, "nothing: noise inside of what is minimised has no known divergence")
    found = [each for each in (_by_zcdp(setup, name, parts), _answer_by_answer(setup, name, parts)) if each is not None]
    unknown = Leakage(None, None, "nothing: no divergence is known of this noise")
    return min(found, key=lambda each: each.mutual_information or 0.0, default=unknown)


def covering(costs: Mapping[str, Cost], name: str, copies: int) -> Cost:
    """What the answers of an owner and of `copies` - 1 others cost, those of the largest costs.

    >>> covering({"a": 1.0, "b": 5.0, "c": 2.0}, "a", 2)
    6.0
    """
    others = sorted((cost for owner, cost in costs.items() if owner != name), reverse=True)
    return sum(others[: copies - 1], costs[name])


def covering_epsilon(terms: Terms, name: str) -> Fraction:
    """By which epsilon all answers together cover a record that this owner holds, and up to kappa - 1 others.

    Formal guarantee: every owner adds the noise of epsilon/kappa and delta/kappa, and copies add up.
    """
    copies = terms.privacy.shared_records
    promised = {owner.name: terms.promised_epsilon(owner.name) for owner in terms.owners}
    return covering(promised, name, copies) / copies


def _involved(setup: Setup, name: str) -> tuple[str, ...]:
    """The owners that may hold a record of this one's table."""
    return tuple(setup.parts) if setup.terms.privacy.shared_records > 1 else (name,)


def _by_zcdp(setup: Setup, name: str, parts: tuple[str, ...]) -> Leakage | None:
    """By rho, where all that may hold a record have one; an owner's covers `shared_records` copies of its own noise."""
    copies, found = setup.terms.privacy.shared_records, dict[str, Fraction]()
    for each in parts:
        rho = reservation(setup.terms, each, setup.schedule).rho
        if rho is None:
            return None
        found[each] = rho
    return zcdp_leakage(upper(covering(found, name, copies) / copies))


def _answer_by_answer(setup: Setup, name: str, parts: tuple[str, ...]) -> Leakage | None:
    """By the Gaussian noise of every training answer, and the epsilon of a score where one is agreed on."""
    privacy = setup.terms.privacy
    stages = {each: setup.part(each).training for each in parts}
    if pieces(setup.terms, stages[name].question) > 1 or not all(
        isinstance(stage.series.mechanism, Gaussian) for stage in stages.values()
    ):
        return None
    bits = covering({each: _gaussian(stage) for each, stage in stages.items()}, name, privacy.shared_records)
    for stage in setup.part(name).stages[1:]:  # its epsilon is everybody's, and covers all copies
        bits += pure_leakage(upper(stage.series.epsilon)).mutual_information or 0.0
    return Leakage(bits, None, "Gaussian noise, answer by answer")


def _gaussian(stage: Stage) -> float:
    """The bits of all answers of a stage.

    Formal guarantee: n answers of p numbers that a record moves by d_1, d_2, ... tell at most the sum of
    p/2 ln(1 + R_k^2/(p s^2)), R_k as d_k has it; the logarithm is concave, so that this is at most what one answer of
    n p numbers tells, moved by the root of d_1^2 + d_2^2 + ..., which is what a joint noise is made for.
    """
    mechanism, question, series = stage.series.mechanism, stage.question, stage.series
    if series.joint:
        return gaussian_bits(
            mechanism.sensitivity, mechanism.noise_scale, question.size * series.count, ball=question.centred
        )
    answers = series.count * question.rate
    return gaussian_bits(mechanism.sensitivity, mechanism.noise_scale, question.size, answers, question.centred)


def leakage_words(found: Leakage, terms: Terms, unit: str) -> str:
    """The same in a sentence; `unit`: whom it is promised to, where it is not the owner as a whole."""
    whole = terms.privacy.unit == OWNER
    about = "your table" if whole else f"a {unit}"
    if found.mutual_information is None:
        return f"How many bits become known about {about} is not bounded by these terms."
    knows = "all other owners' tables" if whole else "everybody else's records"
    copies = terms.privacy.shared_records
    others = "" if copies == 1 else f", and from other owners' about the same records ({copies} owners may hold them),"
    bits, factor = number(found.mutual_information, 3, "above"), found.guess_factor
    guess = "" if factor is None else f", and no guess becomes likelier by more than {number(factor, 3, 'above')} times"
    return (
        f"From the answers under these terms{others} whoever knows {knows} learns at most {bits} bits about {about}, "
        f"on average over what it may be (mutual information){guess}. What other terms release comes on top."
    )
