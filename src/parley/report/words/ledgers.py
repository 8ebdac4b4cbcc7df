"""An owner's books and inbox, a host's books and a learner's proposals, as tables and lines."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from parley.numerals import counted, number
from parley.validate import printable

FEW = 6  # ledgers that are named
BOOKS = ["owner", "spent", "left", "by whom", "chain", "table's digest"]


def agreement_rows(content: dict[str, Any]) -> list[list[str]]:
    """A table with one row for each agreement in an owner's ledger."""
    rows = [["agreement", "learner", "accepted", "ε promised", "ε spent", "answers"]]
    for a in content["agreements"]:
        title = printable(a["title"] or "", 40) or a["terms"][:16] + "…"
        answers = f"{a['answers']} of {a['agreed_answers']}" + (", closed" if a["closed"] else "")
        promised, spent = (number(a[key], side="above") for key in ("epsilon", "epsilon_spent"))
        rows.append([title, a["learner"], a["accepted"][:10], promised, spent, answers])
    return rows


def journal_rows(content: dict[str, Any]) -> list[list[str]]:
    """What a host opened: one row an agreement."""
    rows = [["agreement", "learner", "opened", "aborted", "waiting"]]
    for a in content["agreements"]:
        title = printable(a["title"] or "", 40) or a["terms"][:16] + "…"
        opened = f"{a['opened']} of {a['rounds']}" + ("" if a["begun"] else ", of another journal")
        rows.append([title, a["learner"], opened, str(a["void"]), ", ".join(map(str, a["waiting"])) or "none"])
    return rows


def books_row(content: dict[str, Any], tables: list[str]) -> list[str]:
    """One ledger among others, below `BOOKS`: what was spent of it and is left, by whom, that its chain was
    checked, and the digests of its tables."""
    rho = content["rho"]
    if rho is None:
        left = Fraction(repr(content["lifetime"]["epsilon"])) - Fraction(repr(content["reserved"]["epsilon"]))
        said = f"ε = {number(left, side='below')} of {number(content['lifetime']['epsilon'])}"
    else:
        left = max(rho["lifetime"] - rho["reserved"], 0.0)
        said = f"ρ = {number(left, side='below')} of {number(rho['lifetime'], side='below')}"
    learners = ", ".join(sorted({a["learner"] for a in content["agreements"]})) or "nobody yet"
    digests = ", ".join(digest[:16] + "…" for digest in tables) or "–"
    spent = f"ε = {number(content['epsilon_spent'], side='above')}"
    return [content["owner"], spent, said, learners, f"{_entries(content)}, unbroken", digests]


def made_words(names: Sequence[str], folder: str, lifetime: float, lifetime_delta: float) -> str:
    """Which ledgers a release makes, and what of them never changes."""
    named = ", ".join(f"{printable(name)}.ledger" for name in names[:FEW])
    more = f", and {len(names) - FEW} more" if len(names) > FEW else ""
    what, each = ("Ledgers", " each") if len(names) > 1 else ("A ledger", "")
    return (
        f"{what} will be made in {printable(folder)}: {named}{more}; with a lifetime budget of ε = "
        f"{number(lifetime, 8)}, δ = {number(lifetime_delta, 8)}{each}, for ever."
    )


def other_books_lines(content: dict[str, Any]) -> list[str]:
    """Why an owner's table may have other books, as somebody said when terms were accepted."""
    return [
        f"Other books beside {a['terms'][:16]}…: {printable(a['other_books'])}"
        for a in content["agreements"]
        if a["other_books"] is not None
    ]


def chain_line(content: dict[str, Any]) -> str:
    """How many entries the books have, and where their chain, which was checked, ends."""
    return f"{_entries(content)}, chain unbroken, head {content['head'][:16]}…"


def lifetime_line(content: dict[str, Any]) -> str:
    """What the table's whole life may cost, and how much of it is left."""
    lifetime, reserved, rho = content["lifetime"], content["reserved"], content["rho"]
    if rho is not None:
        unreserved = number(max(rho["lifetime"] - rho["reserved"], 0.0), side="below")
        return (
            f"lifetime ε = {number(lifetime['epsilon'])} ({content['adjacency']}), δ = {number(lifetime['delta'])}, "
            f"held as zCDP, ρ = {number(rho['lifetime'], side='below')}: {number(rho['reserved'], side='above')} "
            f"reserved, {unreserved} left for further terms; the agreements' ε add up to "
            f"{number(reserved['epsilon'], side='above')}, {number(content['epsilon_spent'], side='above')} of it "
            "spent"
        )
    left = Fraction(repr(lifetime["epsilon"])) - Fraction(repr(reserved["epsilon"]))
    said = (
        f"lifetime ε = {number(lifetime['epsilon'])} ({content['adjacency']}): "
        f"{number(reserved['epsilon'], side='above')} reserved for terms that were accepted, "
        f"{number(content['epsilon_spent'], side='above')} of it spent; {number(left, side='below')} left for further "
        "terms"
    )
    if lifetime["delta"] > 0:
        said += f"; δ = {number(lifetime['delta'])}: {number(reserved['delta'], side='above')} reserved"
    return said


def _entries(content: dict[str, Any]) -> str:
    return counted(content["rows"], "entry", "entries")


NOT_TOLD = "not told"  # in the place of a state


def inbox_rows(content: dict[str, Any]) -> list[list[str]]:
    """A table with one row for each proposal, from what `Inbox.facts` says of them."""
    rows = [["terms", "state", "title", "proposed by", "received (UTC)"]]
    for each in content["proposals"]:
        when = each["received"].replace("T", " ")[:16]
        names = printable(", ".join(each["proposed_by"]), 80)
        rows.append([each["terms_hash"][:16] + "…", state_line(each), each["title"] or "–", names, when])
    return rows


def state_line(facts: dict[str, Any]) -> str:
    """The state of a proposal in one word, with its end if it is open, and the reason if there is one."""
    if facts["until"]:
        return f"{facts['state']} until {facts['until'][:10]}"
    return f"{facts['state']}: {facts['reason']}" if facts["reason"] else str(facts["state"])


def proposal_line(facts: dict[str, Any]) -> str:
    """Who proposed terms, with which key, and when."""
    names = printable(", ".join(facts["proposed_by"]), 80)
    when = facts["received"].replace("T", " ")[:16]
    return f"Proposed by {names} with the key {facts['key'][:16]}…, {when} UTC: {state_line(facts)}."


def told_rows(content: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A table with one row for each owner that terms were proposed to."""
    return [
        ["owner", "proposal", "reason"],
        *([each["owner"], each["state"] or NOT_TOLD, each["reason"] or "–"] for each in content),
    ]
