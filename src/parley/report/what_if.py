"""A forecast that was carried over to other numbers of the owners, in words and cells."""

from parley.decisions.forecasting.what_if import OwnerGain, WhatIf
from parley.numerals import number, percent
from parley.privacy.accounting.explanation import explanation
from parley.report.forecast import listed_names

VERDICTS = {"join": "gains", "stay": "does not gain", "unknown": "cannot say"}
CARRIED = "At once, carried over from the last whole forecast; the whole one follows."


def headline(found: WhatIf, coverage: str) -> str:
    """Relative fitness with its interval."""
    fitness = found.relative_fitness
    return (
        f"Expected relative fitness ψ = {number(fitness.mean)} ({coverage}: {number(fitness.low)} to "
        f"{number(fitness.high)})"
    )


def sentences(found: WhatIf) -> list[str]:
    """For how many joining is better, and whom it is best to ask."""
    count = {verdict: sum(owner.verdict == verdict for owner in found.owners) for verdict in VERDICTS}
    said = [
        f"Better for {count['join']} of {len(found.owners)} owners whatever they differ by, not for {count['stay']}; "
        f"cannot say for {count['unknown']}."
    ]
    out = [owner.name for owner in found.owners if not owner.asked]
    if not out:
        return [*said, "The joint model is best if all are asked."]
    return [*said, f"For the joint model's test cost better without {listed_names(out)}."]


def gain_words(owner: OwnerGain) -> str:
    """What one owner gains, with its interval."""
    gain = owner.gain
    return f"{number(gain.mean, 2)} ({number(gain.low, 2)} to {number(gain.high, 2)}) of {number(owner.alone, 3)}"


def meaning_words(epsilon: float, delta: float) -> str:
    """What an epsilon promises to a person, in few words; the long ones are `parley budget explain`'s."""
    content = explanation(epsilon, delta)
    posterior = content["posterior"]
    if posterior["failure"] < 1:
        chance = (
            f", but for a chance of {number(posterior['failure'], 2, side='above')}" if posterior["failure"] else ""
        )
        return f"a belief of {percent(content['prior'])} becomes {percent(posterior['high'], 'above')} at most{chance}"
    found = percent(content["detection_at_5_percent_false_alarms"], "above")
    return f"an attack with 5 % false alarms finds {found} at most"
