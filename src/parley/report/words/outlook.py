"""What joining would mean for owners, in one sentence and one table, the same everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parley.decisions.outlook.forecast import WhatIf
from parley.decisions.outlook.outlook import SURE_SHARE, Outlook, OwnerOutlook, Verdict
from parley.numerals import counted, interval_text, number, percent
from parley.owner.acceptance_summary import DECISION_WARNING
from parley.privacy.accounting.meaning import WIDER_NOTE, explanation

if TYPE_CHECKING:
    from parley.decisions.outlook.inside_view import InsideView


MAX_NAMES = 6  # owners in a sentence
ONE_OWNER_NOTE = (
    "There is only one owner, so there are no other owners to join. Whether the model is worth its budget depends "
    "on its users."
)
NOBODY_GAINS_VERDICT = (
    "Stay: no group of these owners gains enough to join. Each owner does as well with a model of its own."
)
GAIN_TITLE = "What joining saves each owner, as a % of its own model's test error"


def verdict_sentence(outlook: Outlook) -> str:
    """Say whether these owners should learn together."""
    consortium, count = outlook.consortium, len(outlook.names)
    if count == 1:
        return ONE_OWNER_NOTE
    if consortium.verdict == "stay":
        return NOBODY_GAINS_VERDICT
    restricted = outlook.at(members=consortium.members)
    members = [owner for owner in restricted.owners if owner.name in consortium.members]
    rest = _who_stays_out(outlook)
    average = _average_gain(members)
    if consortium.verdict == "join":
        whom = "both members gain" if len(members) == 2 else f"all {counted(len(members), 'member')} gain"
        return f"Join: {whom} for sure. {average}.{rest}"
    sure = [owner.name for owner in members if owner.verdict == "join"]
    if not sure:
        possibly = ", and possibly none" if "(" in average else ""
        return f"Unsure: no owner gains for sure. {average}{possibly}.{rest}"
    surely = f"{len(sure)} of {counted(len(members), 'member')} {'gains' if len(sure) == 1 else 'gain'} for sure"
    return f"Unsure: {surely}: {listed_names(sure)}. {average}.{rest}"


def _who_stays_out(outlook: Outlook) -> str:
    """Name the owners that gain too little from joining, then those that leave once the first stay out."""
    out = [owner for owner in outlook.owners if owner.name not in outlook.consortium.members]
    first = [owner.name for owner in out if owner.verdict == "stay"]
    then = [owner.name for owner in out if owner.verdict != "stay"]
    if not first:
        return f" The joining owners gain more without {listed_names(then)}." if then else ""
    stays = "gains too little and stays out" if len(first) == 1 else "gain too little and stay out"
    if_first = f"If {listed_names(first)} {'stays' if len(first) == 1 else 'stay'} out"
    follow = f" {if_first}, {listed_names(then)} {'stays' if len(then) == 1 else 'stay'} out too." if then else ""
    return f" {listed_names(first)} {stays}.{follow}"


def _average_gain(members: Sequence[OwnerOutlook]) -> str:
    gain, alone = (sum(each) / len(members) for each in zip(*((o.gain.mean, o.alone) for o in members), strict=True))
    if not gain > 0:
        return "Expected average gain: none"
    share = f"{number(100 * gain / alone, 2)}% of the test error" if alone > 0 else ""
    return f"Expected average gain: {share} ({number(gain, 2)} of {number(alone, 3)})"


def inside_hint(outlook: Outlook, file: str = "TERMS") -> str | None:
    """Return the command that tells an owner more if the verdict is open, else None."""
    if len(outlook.names) < 2 or outlook.consortium.verdict != "unsure":
        return None
    return f"An owner can get a verdict from its own rows: parley forecast {file} --inside TABLE --owner NAME"


def gain_rows(outlook: Outlook) -> list[list[str]]:
    """Return a table of what joining saves each owner, with its verdict; fits 80 columns."""
    rows = [["owner", "rows", "gain", "90% interval", "verdict"]]
    for owner in outlook.owners:
        low, high = (percent_of(end, owner.alone) for end in (owner.gain.low, owner.gain.high))
        gain = percent_of(owner.gain.mean, owner.alone)
        share = [f"{gain}%", f"{low} to {high}"] if owner.alone > 0 else ["–", "–"]
        rows.append([owner.name, f"{owner.records:,}", *share, owner.verdict])
    return rows


def percent_of(value: float, whole: float) -> str:
    """Write a share in percent, without the sign.

    >>> percent_of(0.123, 10.0), percent_of(-4e-5, 1.0), percent_of(1.0, 0.0)
    ('1.2', '-0.004', '-')
    """
    return number(100 * value / whole, 2) if whole > 0 else "-"


def listed_names(names: Sequence[str]) -> str:
    """List the first names, and how many more there are."""
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def inside_rows(view: "InsideView") -> list[list[str]]:
    """Return a table of what three models would cost one owner's rows."""
    owner = view.owner
    rows = [[f"{view.rows:,} own rows of {owner.name}", "expected cost"]]
    rows.append([f"alone ({view.alone_model})", number(owner.alone)])
    rows.append(["joint: the unchanged model", number(owner.together)])
    rows.append(["personal: the joint model, personalised with the owner's rows", number(owner.personal)])
    return rows


def inside_sentences(view: "InsideView") -> list[str]:
    """Give the verdict, its reasons, and whether own rows resemble the public sample's."""
    from parley.decisions.outlook.inside_view import TEST_LEVEL

    owner = view.owner
    interval = interval_text(owner.gain.low, owner.gain.high)
    verb, mean = ("save", owner.gain.mean) if owner.gain.mean >= 0 else ("cost", -owner.gain.mean)
    gain = f"joining is expected to {verb} {number(mean)} per row (90% interval of the saving: {interval})"
    price = f", plus {number(owner.price)} for privacy: privacy_cost / value" if owner.price else ""
    required = f"the required {number(view.least)} ({percent(view.worth)} of the cost alone{price})"
    advice = {
        "join": f"Join: {gain}. In at least {SURE_SHARE:.0%} of simulated draws, joining saves more than {required}.",
        "stay": f"Stay: {gain}. In at least {SURE_SHARE:.0%} of simulated draws, joining saves less than {required}.",
        "unsure": f"Unsure: {gain}. Joining may save more or less than {required}.",
    }[owner.verdict]
    level = f"the test's false-alarm rate is {TEST_LEVEL:.0%}"
    trees = {
        "boosted trees": "Boosted trees trained on the owner's rows beat a linear model, so joining can add little.",
        "linear and trees": "Trees trained on the owner's rows improve both the owner's linear model and the joint "
        "linear model.",
    }
    sentences = [advice, *([trees[view.alone_model]] if view.alone_model in trees else []), DECISION_WARNING]
    if view.law is None:
        return [
            advice,
            "There is no public sample, so the estimate assumes that all owners' rows are alike. If the rows differ, "
            "joining saves less than estimated. After training, a score shows how much joining really saves (parley "
            "score).",
            *sentences[1:],
        ]
    if view.law.differs:
        return [
            f"The owner's rows differ from the public sample (p = {number(view.law.p_value)}; {level}). If the sample "
            "comes from another population, the forecast for the joint model may be wrong.",
            *sentences,
        ]
    same = (
        f"The owner's rows show no significant difference from the public sample (p = {number(view.law.p_value)}; "
        f"{level})."
    )
    return [advice, same, *sentences[1:]]


VERDICTS = {"join": "join", "stay": "stay", "unsure": "unsure"}
COUNTED_VERDICTS: dict[Verdict, str] = {
    "join": "join: gain for sure",
    "unsure": "unsure",
    "stay": "stay: not worthwhile",
}
FITNESS_NOTE = "ψ = 0.05 means a training cost about 5% above that of the model without privacy."
QUICK_ESTIMATE_NOTE = (
    "The figures are a quick estimate from the last full forecast. A full forecast starts when you stop editing."
)


@dataclass(frozen=True)
class Tally:
    """The number of owners with a verdict."""

    verdict: Verdict
    count: int
    words: str


def headline(found: WhatIf, coverage: str) -> str:
    """Return relative fitness with its interval."""
    fitness = found.relative_fitness
    return (
        f"Expected relative fitness ψ = {number(fitness.mean)} ({coverage}: {number(fitness.low)} to "
        f"{number(fitness.high)})"
    )


def verdict_line(found: WhatIf) -> str:
    """Say whether these owners should learn together."""
    return verdict_sentence(found.outlook)


def tally(found: WhatIf) -> list[Tally]:
    """Count the owners with each verdict."""
    verdicts = found.outlook.verdicts
    return [Tally(verdict, verdicts.count(verdict), words) for verdict, words in COUNTED_VERDICTS.items()]


def sentences(found: WhatIf) -> list[str]:
    """Say without which owners the joint model would be better."""
    out = [name for name in found.outlook.names if name not in found.best_coalition]
    if not out:
        return ["The joint model is best with all owners, whether or not each owner gains."]
    return [f"The joint model itself would be better without {listed_names(out)}."]


def gain_words(owner: OwnerOutlook) -> str:
    """Write one owner's gain with its interval, in percent of its test error alone."""
    if not owner.alone > 0:
        return "no share, because the owner's own model is expected to make no error"
    gain, low, high = (percent_of(each, owner.alone) for each in (owner.gain.mean, owner.gain.low, owner.gain.high))
    return f"{gain}% ({low} to {high})"


def meaning_words(epsilon: float, delta: float, unit: str = "person") -> str:
    """Say briefly what an epsilon promises to one unit of privacy; `parley budget explain` says more."""
    content = explanation(epsilon, delta)
    posterior = content["posterior"]
    if posterior["failure"] < 1:
        chance = (
            f", except with probability {number(posterior['failure'], 2, side='above')} ({WIDER_NOTE})"
            if posterior["failure"]
            else ""
        )
        believed, becomes = percent(content["prior"]), percent(posterior["high"], "above")
        return f"a {believed} belief about one {unit} can rise to at most {becomes}{chance}"
    detection = percent(content["detection_at_5_percent_false_alarms"], "above")
    return f"an attack with 5% false alarms succeeds in at most {detection} of cases"
