"""Proposed terms as tables: an owner's inbox, and what a learner hears of its proposals."""

from collections.abc import Sequence
from typing import Any

from parley.validate import printable

SAID = {"open": "open", "accepted": "accepted", "refused": "refused", None: "not told"}


def inbox_rows(content: dict[str, Any]) -> list[list[str]]:
    """A table with one row for each proposal, from what `Inbox.facts` says of them."""
    rows = [["terms", "title", "proposed by", "received", "state"]]
    for each in content["proposals"]:
        reason = f": {each['reason']}" if each["reason"] else ""
        when = each["received"].replace("T", " ")[:16]
        names = printable(", ".join(each["proposed_by"]), 80)
        rows.append([each["terms_hash"][:16] + "…", each["title"] or "–", names, f"{when} UTC", each["state"] + reason])
    return rows


def proposal_line(facts: dict[str, Any]) -> str:
    """Who proposed terms, with which key, and when."""
    names = printable(", ".join(facts["proposed_by"]), 80)
    when = facts["received"].replace("T", " ")[:16]
    return f"Proposed by {names} with the key {facts['key'][:16]}…, {when} UTC: {facts['state']}."


def told_rows(content: Sequence[dict[str, Any]]) -> list[list[str]]:
    """A table with one row for each owner that terms were proposed to."""
    return [
        ["owner", "proposal", "reason"],
        *([each["owner"], SAID[each["state"]], each["reason"] or "–"] for each in content),
    ]
