"""What would make joining worth it, in a sentence."""

from collections.abc import Sequence

from parley.decisions.outlook.remedies import LARGEST, Remedies, Remedy
from parley.numerals import number
from parley.report.words.outlook import listed_names

WAYS = {
    "each_owner": "with noise of each owner's own",
    "shared": "with one noise for all (three hosts)",
    "two_hosts": "with the noise of two hosts",
}


def remedy_line(found: Remedies, some: bool, owners: int) -> str:
    """From which budgets, with whose noise, or among how many owners it would be worth it; `some`: for some it is."""
    if found.already:
        rest = "gains surely at any budget does so" if found.surely else "is expected to gain at any budget is so"
        more = "" if found.surely else ": what makes it unsure is no budget's matter"
        never = f"; never: {listed_names(list(found.never))}" if found.never else ""
        return f"Larger budgets would not change that: whoever {rest} already{more}{never}."
    told = [_way_words(each, some) for each in found.ways if each.everybody is not None or each.first is not None]
    crowd = _crowd_words(found, some, owners)
    told += [] if crowd is None else [crowd]
    never = f" Never for {listed_names(list(found.never))}." if found.never and told else ""
    if not told:
        return f"No ε up to {number(LARGEST)} and no number of owners like these would make joining worth it."
    surely = "surely" if found.surely else "in half of the draws"
    so = "worth it for all that can gain" if some else "worth it"
    return f"It would be {so}, {surely}, {'; or '.join(told)}.{never}"


def _way_words(remedy: Remedy, some: bool) -> str:
    """One way to spend budgets: from where on somebody gains, and from where on all that can."""
    first, everybody = (_budget(each, remedy.times) for each in (remedy.first, remedy.everybody))
    said = WAYS[remedy.way]
    if some or first is None or first == everybody:
        return f"{said} from {everybody}" if everybody is not None else f"{said} from {first}, for some"
    for_all = f", for all that can gain from {everybody}" if everybody is not None else ""
    return f"{said} from {first} for {listed_names(list(remedy.names))}{for_all}"


def _budget(value: float | None, times: bool) -> str | None:
    if value is None:
        return None
    shown = number(value, 2, side="above")
    return f"{shown} times these ε" if times else f"ε {shown}"


def _crowd_words(found: Remedies, some: bool, owners: int) -> str | None:
    """Among how many owners like these it would be worth it; None where more of them do not help."""
    ends: Sequence[int | None] = (found.owners, found.owners_for_all)
    more = [each for each in ends if each is not None and each > owners]
    if not more:
        return None
    first, everybody = more[0], more[-1]
    if some or first == everybody:
        return f"from {everybody:,} owners like these"
    return f"from {first:,} owners like these for some, from {everybody:,} for all that can gain"
