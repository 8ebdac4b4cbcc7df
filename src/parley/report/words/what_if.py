"""A forecast that was carried over to other numbers of the owners, in words and cells."""

from dataclasses import dataclass

from parley.decisions.outlook.forecast import WhatIf
from parley.decisions.outlook.outlook import OwnerOutlook, Verdict
from parley.numerals import ends, number, percent
from parley.privacy.accounting.explanation import explanation
from parley.privacy.accounting.meaning import WIDER
from parley.report.words.outlook import listed_names, verdict_sentence

VERDICTS = {"join": "join", "stay": "stay", "unsure": "unsure"}
COUNTED: dict[Verdict, str] = {
    "join": "join: worth it, whatever is left open",
    "unsure": "unsure",
    "stay": "stay: not worth it",
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
    """Should these owners learn together?"""
    return verdict_sentence(found.outlook)


def tally(found: WhatIf) -> list[Tally]:
    """For how many owners joining is worth it, for how many not, and of how many that is not sure."""
    verdicts = found.outlook.verdicts
    return [Tally(verdict, verdicts.count(verdict), words) for verdict, words in COUNTED.items()]


def sentences(found: WhatIf) -> list[str]:
    """Whom it is best to ask, and what for."""
    out = [name for name in found.outlook.names if name not in found.best_coalition]
    if not out:
        return ["Asking all is best for the joint model's own quality, whether or not each gains."]
    return [f"For the joint model's own quality better without {listed_names(out)}, whether or not each gains."]


def gain_words(owner: OwnerOutlook) -> str:
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
