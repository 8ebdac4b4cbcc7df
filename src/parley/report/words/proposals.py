"""Proposed terms as tables: an owner's inbox, and what a learner hears of its proposals."""

from collections.abc import Sequence
from typing import Any

from parley.validate import printable

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
