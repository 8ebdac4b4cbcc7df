"""How many bits all that leaves under an agreement can tell about one person, everybody else's records known."""

from parley.numerals import number
from parley.owner.owner import reservation
from parley.privacy.accounting.leakage import Leakage, gaussian_bits, pure_leakage, zcdp_leakage
from parley.privacy.mechanisms import Gaussian
from parley.protocol.setup import Setup
from parley.protocol.stages import Part, Stage
from parley.terms.catalogue import ALL_MECHANISMS
from parley.validate import upper

UNKNOWN = Leakage(None, None, "nothing: some of delta is the probability that the noise fails")


def record_leakage(setup: Setup, name: str) -> Leakage:
    """What the owner of this name promises of one person's records, in bits.

    Formal guarantee: by `accounting.leakage`, the smallest of the bounds that hold. Pure noise: by the epsilon of all
    answers. Gaussian noise: by the zCDP of all, or answer by answer; a score's pure noise adds up with it. With records
    at kappa owners all of them count, as if each had this owner's budget.
    """
    terms, part = setup.terms, setup.part(name)
    if terms.noise.approximate or setup.task.fails(terms):
        return UNKNOWN
    if not ALL_MECHANISMS[terms.privacy.mechanism].approximate:
        return pure_leakage(upper(part.epsilon))
    if part.training.question.own_noise is not None:
        return UNKNOWN
    rho = reservation(terms, name, setup.schedule).rho
    found = [] if rho is None else [zcdp_leakage(upper(rho))]
    pieces = terms.privacy.records_per_person if part.training.question.disjoint > 1 else 1
    if isinstance(part.training.series.mechanism, Gaussian) and pieces == 1:
        found.append(
            Leakage(_answer_by_answer(part, terms.privacy.shared_records), None, "Gaussian noise, answer by answer")
        )
    return min(found, key=lambda each: each.mutual_information or 0.0, default=UNKNOWN)


def _answer_by_answer(part: Part, copies: int) -> float:
    """Bits of the training answers, and of a score where one is agreed on."""
    scores = [pure_leakage(upper(stage.series.epsilon)).mutual_information or 0.0 for stage in part.stages[1:]]
    return copies * _gaussian(part.training) + sum(scores)


def _gaussian(stage: Stage) -> float:
    mechanism, question, series = stage.series.mechanism, stage.question, stage.series
    answers = series.count * question.rate
    return gaussian_bits(mechanism.sensitivity, mechanism.noise_scale, question.size, answers, question.centred)


def leakage_words(found: Leakage, unit: str) -> str:
    """The same in a sentence."""
    if found.mutual_information is None:
        return f"How many bits become known about a {unit} is not bounded by these terms."
    bits = number(found.mutual_information, 3, "above")
    factor = found.guess_factor
    guess = "" if factor is None else f", and no guess becomes likelier by more than {number(factor, 3, 'above')} times"
    return (
        f"Who knows everybody else's records learns at most {bits} bits about a {unit}, on average over what it may be "
        f"(mutual information){guess}."
    )
