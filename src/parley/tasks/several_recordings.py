"""What is promised to somebody who is in several recordings, where one recording is the unit of privacy."""

from parley.numerals import number
from parley.owner.record_leakage import covering_epsilon
from parley.privacy.accounting.groups import gaussian_group_delta, group_delta
from parley.privacy.mechanisms import Gaussian
from parley.protocol.setup import Setup
from parley.validate import upper

TOLD = (2, 5, 10)  # for how many recordings delta is said


def several_recordings(setup: Setup, name: str) -> str:
    """A sentence about m recordings at this owner: m times the epsilon of one, and with which delta."""
    said = " Somebody with m recordings is promised m times that ε"
    if not setup.terms.privacy.delta > 0:
        return f"{said}."
    deltas = {several: recordings_delta(setup, name, several) for several in TOLD}
    listed = ", ".join(f"{number(delta, side='above')} for m = {several}" for several, delta in deltas.items())
    nothing = "; a δ of 1 promises nothing" if max(deltas.values()) == 1 else ""
    return f"{said}, with a δ that grows: {listed}{nothing}."


def recordings_delta(setup: Setup, name: str, several: int) -> float:
    """The delta with which so many recordings together are promised as many times the epsilon of one.

    Formal guarantee: exact for an owner's own normal noise in its one release; else the bound of any noise, from the
    epsilon and delta that cover all copies of a recording.
    """
    terms, series = setup.terms, setup.part(name).training.series
    own = not terms.noise.summed and terms.privacy.shared_records == 1
    epsilon = upper(covering_epsilon(terms, name))
    if own and isinstance(series.mechanism, Gaussian):
        shift = series.mechanism.sensitivity / series.mechanism.sigma
        return gaussian_group_delta(epsilon, shift * series.count**0.5, several)
    return group_delta(epsilon, terms.privacy.delta, several)
