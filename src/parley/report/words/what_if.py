"""A forecast that was carried over to other numbers of the owners, in words and cells."""

from dataclasses import dataclass

from parley.decisions.outlook.joining import Verdict
from parley.decisions.outlook.what_if import OwnerGain, WhatIf
from parley.numerals import counted, ends, number, percent
from parley.privacy.accounting.explanation import explanation
from parley.privacy.accounting.meaning import WIDER
from parley.report.words.forecast import listed_names

VERDICTS = {"join": "gains", "stay": "does not gain", "unknown": "cannot say"}
COUNTED: dict[Verdict, str] = {
    "join": "gain, whatever owners differ by",
    "unknown": "cannot say",
    "stay": "do not gain",
}
FITNESS = "ψ = 0.05 means: a training cost about 5% above that of the model without privacy."
CARRIED = "At once, carried over from the last whole forecast; the whole one follows."


@dataclass(frozen=True)
class Tally:
    """For how many owners a verdict holds."""

    verdict: Verdict
    count: int
    words: str


def headline(found: WhatIf, coverage: str) -> str:
    """Relative fitness with its interval."""
    fitness = found.relative_fitness
    return (
        f"Expected relative fitness ψ = {number(fitness.mean)} ({coverage}: {number(fitness.low)} to "
        f"{number(fitness.high)})"
    )


def verdict_line(found: WhatIf) -> str:
    """How many owners are expected to gain, and how many of them for sure."""
    expected, count = sum(owner.expected for owner in found.owners), len(found.owners)
    surely = sum(owner.verdict == "join" for owner in found.owners)
    if not expected:
        return f"No at these terms: none of {counted(count, 'owner')} is expected to gain by joining."
    sure = f"{surely:,}" if surely else "none"
    are = "is" if expected == 1 else "are"
    return f"{expected:,} of {counted(count, 'owner')} {are} expected to gain by joining, {sure} for sure."


def tally(found: WhatIf) -> list[Tally]:
    """For how many owners joining is better, for how many not, and of how many nothing is sure, with how many of these
    are expected to gain."""
    unsure = [owner for owner in found.owners if owner.verdict == "unknown"]
    hoped = sum(owner.expected for owner in unsure)
    more = {"unknown": f"; {f'{hoped:,}' if hoped else 'none'} of them expected to gain"} if unsure else {}
    return [
        Tally(verdict, sum(owner.verdict == verdict for owner in found.owners), words + more.get(verdict, ""))
        for verdict, words in COUNTED.items()
    ]


def sentences(found: WhatIf) -> list[str]:
    """Whom it is best to ask, and what for."""
    out = [owner.name for owner in found.owners if not owner.asked]
    if not out:
        return ["Asking all is best for the joint model's own quality, whether or not each gains."]
    return [f"For the joint model's own quality better without {listed_names(out)}, whether or not each gains."]


def gain_words(owner: OwnerGain) -> str:
    """What one owner gains, with its interval."""
    gain = owner.gain
    return f"{number(gain.mean, 2)} ({ends(gain.low, gain.high, 2)}) of {number(owner.alone, 3)}"


def meaning_words(epsilon: float, delta: float, unit: str = "person") -> str:
    """What an epsilon promises to one unit of privacy, in few words; the long ones are `parley budget explain`'s."""
    content = explanation(epsilon, delta)
    posterior = content["posterior"]
    if posterior["failure"] < 1:
        chance = (
            f", but for a chance of {number(posterior['failure'], 2, side='above')} ({WIDER})"
            if posterior["failure"]
            else ""
        )
        believed, becomes = percent(content["prior"]), percent(posterior["high"], "above")
        return f"a belief of {believed} about one {unit} becomes {becomes} at most{chance}"
    found = percent(content["detection_at_5_percent_false_alarms"], "above")
    return f"an attack with 5 % false alarms finds {found} at most"
