"""What joining would mean for owners, in a sentence and a table: the same words wherever an outlook is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.decisions.outlook.forecast import WhatIf
from parley.decisions.outlook.outlook import SURE, Outlook, OwnerOutlook, Verdict
from parley.numerals import counted, ends, number, percent
from parley.owner.acceptance_summary import DECIDING
from parley.privacy.accounting.meaning import WIDER, explanation

if TYPE_CHECKING:
    from parley.decisions.outlook.inside_view import InsideView


NAMED = 6  # owners in a sentence
ONE = "One owner by itself has nobody to join. Whether the model is worth a budget, those know whom it will serve."
NOBODY = "Stay: joining is worth it for no group of these owners. Each is as well off with a model of its own."
TITLE = "What joining saves each owner's customers, in % of what they cost alone"


def verdict_sentence(outlook: Outlook, file: str = "TERMS") -> str:
    """Should these owners learn together? And what would settle it, where that is not known."""
    found, count = outlook.consortium, len(outlook.names)
    if count == 1:
        return ONE
    if found.verdict == "stay":
        return NOBODY
    there = outlook.at(members=found.members)
    members = [owner for owner in there.owners if owner.name in found.members]
    out = [name for name in outlook.names if name not in found.members]
    without = f" without {listed_names(out)}" if out else ""
    if found.verdict == "join":
        return f"Join{without}: it is worth it for all {counted(len(members), 'member')}, {_saved(members)}."
    sure = [owner.name for owner in members if owner.verdict == "join"]
    surely = f" Worth it for {listed_names(sure)}." if sure else ""
    saved = (
        f"joining is expected to save members {_saved(members)}, and may save nothing"
        if sum(owner.gain.mean for owner in members) > 0
        else "joining may save some members something, and is expected to save nothing on average"
    )
    more = f"An owner's own rows tell more: parley forecast {file} --inside TABLE --owner NAME."
    return f"Unsure{without}: {saved}.{surely} {more}"


def _saved(members: Sequence[OwnerOutlook]) -> str:
    gain, alone = (
        sum(values) / len(members) for values in ([o.gain.mean for o in members], [o.alone for o in members])
    )
    share = f" ({number(100 * gain / alone, 2)} %)" if alone > 0 else ""
    return f"{number(gain, 2)} of {number(alone, 3)}{share} on average"


def gain_rows(outlook: Outlook) -> list[list[str]]:
    """What joining saves each owner, and whether it should; fits 80 columns."""
    rows = [["owner", "rows", "gain", "90 %", "verdict"]]
    for owner in outlook.owners:
        low, high = (percent_of(end, owner.alone) for end in (owner.gain.low, owner.gain.high))
        gain = percent_of(owner.gain.mean, owner.alone)
        rows.append([owner.name, f"{owner.records:,}", f"{gain} %", f"{low} to {high}", owner.verdict])
    return rows


def percent_of(value: float, whole: float) -> str:
    """A share in percent, without the sign of percent.

    >>> percent_of(0.123, 10.0), percent_of(-4e-5, 1.0), percent_of(1.0, 0.0)
    ('1.2', '-0.004', '-')
    """
    return number(100 * value / whole, 2) if whole > 0 else "-"


def listed_names(names: Sequence[str]) -> str:
    """Some of the names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def inside_rows(view: "InsideView") -> list[list[str]]:
    """What three models would cost one owner's rows."""
    owner = view.owner
    rows = [[f"{view.rows:,} own rows of {owner.name}", "expected cost"]]
    rows.append([f"alone ({view.alone_model})", number(owner.alone)])
    rows.append(["the joint model as it is", number(owner.together)])
    rows.append(["the personal model: the joint one, corrected by own rows", number(owner.personal)])
    return rows


def inside_sentences(view: "InsideView") -> list[str]:
    """The verdict, what it rests on, and whether own rows are like the public sample's."""
    from parley.decisions.outlook.inside_view import LEVEL

    owner = view.owner
    gain = (
        f"joining is expected to save {number(owner.gain.mean)} a row (90 %: {ends(owner.gain.low, owner.gain.high)})"
    )
    price = f", {number(owner.price)} of it for its privacy cost (privacy_cost / value)" if owner.price else ""
    asks = f"the {number(view.least)} that make it worth it{price}"
    advice = {
        "join": f"Join: {gain}; that is more than {asks}, in {SURE:.0%} of draws or more.",
        "stay": f"Stay: {gain}; that is less than {asks}, in {SURE:.0%} of draws or more.",
        "unsure": f"Unsure: {gain}; that may be more or less than {asks}.",
    }[owner.verdict]
    level = f"a test that errs in {LEVEL:.0%} of owners that do not"
    trees = {
        "boosted trees": "Boosted trees of own rows are ahead of a linear model: little is left for joining to add.",
        "linear and trees": "Trees of own rows correct the linear model, alone and with the others.",
    }
    said = [advice, *([trees[view.alone_model]] if view.alone_model in trees else []), DECIDING]
    if view.law is None:
        return [
            advice,
            "There is no public sample: this is as if the others' rows followed the law of these. If they do not, "
            "joining brings less; scores after training tell (parley score).",
            *said[1:],
        ]
    if view.law.differs:
        return [
            f"Own rows differ from the public sample's law (p = {number(view.law.p_value)}, {level}): it may be of "
            "another population, and what it says of the joint model may be wrong.",
            *said,
        ]
    same = f"Own rows do not visibly differ from the public sample's law (p = {number(view.law.p_value)}, {level})."
    return [advice, same, *said[1:]]


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
