"""What others can learn under terms: bits about a person, who can read shares, how far a person moves an answer."""

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeVar

from parley.numerals import counted, number
from parley.owner.owner import Agreement, reservation
from parley.privacy.accounting.meaning import (
    Leakage,
    approximate_posterior,
    gaussian_bits,
    posterior_bounds,
    pure_leakage,
    zcdp_leakage,
)
from parley.privacy.mechanisms import Gaussian
from parley.protocol.aggregation.mean import pieces
from parley.protocol.setup import Setup, resolve
from parley.protocol.stages import Stage
from parley.protocol.task import Task, task_of
from parley.terms import Host, Terms
from parley.terms.catalogue import ALL_MECHANISMS, TWO_HOSTS
from parley.terms.file import TermsWarning
from parley.terms.sections import OWNER_UNIT
from parley.validate import printable, upper


def roles(terms: Terms, host: Host) -> list[str]:
    """Return what else a host is under these terms."""
    owners = {owner.name for owner in terms.owners}
    return ["learner"] * (host.name == terms.learning.learner) + ["owner"] * (host.name in owners)


def host_facts(terms: Terms) -> list[dict[str, Any]]:
    """Return the hosts, for programs; none where every owner draws its own noise."""
    return [{"name": host.name, "roles": roles(terms, host), "key": host.key} for host in terms.hosts]


def host_names(terms: Terms) -> str:
    """Return the hosts by name, and what else each of them is."""
    return join_names([_named(terms, host) for host in terms.hosts])


def role_warnings(terms: Terms) -> list[TermsWarning]:
    """Warn of hosts that have an interest in what they could read together; of two that draw together, also alone."""
    if terms.noise.paired:
        return _paired_role_warnings(terms)
    warnings = []
    learners = [host for host in terms.hosts if "learner" in roles(terms, host)]
    owners = [host for host in terms.hosts if "owner" in roles(terms, host) and host not in learners]
    two = terms.noise.hosts == 2
    many, other = ("two", "the other host") if two else ("three", "any other host")
    if learners:
        others = join_names([printable(host.name) for host in terms.hosts if host not in learners], "or")
        warnings.append(
            TermsWarning(
                "hosts",
                f"The learner, {printable(learners[0].name)}, is one of the {many} hosts. Together with {others}, the "
                "learner can read every owner's exact sums, without noise.",
            )
        )
    if owners:
        names = join_names([printable(host.name) for host in owners])
        subject = "Owners are" if len(owners) > 1 else "An owner is"
        warnings.append(
            TermsWarning(
                "hosts",
                f"{subject} among the hosts ({names}). The guarantee holds as long as no two hosts act together, "
                f"including hosts that are owners. Together with {other}, an owner that is a host can read every "
                "owner's exact sums.",
            )
        )
    return warnings


def _paired_role_warnings(terms: Terms) -> list[TermsWarning]:
    sentences = []
    for host in terms.hosts:
        also, name = roles(terms, host), printable(host.name)
        if also:
            subject = f"The learner, {name}," if "learner" in also else f"The owner {name}"
            sentences.append(
                f"{subject} is one of two hosts that draw together. By departing from the protocol, {name} alone can "
                "remove nearly all noise, unnoticed."
            )
    if not sentences:
        return []
    sentences.append("Together, the two hosts can read every owner's exact sums, without noise.")
    return [TermsWarning("hosts", " ".join(sentences))]


def key_warnings(terms: Terms, pinned: Collection[str], place: str) -> list[TermsWarning]:
    """Warn of hosts known by name alone; `pinned` are those whose keys this party's own settings give, in `place`."""
    unknown = [printable(host.name) for host in terms.hosts if host.key is None and host.name not in pinned]
    if not unknown:
        return []
    return [
        TermsWarning(
            "hosts.key",
            f"Neither the terms nor {place} give the key of {join_names(unknown)}. Anyone who holds the authority's "
            "key can issue certificates in the names of hosts, receive the shares of two hosts, and read exact sums "
            "without noise. Compare the hosts' fingerprints over the phone (parley certs show) and write the "
            f"fingerprints into the terms or into {place}.",
        )
    ]


def join_names(names: Collection[str], word: str = "and") -> str:
    """Return names as one reads them out.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    *first_names, last = names
    return f"{', '.join(first_names)} {word} {last}" if first_names else last


def _named(terms: Terms, host: Host) -> str:
    also = roles(terms, host)
    return printable(host.name) + (
        f" ({join_names([f'the {role}' if role == 'learner' else f'an {role}' for role in also])})" if also else ""
    )


def limit_words(agreement: Agreement, found: Mapping[str, Any]) -> str:
    """Say what limits an answer; `warnings` holds the same limits as figures (`warnings.figures`)."""
    moves = (
        _answer_bound_words(found)
        if agreement.setup.terms.privacy.unit == OWNER_UNIT
        else _record_bound_words(agreement, found)
    )
    return (
        f"{moves} an answer by at most {number(found['sensitivity'])}. The noise has scale "
        f"{number(found['noise_scale'])}."
    )


def _answer_bound_words(found: Mapping[str, Any]) -> str:
    return (
        f"Bound on your whole answer: {number(found['clip'])} in {found['norm'].upper()}, from privacy.clip "
        f"(parameters: {_radius_words(found)}). All of your rows together change"
    )


def _record_bound_words(agreement: Agreement, found: Mapping[str, Any]) -> str:
    task = agreement.setup.task
    if found["record_bound"] is None:
        return f"A {task.unit} changes"
    by = "one leaf per tree" if found["leaves"] is not None else "the range of the public rows"
    by = "privacy.clip" if found["clips"] else "the ranges below" if found["trees"] is None else by
    clip = "none" if found["clip"] is None else number(found["clip"])
    weights = ", ".join(f"{number(weight)} for class {name}" for name, weight in sorted(found["class_weight"].items()))
    return (
        f"Bound on one {task.record}: {number(found['record_bound'])} in {found['norm'].upper()}, from {by} (clip: "
        f"{clip}; class weights: {weights or '1 for all'}; parameters: {_radius_words(found)}). A {task.unit} changes"
    )


def _radius_words(found: Mapping[str, Any]) -> str:
    return "anything" if found["radius"] is None else f"±{number(found['radius'])}"


def place_warnings(columns: Sequence[str]) -> list[TermsWarning]:
    """Warn of columns that place rows: places choose batches and held-out rows, and count as public."""
    if not columns:
        return []
    listed = ", ".join(printable(column) for column in columns)
    sentence = (
        f"The rows of your table are ordered by {listed}, which its folders are named after. Another value in these "
        "columns would put a row elsewhere and move the rows in between. The columns therefore count as public, and "
        "the promise covers all other columns."
    )
    return [TermsWarning("owners.data", sentence)]


Cost = TypeVar("Cost", float, Fraction)


def record_leakage(setup: Setup, name: str) -> Leakage:
    """Return what is promised of a person in this owner's table, in bits, by all that leaves.

    Formal guarantee: by `accounting.meaning`, the smallest of the bounds that hold. Pure noise: by the epsilon of all
    answers. Gaussian noise: by the zCDP of all, or answer by answer; a score's pure noise adds up with it. A record
    that kappa owners hold is in the answers of this one and of kappa - 1 others, at worst those that tell most
    (`covering_cost`).
    """
    terms = setup.terms
    if terms.noise.approximate or setup.task.noise_may_fail(terms):
        return Leakage(None, None, "nothing: some of delta is the probability that the noise fails")
    if not ALL_MECHANISMS[terms.privacy.mechanism].approximate:
        return pure_leakage(upper(covering_epsilon(terms, name)))
    parts = _record_holders(setup, name)
    if any(setup.part(each).training.question.own_noise is not None for each in parts):
        return Leakage(None, None, "nothing: noise inside of what is minimised has no known divergence")
    leakages = [
        each for each in (_by_zcdp(setup, name, parts), _answer_by_answer(setup, name, parts)) if each is not None
    ]
    unknown = Leakage(None, None, "nothing: no divergence is known of this noise")
    return min(leakages, key=lambda each: each.mutual_information or 0.0, default=unknown)


def covering_cost(costs: Mapping[str, Cost], name: str, copies: int) -> Cost:
    """Return what the answers of an owner and of `copies` - 1 others cost, those of the largest costs.

    >>> covering_cost({"a": 1.0, "b": 5.0, "c": 2.0}, "a", 2)
    6.0
    """
    others = sorted((cost for owner, cost in costs.items() if owner != name), reverse=True)
    return sum(others[: copies - 1], costs[name])


def covering_epsilon(terms: Terms, name: str) -> Fraction:
    """Return the epsilon by which all answers cover a record that this owner holds, and up to kappa - 1 others.

    Formal guarantee: every owner adds the noise of epsilon/kappa and delta/kappa, and copies add up.
    """
    copies = terms.privacy.shared_records
    promised = {owner.name: terms.promised_epsilon(owner.name) for owner in terms.owners}
    return covering_cost(promised, name, copies) / copies


def protected_unit(terms: Terms) -> str:
    """Say what the terms' epsilon protects: a person, a row, a table, or the unit of another task."""
    privacy, unit = terms.privacy, task_of(terms).unit
    if privacy.unit == OWNER_UNIT:
        return "an owner's whole table"
    if unit != Task.unit:
        return f"one {unit}"
    if privacy.person is None:
        more = " and a larger δ" if privacy.delta > 0 else ""
        return f"one row: no column tells people apart, so someone with m rows has m times this ε{more}"
    rows = counted(privacy.records_per_person, "row")
    return f"one person, with at most {rows} (column {printable(privacy.person)!r} tells people apart)"


def promises(terms: Terms, prior: float = 0.5) -> list[dict[str, Any]]:
    """Return what the terms promise of each owner's people; no private record is looked at."""
    setup, lines = resolve(terms), []
    for owner in terms.owners:
        leakage = record_leakage(setup, owner.name)
        covered, delta, failure = upper(covering_epsilon(terms, owner.name)), terms.privacy.delta, 0.0
        if delta > 0:
            low, high, failure = approximate_posterior(covered, delta, prior)
        else:
            low, high = posterior_bounds(covered, prior)
        lines.append(
            {
                "owner": owner.name,
                "epsilon": float(setup.part(owner.name).epsilon),
                "covering_epsilon": covered,
                "delta": delta,
                "posterior": {"low": low, "high": high, "failure": failure},
                "mutual_information_bits": leakage.mutual_information,
                "min_entropy_bits": leakage.min_entropy,
                "guess_factor": leakage.guess_factor,
                "by": leakage.by,
            }
        )
    return lines


def _record_holders(setup: Setup, name: str) -> tuple[str, ...]:
    """Return the owners that may hold a record of this one's table."""
    return tuple(setup.parts) if setup.terms.privacy.shared_records > 1 else (name,)


def _by_zcdp(setup: Setup, name: str, parts: tuple[str, ...]) -> Leakage | None:
    """Bound by rho, if all that may hold a record have one; it covers `shared_records` copies of an owner's noise."""
    copies, found = setup.terms.privacy.shared_records, dict[str, Fraction]()
    for each in parts:
        rho = reservation(setup.terms, each, setup.schedule).rho
        if rho is None:
            return None
        found[each] = rho
    return zcdp_leakage(upper(covering_cost(found, name, copies) / copies))


def _answer_by_answer(setup: Setup, name: str, parts: tuple[str, ...]) -> Leakage | None:
    """Bound by the Gaussian noise of every training answer, and the epsilon of a score if there is one."""
    privacy = setup.terms.privacy
    stages = {each: setup.part(each).training for each in parts}
    if pieces(setup.terms, stages[name].question) > 1 or not all(
        isinstance(stage.series.mechanism, Gaussian) for stage in stages.values()
    ):
        return None
    bits = covering_cost({each: _gaussian(stage) for each, stage in stages.items()}, name, privacy.shared_records)
    for stage in setup.part(name).stages[1:]:  # its epsilon is everybody's, and covers all copies
        bits += pure_leakage(upper(stage.series.epsilon)).mutual_information or 0.0
    return Leakage(bits, None, "Gaussian noise, answer by answer")


def _gaussian(stage: Stage) -> float:
    """Return the bits of all answers of a stage.

    Formal guarantee: n answers of p numbers that a record moves by d_1, d_2, ... tell at most the sum of p/2 ln(1 +
    R_k^2/(p s^2)), R_k as d_k has it. The logarithm is concave, so this is at most what one answer of n p numbers
    tells, moved by the root of d_1^2 + d_2^2 + ..., for which a joint noise is made.
    """
    mechanism, question, series = stage.series.mechanism, stage.question, stage.series
    if series.joint:
        return gaussian_bits(
            mechanism.sensitivity, mechanism.noise_scale, question.size * series.count, ball=question.centred
        )
    answers = series.count * question.rate
    return gaussian_bits(mechanism.sensitivity, mechanism.noise_scale, question.size, answers, question.centred)


def leakage_words(found: Leakage, terms: Terms, unit: str) -> str:
    """Return the same in a sentence; `unit` is whom it is promised to, unless that is the owner as a whole."""
    whole = terms.privacy.unit == OWNER_UNIT
    about = "your table" if whole else f"a {unit}"
    if found.mutual_information is None:
        return f"These terms do not bound how many bits can be learned about {about}."
    knows = "all other owners' tables" if whole else "everybody else's records"
    copies = terms.privacy.shared_records
    others = "" if copies == 1 else f" and those of other owners about the same records ({copies} may hold them)"
    bits, factor = number(found.mutual_information, 3, "above"), found.guess_factor
    guess = "" if factor is None else f" No guess becomes more than {number(factor, 3, 'above')} times as likely."
    return (
        f"From the answers under these terms{others}, someone who knows {knows} learns at most {bits} bits about "
        f"{about}, on average over all possible values (mutual information).{guess} Releases under other terms add to "
        "these bits."
    )


def hosts_condition(terms: Terms) -> str:
    """Say what the promise demands of the hosts."""
    hosts = ", ".join(host.name for host in terms.hosts)
    if terms.noise.hosts > TWO_HOSTS.hosts and terms.privacy.hosts_may_cheat:
        return (
            f"The promise holds as long as no two of the hosts {hosts} act together, even if one of them departs from "
            "the protocol."
        )
    if terms.noise.hosts > TWO_HOSTS.hosts:
        return (
            f"The promise holds as long as no two of the hosts {hosts} act together and all hosts follow the protocol."
        )
    journals = "neither's journal is put back to an earlier time"
    if terms.noise.paired:
        return (
            f"The promise holds as long as both hosts {hosts} follow the protocol, do not act together, and {journals}."
            " A host that departs from the protocol can remove nearly all noise, and nobody notices."
        )
    return f"The promise holds unless the two hosts {hosts} act together, and as long as {journals}."
