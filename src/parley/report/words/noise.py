"""Where noise is drawn, as a table and in words: plain numbers in, as the JSON of a forecast or a negotiation has
them."""

from collections.abc import Mapping
from typing import Any

from parley.numerals import counted, number
from parley.terms import Terms
from parley.terms.catalogue import UNNAMED_HOSTS

TITLE = "The same terms, rounds and clip with noise drawn elsewhere"
ALIKE = 0.01  # relative fitnesses that differ by less are the same
KINDS = {
    "each_owner": "each owner's own",
    "shared": "one for all (hosts)",
    "two_hosts": "one of each of two hosts",
    "distributed": "in owners' shares",
}


def invented_line(terms: Terms) -> str | None:
    """That hosts of terms are placeholders; None: they are named, or there are none."""
    if tuple(host.name for host in terms.hosts) != UNNAMED_HOSTS:
        return None
    return (
        f"Hosts are written as {', '.join(UNNAMED_HOSTS)}, which are nobody's names, with δ = "
        f"{number(terms.privacy.delta)}: put theirs in before anybody accepts."
    )


def kind_rows(noise: Mapping[str, Any]) -> list[list[str]]:
    """A table with one row for each kind of noise."""
    rows = [["noise", "δ", "ψ", "test cost together", "expected to gain"]]
    for kind, label in KINDS.items():
        found = noise[kind]
        if found is not None:
            gaining = f"{_gaining(found)} of {len(found['gains'])}"
            costs = [number(found["relative_fitness"]), number(found["together"], 5)]
            rows.append([label, f"{found['delta']:g}", *costs, gaining])
    return rows


def decision(noise: Mapping[str, Any], agreed: str) -> str:
    """What the comparison comes to; `agreed`: which kind the terms name."""
    hosted, hosts_draw = agreed != "each_owner", "two_hosts" if agreed == "two_hosts" else "shared"
    own, one = noise["each_owner"], noise[hosts_draw]
    if own is None or one is None:
        why = noise["missing"][hosts_draw if one is None else "each_owner"]
        return f"One kind of noise is missing: {why}."
    times = own["relative_fitness"] / one["relative_fitness"] if one["relative_fitness"] > 0 else float("inf")
    if abs(times - 1) < ALIKE:
        return (
            "Where the noise is drawn hardly matters by these terms: the rounds, the step and the clip decide here "
            "(parley plan)."
        )
    if not times > 1:
        return (
            "One noise for all would be worse: everybody would get the smallest epsilon. Each owner's own noise "
            "serves better here."
        )
    before, after = (_gaining(kind) for kind in (own, one))
    hosts = "" if hosted else '; for that name three hosts (or two) and set privacy.noise = "shared"'
    if not after:
        return (
            f"Nobody is expected to gain by joining, with either kind of noise; with one for all ψ is "
            f"{number(times, 3)} times smaller."
        )
    if after > before:
        few, all_of = f"{before} of {len(own['gains'])}" if before else "nobody", f"{after} of {len(one['gains'])}"
        return f"Expected to gain: {few} with each owner's own noise, {all_of} with one noise for all{hosts}."
    gaining = f"{after} of {len(one['gains'])} {'is' if after == 1 else 'are'} expected to gain either way"
    return f"One noise for all makes ψ {number(times, 3)} times smaller; {gaining}{hosts}."


def _gaining(kind: Mapping[str, Any]) -> int:
    return round(float(kind["share_that_gains"]) * len(kind["gains"]))


def plan_beside(plan: Mapping[str, Any]) -> list[str]:
    """The plan with hosts beside the plan without, in sentences, and what two hosts would be worth; none where the
    terms have three."""
    two = [] if plan["owner_count"] < 2 or plan["hosts"] == 3 else [two_hosts(plan["owner_count"])]
    one = plan["shared"]
    if one is None:
        return two if plan["hosts"] else []
    best = one["best"]
    if best is None:
        return ["One noise for all: nothing can be judged, so nothing was chosen."]
    step = "" if best["step"] is None else f", step {number(best['step'])}"
    clip = "" if best["clip"] is None else f", clip {number(best['clip'])}"
    return [
        f"If three hosts can be found, one noise for all: {best['algorithm']}, {best['mechanism']} noise at δ = "
        f"{best['delta']:g}, "
        f"{counted(best['horizon'], 'round')}{step}{clip}: ψ = {number(best['relative_fitness'])}.",
        *(
            [f"Expected test cost of the joint model: {number(plan['expected_cost'], 5)} with each owner's own noise, "
             f"{number(one['expected_cost'], 5)} with one for all."]
            if plan["expected_cost"] is not None
            else []
        ),
        *two,
    ]  # fmt: skip


def two_hosts(owners: int) -> str:
    """What the noise of two hosts comes to beside that of so many owners, if these are alike."""
    if owners == 2:
        return (
            "Two hosts instead of three would make the noise of two owners no smaller, and larger where their ε (or "
            "rows, where the unit is an owner) differ: each host adds a whole one."
        )
    return (
        f"Two hosts instead of three: twice the variance of one noise, {number(owners / 2)} times less than {owners} "
        "equal owners' own; fewer times where their ε differ."
    )


def preferences_title(result: Mapping[str, Any]) -> str:
    """The title of the table of where owners stand."""
    return f"One budget ε for all ({result['adjacency']}): where each owner stands"


def preference_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """One row an owner: which common epsilon it likes best, and how far from that it walks away."""
    rows = [["owner", "likes best", "bears from", "up to"]]
    for owner in result["standings"]:
        ends = ["never", ""] if owner["lowest"] is None else [number(owner["lowest"]), number(owner["highest"])]
        rows.append([owner["name"], number(owner["peak"]), *ends])
    return rows


def weakest_link(result: Mapping[str, Any]) -> list[str]:
    """What comes of a game with one common epsilon, in sentences; `result`: the JSON of a negotiation with shared
    noise."""
    said = []
    if result["equilibria"] is not None:
        low, high = (number(end) for end in result["equilibria"])
        said.append(
            f"Every common ε from {low} to {high} is an equilibrium of these members; the largest is the best for all "
            f"of them."
        )
    asked = result["best_coalition"]
    names, epsilon = ", ".join(asked["owners"]), number(asked["epsilon"])
    said.append(f"For the least test cost, if each insists on what it likes best: ask {names} at ε = {epsilon}.")
    if result["members_gain"] is not None and result["spend"] > 0:
        verb = "covers" if result["members_gain"] >= result["spend"] else "does not cover"
        said.append(
            f"What the members have more than without payments, {number(result['members_gain'])}, {verb} the bill."
        )
    return said
