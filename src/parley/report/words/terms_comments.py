"""The comments in new terms: plan, columns and next steps."""

import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from parley.decisions.from_files.column_choice import Tried
from parley.decisions.from_files.terms_from_files import Draft
from parley.decisions.planning.planner import Proposal
from parley.durable import store_address
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.numerals import number
from parley.report.words.forecast import shows_cost, unjudged_lines
from parley.terms import Terms
from parley.terms.catalogue import PREDICTION

HETEROGENEITY_SHARE = 0.2  # of ε
PSI_COMMENT = (
    "ψ is the relative fitness: how far a model is from the best model without privacy. ψ = 0 is best "
    "(docs/glossary.md)."
)


def head_lines(made: Draft) -> list[str]:
    """Return the comments for the top of the file."""
    lines = ["Terms for joint learning. docs/terms.md explains every key in this file.", *made.said]
    if made.proposal is not None:
        lines += [planned_line(made.proposal), *unjudged_lines(made.proposal)]
    return lines


def planned_line(proposal: Proposal) -> str:
    """Say how good the planned choice is expected to be."""
    best = proposal.best
    if best is None:
        return (
            "NOT planned: Parley could not evaluate any choice of rounds, step and clip. The terms contain defaults, "
            "and the quality of the resulting model is unknown."
        )
    worth = (
        f"relative fitness of {number(best.relative_fitness, 3)} (distance from the best model without privacy; 0 is "
        "best)"
    )
    if best.expected_cost is not None and shows_cost(best.relative_fitness, best.expected_cost):
        worth = f"test cost of {number(best.expected_cost, 3)}"
    return f"Planned: {best.label}, with an expected {worth}. After a change to the terms, run parley plan again."


def without_plan(head: Sequence[str]) -> list[str]:
    """Remove the comments about an earlier plan."""
    return [line for line in head if not line.startswith(("Planned: ", "NOT planned: "))]


def lifetime_line(made: Draft) -> str:
    """Say what the lifetime budget in the next commands means."""
    epsilon, room = max(part.epsilon for part in made.terms.owners), _room(made.terms)
    first = "Simulate first. " if made.terms.owners[0].data is not None else ""
    holds = "covers exactly these terms' ε, so the budget allows only one release"
    if room:
        holds = (
            f"covers these terms' ε = {epsilon:g} and {room * epsilon:g} more. The extra ε allows owners to measure "
            "heterogeneity before training, if the forecast advises it (privacy.difference_epsilon; docs/forecast.md)"
        )
    return (
        f"{first}A release cannot be undone. {_lifetime(made.terms)[0]} {holds}. A larger lifetime budget leaves room "
        "for another release but promises people less privacy. The lifetime budget can never be changed."
    )


def _room(terms: Terms) -> float:
    """Return the share of ε kept for `parley heterogeneity` if the terms allow it and do not use it yet."""
    asks = terms.task == PREDICTION and terms.model.public is not None and len(terms.owners) > 1
    return HETEROGENEITY_SHARE if asks and terms.privacy.difference_epsilon is None else 0.0


def _lifetime(terms: Terms) -> tuple[str, str]:
    """Return options for a suitable lifetime budget: ε, and δ if the terms have one."""
    epsilon, delta = (each * (1 + _room(terms)) for each in (max(p.epsilon for p in terms.owners), terms.privacy.delta))
    return f"--lifetime {epsilon:.6g}", f" --lifetime-delta {delta:.6g}" if delta > 0 else ""


def next_steps(made: Draft, file: Path, stays: bool = False) -> list[str]:
    """Return the next commands as typed: forecast, inside view, simulation, release, score. If everybody `stays`, say
    that a release is refused."""
    terms = made.terms
    owner = next((part for part in terms.owners if part.data is not None), terms.owners[0])
    budget = "".join(_lifetime(terms))
    elsewhere = any(part.data is None for part in terms.owners)
    name, table = shlex.quote(owner.name), "TABLE" if owner.data is None else shlex.quote(_as_typed(owner.data))
    scales = terms.privacy.scale_epsilon is not None and not elsewhere
    first, ready, planned = (
        shlex.quote(str(each)) for each in (file, _beside(file, "ready"), _beside(file, "planned"))
    )
    learned = planned if scales else first
    steps = [
        f"parley forecast {learned}  # who gains, before training",
        f"parley forecast {learned} --inside {table} --owner {name}  # from our own rows: should we join?",
    ]
    steps = steps if terms.task == PREDICTION else []
    if elsewhere:
        hosts = ["parley host init NAME --name NAME  # each host, once: docs/roles/host.md"] if terms.hosts else []
        return [
            *steps,
            *hosts,
            f"parley owner init {name} --name {name} --table {table} {budget}  # each owner, once, on its own machine",
            f"parley owner accept {first} --owner {name}/owner.toml  # each owner, after reading the terms",
            f"parley learner run {first} --owners ADDRESSES --save model.json  # once all owners' daemons run: "
            "docs/deployment.md",
        ]
    if scales:
        stats_command = (
            f"parley column-stats {first} --ledgers ledgers {budget} --write {ready}  # noisy statistics; debited"
        )
        plan_command = f"parley plan {ready} --write {planned}  # how best to spend the remaining budget"
        steps = [stats_command, plan_command, *steps]
    release, debited = ("", "debited in the same ledgers") if scales else (f" {budget}", "debited")
    debited = "refused while the forecast says stay" if stays else debited
    return [
        *steps,
        f"parley train {learned}  # a simulation at no cost; keep its figures private",
        f"parley train {learned} --ledgers ledgers{release} --save model.json  # a release, {debited}",
        f"parley score model.json {learned} --owner {name}  # is the model better on our held-out rows?",
    ]


def _as_typed(table: str) -> str:
    """Return a table's address in a store, or its path, relative if that is shorter."""
    return store_address(table) or min(table, os.path.relpath(table), key=len)


def _beside(file: Path, what: str) -> Path:
    return file.with_name(f"{file.stem}-{what}.toml")


def with_hosts(made: Draft) -> list[str]:
    """Say how to get terms with one noise for all, if that should give a clearly better model."""
    proposal = made.proposal
    if proposal is None or proposal.shared is None or proposal.shared.expected_cost is None:
        return []
    if proposal.expected_cost is not None and not (
        proposal.shared.expected_cost < (1 - LEAST_GAIN) * proposal.expected_cost
    ):
        return []
    owners = [part.name for part in made.terms.owners]
    names = ",".join(owners[:3]) if len(owners) > 2 else f"{','.join(owners)},learner"
    return [
        f"Shared noise is expected to give a better model. The same command with --hosts {names} writes terms with "
        "shared noise. Any three hosts are suitable if no two of them would collude. --hosts-may-cheat and "
        "--check-answers add the optional keys."
    ]


def columns_line(tried: Sequence[Tried]) -> str:
    """Say what each encoding of columns would give; the first was chosen."""
    taken, *others = tried
    alone = None if taken.proposal is None else taken.proposal.public_fit
    beside = "" if alone is None else f" (a model fitted to the public sample alone: {alone:.4g})"
    line = f"Columns enter the model as {taken.way.label}, with an expected cost of {taken.cost:.4g}{beside}."
    judged = [f"{each.way.label} {_cost(each)} ({_distance(each, taken)})" for each in others if _known(each)]
    unjudged = [each.way.label for each in others if not _known(each)]
    line += f" Alternatives: {', '.join(judged)}." if judged else ""
    line += f" Not judged: {', '.join(unjudged)}." if unjudged else ""
    if any(each.proposal is not None and each.compared < taken.compared for each in others):
        line += " Some alternatives seem better, but the difference is within the public sample's sampling error."
    better = [each.way.label for each in others if each.judged is not None and each.judged < taken.cost]
    return line + "".join(
        f" --kind {kind} chooses a model with a lower expected cost, but Parley cannot forecast the model's worth to "
        "each owner."
        for kind in better
    )


def _known(each: Tried) -> bool:
    return math.isfinite(each.compared)


def _cost(each: Tried) -> str:
    return f"{each.cost:.4g}" if each.least is None else "not planned"


def _distance(each: Tried, taken: Tried) -> str:
    """Say how much worse an encoding is; half of what owners should add counts."""
    mine, other = (taken.compared, each.compared) if each.judged is None else (taken.cost, each.judged)
    more = other / mine - 1 if mine > 0 else math.inf
    amount = f"{abs(more):.1%} {'more' if more >= 0 else 'less'}"
    return amount if each.least is None else f"at best {amount}, with no noise at all"
