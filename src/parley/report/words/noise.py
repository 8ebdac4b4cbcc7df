"""Where noise is drawn, in tables and sentences, from the JSON of a forecast or a negotiation."""

from collections.abc import Mapping
from typing import Any

from parley.numerals import counted, number
from parley.report.words.forecast import shows_cost
from parley.terms import Terms
from parley.terms.catalogue import NOISES, THREE_HOST_SWITCHES, UNNAMED_HOSTS
from parley.terms.sections import SHARED_NOISE

TITLE = "Forecasts for the same terms, rounds and clip with each kind of noise"
SAME_FITNESS_TOLERANCE = 0.01  # relative fitnesses that differ by less are the same
KIND_LABELS = {
    "each_owner": "each owner's own",
    "shared": "shared (3 hosts)",
    "two_hosts": "from each of two hosts",
    "distributed": "in owners' shares",
}
PAIRED_LABEL = "shared (2 hosts together)"


def invented_line(terms: Terms) -> str | None:
    """Warn that the terms' hosts are placeholders; None if not."""
    if tuple(host.name for host in terms.hosts) != UNNAMED_HOSTS:
        return None
    return (
        f"The hosts {', '.join(UNNAMED_HOSTS)} are placeholders. Enter the hosts' real names before anyone accepts "
        f"the terms. Shared noise needs a δ above 0. The terms have δ = {number(terms.privacy.delta)}."
    )


def kind_rows(noise: Mapping[str, Any], paired: bool) -> list[list[str]]:
    """Return a table of the kinds of noise; `paired`: whether two hosts draw one noise together by the terms."""
    rows = [["noise", "δ", "ψ", "joint test cost", "expected to gain"]]
    for kind, label in (KIND_LABELS | ({"shared": PAIRED_LABEL} if paired else {})).items():
        outcome = noise[kind]
        if outcome is not None:
            gaining = f"{_gaining(outcome)} of {len(outcome['gains'])}"
            costs = [number(outcome["relative_fitness"]), number(outcome["together"], 5)]
            rows.append([label, f"{outcome['delta']:g}", *costs, gaining])
    return rows


def decision(noise: Mapping[str, Any], agreed: str) -> str:
    """Say what the comparison comes to; `agreed` is the kind in the terms."""
    hosted, hosts_draw = agreed != "each_owner", "two_hosts" if agreed == "two_hosts" else "shared"
    own, shared = noise["each_owner"], noise[hosts_draw]
    if own is None or shared is None:
        why = noise["missing"][hosts_draw if shared is None else "each_owner"]
        return f"Parley could not compare the kinds of noise: {why}."
    times = own["relative_fitness"] / shared["relative_fitness"] if shared["relative_fitness"] > 0 else float("inf")
    if abs(times - 1) < SAME_FITNESS_TOLERANCE:
        return (
            "Under these terms, it hardly matters who draws the noise. Rounds, step and clip matter more than the "
            "kind of noise (parley plan)."
        )
    if not times > 1:
        return (
            "Shared noise would be worse, because it must satisfy the smallest ε of any owner. Each owner's own noise "
            "is better under these terms."
        )
    before, after = (_gaining(kind) for kind in (own, shared))
    hosts = (
        "" if hosted else '. For shared noise, list three hosts (or two) in the terms and set privacy.noise = "shared"'
    )
    if not after:
        return (
            f"No owner is expected to gain by joining, with either kind of noise. Shared noise makes ψ "
            f"{number(times, 3)} times smaller."
        )
    if after > before:
        few, all_of = f"{before} of {len(own['gains'])}" if before else "none", f"{after} of {len(shared['gains'])}"
        return f"Owners expected to gain: {few} with each owner's own noise, {all_of} with shared noise{hosts}."
    gaining = f"{after} of {counted(len(shared['gains']), 'owner')} {'is' if after == 1 else 'are'} expected to gain"
    return f"Shared noise makes ψ {number(times, 3)} times smaller. With either kind of noise, {gaining}{hosts}."


def _gaining(kind: Mapping[str, Any]) -> int:
    return round(float(kind["share_that_gains"]) * len(kind["gains"]))


def plan_beside(plan: Mapping[str, Any]) -> list[str]:
    """Compare the plan with hosts to the plan without, both as the planner judged them, and say what two hosts would be
    worth unless the terms have three, or two that draw together. With three hosts, name the keys not yet in use."""
    settled = plan["owner_count"] < 2 or plan["hosts"] == 3 or plan["paired"]
    two = [] if settled else [two_hosts(plan["owner_count"])]
    shared = plan["shared"]
    if shared is None:
        return [*two, *unused_keys(plan)] if plan["hosts"] else []
    best = shared["best"]
    if best is None:
        return ["Parley chose no plan with shared noise, because Parley could not evaluate any plan with shared noise."]
    step = "" if best["step"] is None else f", step {number(best['step'])}"
    clip = "" if best["clip"] is None else f", clip {number(best['clip'])}"
    psi, own = best["relative_fitness"], plan["best"] and plan["best"]["expected_cost"]
    worth = "" if shows_cost(psi, best["expected_cost"]) else f", with ψ = {number(psi)}"
    return [
        f"The best plan with three hosts and shared noise is {best['algorithm']}, {best['mechanism']} noise at "
        f"δ = {best['delta']:g}, {counted(best['horizon'], 'round')}{step}{clip}{worth}.",
        *(
            [f"Expected test cost of the joint model: {number(own, 5)} with each owner's own noise, "
             f"{number(best['expected_cost'], 5)} with shared noise."]
            if own is not None
            else []
        ),
        *two,
        *unused_keys(shared),
    ]  # fmt: skip


def unused_keys(plan: Mapping[str, Any]) -> list[str]:
    """Say what three hosts could also do, at which cost; the planner chooses none of it."""
    if plan["hosts"] != NOISES[SHARED_NOISE].hosts:
        return []
    unused = {key: facts for key, facts in THREE_HOST_SWITCHES.items() if not plan[key]}
    costs = (f"privacy.{key}: {facts.cost}." for key, facts in unused.items())
    return [" ".join(["With three hosts, optional keys leave the noise as it is.", *costs])] if unused else []


def two_hosts(owners: int) -> str:
    """Compare the noise of two hosts, if each adds its own, with that of this many owners with equal budgets."""
    if owners == 2:
        return (
            "For two owners, two hosts would not reduce the noise, because each host adds as much noise as three hosts "
            "add together. If the owners' ε differ (or their numbers of rows, if the unit of privacy is an owner), "
            'two hosts would even increase the noise. With privacy.draw = "together", two hosts draw one noise, which '
            "needs both to follow the protocol."
        )
    return (
        f"Two hosts add noise with twice the variance of three hosts' noise. If {owners} owners with equal ε each add "
        f"noise, the variance is {number(owners / 2)} times that of two hosts (less if the owners' ε differ)."
    )


def preferences_title(result: Mapping[str, Any]) -> str:
    """Return the title of the table of preferences."""
    return f"Common ε that each owner prefers and accepts ({result['adjacency']})"


def preference_rows(result: Mapping[str, Any]) -> list[list[str]]:
    """Return a table of the common epsilon that each owner prefers, and the range it accepts."""
    rows = [["owner", "prefers", "accepts from", "up to"]]
    for owner in result["standings"]:
        ends = ["never", ""] if owner["lowest"] is None else [number(owner["lowest"]), number(owner["highest"])]
        rows.append([owner["name"], number(owner["peak"]), *ends])
    return rows


def weakest_link(result: Mapping[str, Any]) -> list[str]:
    """Say what a game with one common epsilon leads to; `result`: the JSON of a negotiation with shared noise."""
    sentences = []
    if result["equilibria"] is not None:
        low, high = (number(end) for end in result["equilibria"])
        sentences.append(
            f"Every common ε from {low} to {high} is an equilibrium for the members of the coalition. Of all "
            f"equilibria, ε = {high} is best for all members."
        )
    coalition = result["best_coalition"]
    names, epsilon = ", ".join(coalition["owners"]), number(coalition["epsilon"])
    sentences.append(
        f"If the smallest ε that any member prefers applies to all members, the test cost is lowest for the "
        f"coalition {names} at ε = {epsilon}."
    )
    if result["members_gain"] is not None and result["spend"] > 0:
        verb = "covers" if result["members_gain"] >= result["spend"] else "does not cover"
        sentences.append(
            f"The payments bring the members a gain of {number(result['members_gain'])}, which {verb} the cost of the "
            "payments."
        )
    return sentences
