"""What owners are told, in words: who can read what they share where hosts draw one noise, how far one person can move
an answer, and what cells decide where rows stand.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from parley.numerals import number
from parley.owner.owner import Agreement
from parley.terms import Host, Terms
from parley.terms.file import TermsWarning
from parley.terms.sections import OWNER
from parley.validate import printable


def roles(terms: Terms, host: Host) -> list[str]:
    """What else a host is under these terms."""
    owners = {owner.name for owner in terms.owners}
    return ["learner"] * (host.name == terms.learning.learner) + ["owner"] * (host.name in owners)


def facts(terms: Terms) -> list[dict[str, Any]]:
    """The hosts, for programs; none where every owner draws its own noise."""
    return [{"name": host.name, "roles": roles(terms, host), "key": host.key} for host in terms.hosts]


def words(terms: Terms) -> str:
    """The hosts by name, and what else each of them is."""
    return listed([_named(terms, host) for host in terms.hosts])


def role_warnings(terms: Terms) -> list[TermsWarning]:
    """Hosts that have an interest in what they could read together."""
    found = []
    learners = [host for host in terms.hosts if "learner" in roles(terms, host)]
    owners = [host for host in terms.hosts if "owner" in roles(terms, host) and host not in learners]
    two = terms.noise.hosts == 2
    many, more, other = ("two", "the other", "the other host") if two else ("three", "one more", "any other host")
    if learners:
        others = listed([printable(host.name) for host in terms.hosts if host not in learners], "or")
        found.append(
            TermsWarning(
                "hosts",
                f"The learner, {printable(learners[0].name)}, is one of the {many} hosts: with {more}, {others}, it "
                "reads every owner's exact sums, without noise.",
            )
        )
    if owners:
        names = listed([printable(host.name) for host in owners])
        who = "Owners are" if len(owners) > 1 else "An owner is"
        found.append(
            TermsWarning(
                "hosts",
                f"{who} among the hosts ({names}). The guarantee holds while no two hosts act together, and a host "
                f"that is an owner too is not one of the owners who may: with {other} it reads every owner's exact "
                "sums.",
            )
        )
    return found


def key_warnings(terms: Terms, pinned: Collection[str], place: str) -> list[TermsWarning]:
    """Hosts that are known by their names alone; `pinned` are those whose keys this party's own settings give, in
    `place`."""
    unknown = [printable(host.name) for host in terms.hosts if host.key is None and host.name not in pinned]
    if not unknown:
        return []
    return [
        TermsWarning(
            "hosts.key",
            f"Neither the terms nor {place} say which key {listed(unknown)} must show. Whoever holds the authority's "
            "key can certify itself under these names, be sent what two hosts are sent, and read exact sums without "
            "noise. Compare fingerprints over the phone (parley certs show) and put them into the terms, or into "
            f"{place}.",
        )
    ]


def listed(names: Collection[str], word: str = "and") -> str:
    """Names as one reads them out.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *most, last = names
    return f"{', '.join(most)} {word} {last}" if most else last


def _named(terms: Terms, host: Host) -> str:
    also = roles(terms, host)
    return printable(host.name) + (
        f" ({listed([f'the {role}' if role == 'learner' else f'an {role}' for role in also])})" if also else ""
    )


def limit_words(agreement: Agreement, found: Mapping[str, Any]) -> str:
    """The sentence about what limits an answer; `found` are the same as figures (`warnings.figures`)."""
    moves = _whole(found) if agreement.setup.terms.privacy.unit == OWNER else _of_records(agreement, found)
    return (
        f"{moves} an answer by at most {number(found['sensitivity'])}; the noise has scale "
        f"{number(found['noise_scale'])}."
    )


def _whole(found: Mapping[str, Any]) -> str:
    return (
        f"What your answer as a whole counts at most: {number(found['clip'])} in {found['norm'].upper()}, by "
        f"privacy.clip (parameters: {_box(found)}). All of your rows together move"
    )


def _of_records(agreement: Agreement, found: Mapping[str, Any]) -> str:
    task = agreement.setup.task
    if found["record_bound"] is None:
        return f"A {task.unit} moves"
    by = "one leaf a tree" if found["leaves"] is not None else "what public rows reach"
    by = "privacy.clip" if found["clips"] else "the ranges below" if found["trees"] is None else by
    clip = "none" if found["clip"] is None else number(found["clip"])
    weights = ", ".join(f"{number(weight)} for class {name}" for name, weight in sorted(found["class_weight"].items()))
    return (
        f"What one {task.record} counts at most: {number(found['record_bound'])} in {found['norm'].upper()}, by "
        f"{by} (clip: {clip}; weights: {weights or '1 for all'}; parameters: {_box(found)}). A {task.unit} moves"
    )


def _box(found: Mapping[str, Any]) -> str:
    return "anything" if found["radius"] is None else f"±{number(found['radius'])}"


def place_warnings(columns: Sequence[str]) -> list[TermsWarning]:
    """Columns by which rows are placed: batches and held-out rows are chosen by places, which count as public."""
    if not columns:
        return []
    listed = ", ".join(printable(column) for column in columns)
    said = (
        f"The rows of your table stand in the order of {listed}, after which its folders are named. Somebody with "
        "another value there would stand elsewhere and move the rows between: these columns count as public, and the "
        "promise is about all others."
    )
    return [TermsWarning("owners.data", said)]
