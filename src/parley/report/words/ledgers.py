"""The books of owners and hosts, and proposals of learners, as tables and lines."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from parley.numerals import counted, number
from parley.validate import printable

MAX_LEDGERS_NAMED = 6  # ledgers that are named
MAX_TITLE_CHARACTERS = 16  # characters of a title or a learner in a table
LEDGER_HEADER = ["owner", "spent", "left", "learners", "entries, all checked", "table's digest"]


def agreement_rows(content: dict[str, Any]) -> list[list[str]]:
    """Return a table of the agreements in an owner's ledger."""
    rows = [["agreement", "learner", "accepted", "ε spent", "answers"]]
    for a in content["agreements"]:
        answers = f"closed at {a['answers']}" if a["closed"] else f"{a['answers']} of {a['agreed_answers']}"
        promised, spent = (number(a[key], side="above") for key in ("epsilon", "epsilon_spent"))
        rows.append(
            [
                _title(a),
                printable(a["learner"], MAX_TITLE_CHARACTERS),
                a["accepted"][:10],
                f"{spent} of {promised}",
                answers,
            ]
        )
    return rows


def agreement_lines(content: dict[str, Any]) -> list[str]:
    """Return each agreement's hash with its full title and learner, which the table cuts."""
    return [
        f"{a['terms'][:16]}…  {printable(a['title'] or 'without a title')}, learner {printable(a['learner'])}"
        for a in content["agreements"]
    ]


def journal_rows(content: dict[str, Any]) -> list[list[str]]:
    """Return a table of what a host opened, by agreement."""
    rows = [["agreement", "learner", "opened", "aborted", "waiting"]]
    for a in content["agreements"]:
        where = ", closed" if a["closed"] else "" if a["begun"] else ", elsewhere"
        opened = f"{a['opened']} of {a['rounds']}{where}"
        waiting = ", ".join(map(str, a["waiting"])) or "none"
        rows.append([_title(a), printable(a["learner"], MAX_TITLE_CHARACTERS), opened, str(a["void"]), waiting])
    return rows


def _title(agreement: dict[str, Any]) -> str:
    return printable(agreement["title"] or "", MAX_TITLE_CHARACTERS) or agreement["terms"][:16] + "…"


def books_row(content: dict[str, Any], tables: list[str]) -> list[str]:
    """Return one ledger's row below `LEDGER_HEADER`."""
    rho = content["rho"]
    if rho is None:
        left = Fraction(repr(content["lifetime"]["epsilon"])) - Fraction(repr(content["reserved"]["epsilon"]))
        budget_left = f"ε = {number(left, side='below')} of {number(content['lifetime']['epsilon'])}"
    else:
        left = max(rho["lifetime"] - rho["reserved"], 0.0)
        budget_left = f"ρ = {number(left, side='below')} of {number(rho['lifetime'], side='below')}"
    learners = ", ".join(sorted({a["learner"] for a in content["agreements"]})) or "none yet"
    digests = ", ".join(digest[:16] + "…" for digest in tables) or "–"
    spent = f"ε = {number(content['epsilon_spent'], side='above')}"
    return [content["owner"], spent, budget_left, learners, _entries(content), digests]


def made_words(names: Sequence[str], folder: str, lifetime: float, lifetime_delta: float) -> str:
    """Say which ledgers a release creates, with their permanent lifetime budget."""
    named = ", ".join(f"{printable(name)}.ledger" for name in names[:MAX_LEDGERS_NAMED])
    more = f", and {len(names) - MAX_LEDGERS_NAMED} more" if len(names) > MAX_LEDGERS_NAMED else ""
    what, each = ("these ledgers", "Each ledger") if len(names) > 1 else ("this ledger", "The ledger")
    return (
        f"Parley will create {what} in {printable(folder)}: {named}{more}. {each} will have a lifetime budget of ε = "
        f"{number(lifetime, 8)}, δ = {number(lifetime_delta, 8)}, which can never be changed."
    )


def other_books_lines(content: dict[str, Any]) -> list[str]:
    """Say why an owner's table may have other ledgers, as stated when terms were accepted."""
    return [
        f"Reason why the table may have another ledger (terms {a['terms'][:16]}…): {printable(a['other_books'])}"
        for a in content["agreements"]
        if a["other_books"] is not None
    ]


def units_line(content: dict[str, Any]) -> str | None:
    """Say so if agreements protect different units: what they spend then adds up for none of them."""
    units = {a["protected"] for a in content["agreements"] if a["protected"] is not None}
    unknown = sum(a["protected"] is None for a in content["agreements"])
    if unknown and len(content["agreements"]) > 1:
        return (
            f"The terms of {counted(unknown, 'agreement')} are not in the folder of accepted terms. The sum of ε "
            "over all agreements applies to one person only if all terms identify people by the same column "
            "(privacy.person)."
        )
    if len(units) < 2:
        return None
    return (
        f"The agreements protect different units ({'; '.join(sorted(units))}). The sum of ε over all agreements "
        "applies to one person only if every agreement identifies people by the same column (privacy.person)."
    )


def chain_line(content: dict[str, Any]) -> str:
    """Return the ledger's number of entries and the head of its verified chain."""
    return f"{_entries(content)}, chain unbroken, head {content['head'][:16]}…"


def lifetime_line(content: dict[str, Any]) -> str:
    """Say what the table's lifetime budget is, and how much of it is left."""
    lifetime, reserved, rho = content["lifetime"], content["reserved"], content["rho"]
    if rho is not None:
        unreserved = number(max(rho["lifetime"] - rho["reserved"], 0.0), side="below")
        return (
            f"Lifetime budget: ε = {number(lifetime['epsilon'])} ({content['adjacency']}), δ = "
            f"{number(lifetime['delta'])}, accounted as zCDP with ρ = {number(rho['lifetime'], side='below')}. "
            f"ρ = {number(rho['reserved'], side='above')} is reserved, and ρ = {unreserved} is left for further terms. "
            f"The agreements' ε add up to {number(reserved['epsilon'], side='above')}, of which "
            f"{number(content['epsilon_spent'], side='above')} is spent."
        )
    left = Fraction(repr(lifetime["epsilon"])) - Fraction(repr(reserved["epsilon"]))
    sentence = (
        f"Lifetime budget: ε = {number(lifetime['epsilon'])} ({content['adjacency']}). ε = "
        f"{number(reserved['epsilon'], side='above')} is reserved, of which "
        f"{number(content['epsilon_spent'], side='above')} is spent. ε = {number(left, side='below')} is left for "
        "further terms."
    )
    if lifetime["delta"] > 0:
        sentence += (
            f" The reserved δ is {number(reserved['delta'], side='above')} of the lifetime δ of "
            f"{number(lifetime['delta'])}."
        )
    return sentence


def _entries(content: dict[str, Any]) -> str:
    return counted(content["rows"], "entry", "entries")


NOT_DELIVERED = "not delivered"  # in place of a state


def inbox_rows(content: dict[str, Any], most: int = MAX_TITLE_CHARACTERS) -> list[list[str]]:
    """Return a table of proposals from `Inbox.facts`; names and titles have `most` characters."""
    rows = [["terms", "state", "title", "proposed by", "received"]]
    for each in content["proposals"]:
        names, title = (printable(text, most) for text in (", ".join(each["proposed_by"]), each["title"] or "–"))
        state = f"{each['state']} until {each['until'][:10]}" if each["until"] else each["state"]
        rows.append([each["terms_hash"][:8] + "…", state, title, names, each["received"][:10]])
    return rows


def state_line(facts: dict[str, Any]) -> str:
    """Return a proposal's state, with its end if it is open, and the reason if there is one."""
    if facts["until"]:
        return f"{facts['state']} until {facts['until'][:10]}"
    return f"{facts['state']}: {facts['reason']}" if facts["reason"] else str(facts["state"])


def proposal_line(facts: dict[str, Any]) -> str:
    """Say who proposed terms, with which key, and when."""
    names = printable(", ".join(facts["proposed_by"]), 80)
    when = facts["received"].replace("T", " ")[:16]
    return f"Proposed by {names} with the key {facts['key'][:16]}… at {when} UTC. State: {state_line(facts)}."


def proposal_rows(content: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return a table of the owners that terms were proposed to."""
    return [["owner", "proposal"], *([each["owner"], each["state"] or NOT_DELIVERED] for each in content)]


def told_lines(content: Sequence[dict[str, Any]]) -> list[str]:
    """Return the reasons for that table's states."""
    return [f"{each['owner']}: {printable(each['reason'])}" for each in content if each["reason"]]
