"""What owners that lie can do, in a table and sentences."""

from parley.audit.attacks.damage import Damage
from parley.numerals import number, percent

LEAD = "What owners that lie can do to a joint model, from public numbers alone: no table was read."


def rule_rows(found: Damage) -> list[list[str]]:
    """A table: what each rule costs where nobody lies, and how far lies move a round's answer."""
    rows = [["rule", "noise, times the mean's", "typical noise", "moved by a lie unnoticed", "by any lie"]]
    for rule in found.rules:
        name = f"{rule.rule} (agreed)" if rule.agreed else rule.rule
        moved = (f"{number(shift, 3)}" for shift in (rule.shift, rule.outside))
        rows.append([name, number(rule.price, 3), number(rule.noise, 3), *moved])
    return rows


def sentences(found: Damage) -> list[str]:
    """What the table means, what cannot be noticed, and what a learner gains that lies."""
    who = ", ".join(found.liars)
    said = [
        f"If {who} ({percent(found.share)} of the records of the lightest round that the terms allow) lied: sizes are "
        "of the combined answer of such a round, in L2, where honest owners agree but for their noise. Where they "
        "differ, a liar has that much more room under every rule but the mean.",
        "Undetectable: exact answers within the bound, with a turned sign or of exchanged labels, are those of an "
        "honest owner of another law. Under the mean they move a round's answer by at most "
        f"{number(found.undetectable, side='above')} ({found.norm.upper()}): the liars' share, times from one "
        "end of the bound to the other. Who lies within what noise hides as well, in every "
        "round, is not named for it either and moves it by at most "
        f"{number(found.unnoticed, side='above')} on average.",
        f"Answers beyond bound and noise are named in the result; of honest runs at most one in "
        f"{1 / found.false_alarms:,.0f} names anybody.",
    ]
    if found.learner is not None:
        said.append(
            f"A learner that asks at parameters of its choice: of two usual people an answer tells "
            f"{percent(found.learner.at_start)} of what its noise was made for where a run begins, and "
            f"{percent(found.learner.at_worst)} at the worst parameter that was found. The bound holds at all of "
            "them, so it is never more than 100%, and epsilon stands."
        )
    return said
