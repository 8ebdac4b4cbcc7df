"""How many owners it takes until joining pays."""

from collections.abc import Callable

from parley.decisions.outlook.outlook import Outlook
from parley.numerals import number
from parley.protocol.aggregation import CoalitionNoise, OneNoise

MOST = 10**9  # owners
EXACTLY = 50  # the number is found to one part in so many


def owners_needed(outlook: Outlook, noise: CoalitionNoise, pays: Callable[[Outlook, float], bool]) -> int | None:
    """The least number of owners, alike these, for whose outlook and times of the combined variance `pays` holds; None:
    no number of them.

    Of N owners instead of the N' at hand the combined answer's variance is N'/N times as large where each adds its own
    noise, and (N'/N)^2 times where there is one for all.
    """
    here, power = len(noise.records), 2 if isinstance(noise, OneNoise) else 1

    def enough(owners: int) -> bool:
        times = (here / owners) ** power
        return pays(outlook.at(owners=owners).louder(times), times)

    if not enough(MOST):
        return None
    low, high = 1, MOST  # joining pays more with every owner: look between a number too small and one that is enough
    while high - low > low // EXACTLY:
        middle = max(low + 1, min(high - 1, round((low * high) ** 0.5)))
        low, high = (low, middle) if enough(middle) else (middle, high)
        if high - low <= 1:
            break
    return high


def needed_words(needed: int | None, here: int) -> str:
    """The same in a sentence, where each owner is hidden as a whole."""
    if needed is None:
        return (
            "the unit is an owner, and with no number of owners like these anybody would be expected to gain by "
            "joining: clip, rounds and step alone cost more"
        )
    return (
        f"the unit is an owner: it takes about {number(needed)} owners like these until one is expected to gain by "
        f"joining; here are {number(here)}"
    )
