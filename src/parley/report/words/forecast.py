"""A forecast and a plan in tables and sentences."""

import math
from collections.abc import Sequence

import numpy as np

from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.outlook import Interval
from parley.decisions.outlook.remedies import MAX_ADVISED_EPSILON, Remedies, Remedy
from parley.decisions.outlook.worth import Worth
from parley.decisions.planning.planner import Proposal
from parley.numerals import interval_text, number
from parley.privacy.events import Adjacency
from parley.report.words.outlook import listed_names

METHOD_WORDS = {
    "curvature-moments": "estimated from the cost's curvature (inaccurate if clipping, parameter limits or kinks in "
    "the loss matter)",
    "exact-moments": "computed exactly, from the algorithm's moments on the pilot",
    "pilot-run": "measured by running the algorithm on the pilot with the owners' noise",
}
SCORING_HINT = "After training, each owner can score the model on its own held-out rows (parley score)."
DIVERGED_FITNESS = 100  # relative fitness beyond which a model is of no use, however far beyond
PLAN_TITLE = "Other ways to spend the same budgets"
FEWER_RUNS_NOTE = (
    "The plan's ψ comes from fewer runs than the forecast's ψ, with different random draws. The plan's ψ also includes "
    "the clipping bias that appears only on new rows. The plan's ψ and the forecast's ψ differ, usually slightly."
)
ONE_LAW_NOTE = (
    "There is no public sample, so parley plan compares all choices on one simulated population. The command "
    "parley forecast evaluates the best choice on several simulated populations."
)


def headline(result: Forecast) -> str:
    """Return relative fitness with its interval."""
    fitness, covers, why = result.relative_fitness, f"over {result.coverage}", ""
    if result.coverage.endswith("%"):
        covers, why = f"{result.coverage} interval", ", because the pilot is small"
    interval = f"{covers}: {number(fitness.low)} to {number(fitness.high)}{why}"
    return f"Expected relative fitness ψ = {number(fitness.mean)} ({interval})"


def details(result: Forecast) -> list[str]:
    """Say how runs differ, how this was computed, and what the task's metrics would be."""
    lines = []
    if result.run_quartiles is not None:
        low, _, high = result.run_quartiles
        lines.append(f"Half of all runs end with ψ between {number(low)} and {number(high)}.")
    rounds = result.expected.pilot.lossy_rounds
    if rounds is not None:
        lines.append(f"On average, {number(rounds.moments.answers)} of {len(rounds.names)} owners answer in a round.")
    lines.append(f"The excess training cost is {number(result.excess_cost.mean)}, {METHOD_WORDS[result.method]}.")
    expected = ", ".join(
        f"{name.replace('_', ' ')} {number(value)}" for name, value in result.metrics.items() if value is not None
    )
    lines += [f"Expected metrics on the pilot's rows: {expected}."] if expected else []
    lines += [] if result.target_words is None else [result.target_words]
    return lines if result.coding is None else [*lines, result.coding.words()]


def baseline_line(worth: Worth, interval: Interval | None = None) -> str:
    """Return the expected test cost of the joint model and of models without any owner's data."""
    zero, public = worth.baselines.zero, worth.baselines.public_sample
    by = " (boosted trees)" if worth.baselines.public_model == "boosted trees" else ""
    alone = "" if public is None else f" and {number(public, 5)} for a model of the public sample alone{by}"
    ends = "" if interval is None else f" ({_ends(interval, 3)})"
    return (
        f"The expected test cost is {number(worth.together, 5)}{ends} for the joint model, {number(zero, 5)} for the "
        f"zero model{alone}."
    )


def verdict_lines(result: Forecast) -> list[str]:
    """Return the objection to these terms, if a baseline beats them: to all, or to use without own rows."""
    below, advice = result.worth.sentence(), result.worth.advice
    if below is None:
        return []
    personal = len(result.outlook.names) > 1 and result.outlook.consortium.verdict != "stay"
    opening = (
        "Owners can gain only with a personal model (parley refine), because without personalisation "
        if personal
        else "The model is not worth spending budget on: "
    )
    return [f"{opening}{below}. {advice[0].upper()}{advice[1:]}."]


def owner_title(result: Forecast) -> str:
    """Return the title of the table of owners."""
    adjacency = Adjacency.from_unit(result.terms.privacy.unit)
    return f"Expected test cost on each owner's own rows (ε: {adjacency})"


def owner_rows(result: Forecast) -> list[list[str]]:
    """Return a table of what joining means for each owner."""
    rows = [["owner", "alone", "joint", "90% interval", "personal", "pays from ε"]]
    for owner, value in zip(result.owners, result.values, strict=True):
        even = value.break_even_epsilon
        needed = "never" if even is None else "always" if even == 0 else number(even, 3)
        costs = [number(owner.alone), number(owner.together), _ends(owner.together_interval, 3)]
        rows.append([owner.name, *costs, number(owner.personal), needed])
    return rows


def _ends(interval: Interval, digits: int) -> str:
    return interval_text(interval.low, interval.high, digits)


def assumption(result: Forecast) -> str:
    """Say what the forecast gains depend on."""
    law = result.outlook.laws[0]
    rests = (
        "computed exactly, for a squared loss"
        if result.method == "exact-moments"
        else "estimated from the cost's curvature around its optimum"
    )
    apart = (
        " Because of heterogeneity, the joint model's cost on some owners' rows is higher than its average of "
        f"{number(result.worth.together, 5)}."
        if law.differences.high > 0 and any(owner.together > result.worth.together for owner in result.owners)
        else ""
    )
    return (
        f"{law.differences.words(float(np.median(law.owners.records)))}.{apart} The costs of personal models are "
        f"{rests}."
    )


def better_without(result: Forecast) -> str | None:
    """Name the owners without whom the joint model would be better; None if there are none."""
    left_out = [owner.name for owner in result.owners if owner.name not in result.best_coalition]
    if not left_out:
        return None
    names = listed_names(left_out)
    return (
        f"The joint model would be better without {names}. Noise for small budgets can add more error to the joint "
        "model than the owner's records remove."
    )


def plan_rows(proposal: Proposal) -> list[list[str]]:
    """Return a table of the choices that the planner tried, with ψ, or with test costs if ψ says nothing."""
    by_cost = proposal.best is not None and shows_cost(proposal.best.relative_fitness, proposal.best.expected_cost)
    rows = [["choice", "rounds", "step", "clip", "test cost" if by_cost else "ψ"]]
    for choice in proposal.choices:
        fitness = choice.relative_fitness
        if by_cost and choice.expected_cost is not None:
            shown = number(choice.expected_cost)
        elif fitness <= DIVERGED_FITNESS:
            shown = number(fitness)
        else:
            shown = f"> {DIVERGED_FITNESS:,}" if math.isfinite(fitness) and not by_cost else "none"
        rows.append([choice.label, str(choice.horizon), number(choice.step), number(choice.clip), shown])
    return rows


def shows_cost(fitness: float, cost: float | None) -> bool:
    """Whether a plan is described by its test cost: ψ means little if the best model has almost no error."""
    return cost is not None and DIVERGED_FITNESS < fitness < math.inf


def plan_advice(proposal: Proposal, written: bool = False) -> str:
    """Say what to do: nothing, ask for more, or which lines to put into the terms, unless they are `written`."""
    best = proposal.best
    if best is None:
        return "Parley could not evaluate any choice of rounds, step and clip, so the terms stay unchanged."
    if not best.relative_fitness < 0.95 * proposal.nobody:
        return (
            "At these budgets, no choice of rounds, step and clip clearly beats the zero model, which uses no owner's "
            "data. Use more records or larger budgets."
        )
    if best is proposal.choices[0]:
        return "The terms already contain the best plan that Parley found."
    lines = ["[learning]", f'algorithm = "{best.algorithm}"']
    lines += (
        [f"horizon = {best.horizon}"]
        if best.batches is None
        else [f"batches = {best.batches}", f"epochs = {best.epochs}"]
    )
    lines += [] if best.optimiser is None else [f'optimiser = "{best.optimiser}"']
    lines += [] if best.step is None else [f"step = {best.step:g}"]
    for key in ("local_steps", "proximal", "variates", "average", "decay", "momentum", "start"):
        value = getattr(best, key)
        lines += [] if value is None else [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"]
    lines += [] if best.whitening is None else ["[model]", f'whitening = "{best.whitening}"']
    lines += ["[privacy]", f'mechanism = "{best.mechanism}"']
    lines += [] if best.clip is None else [f"clip = {best.clip:g}"]
    lines += [f"delta = {best.delta:g}"] if best.delta > 0 else []
    lines += [f'noise = "{proposal.terms.privacy.noise}"'] if proposal.terms.noise.summed else []
    title = (
        "The terms file contains the best plan that Parley found:"
        if written
        else "Put these lines into the terms file:"
    )
    return f"{title}\n  " + "\n  ".join(lines)


def plan_rests_on(proposal: Proposal) -> str:
    """Say why a plan's figures differ a little from the forecast's."""
    return ONE_LAW_NOTE if proposal.invented else FEWER_RUNS_NOTE


def unjudged_lines(proposal: Proposal) -> list[str]:
    """Name the choices that the planner could not judge, with reasons, also those with one noise for all."""
    of_one = () if proposal.shared is None else proposal.shared.unjudged
    reasons: dict[str, list[str]] = {}
    for label, why in (
        *((each.label, each.why) for each in proposal.unjudged),
        *((f"shared noise: {e.label}", e.why) for e in of_one),
    ):
        reasons.setdefault(why, []).append(label)
    return [
        f"Parley could not evaluate these plans: {'; '.join(dict.fromkeys(labels))}. Reason: {why}."
        for why, labels in reasons.items()
    ]


WAY_WORDS = {
    "each_owner": "with each owner's own noise",
    "shared": "with shared noise (three hosts)",
    "two_hosts": "with the noise of two hosts",
}
PAIRED_WORDS = "with shared noise (two hosts together)"


def remedy_line(found: Remedies, some: bool, owners: int, paired: bool = False) -> str:
    """Say which budgets, noise or number of owners would make joining worth it. `some`: for some it already is;
    `paired`: by the terms, two hosts draw one noise together."""
    never = ""
    if found.never:
        ending = "to gain for sure" if found.surely else "to gain"
        never = f" No budget is large enough for {listed_names(list(found.never))} {ending}."
    if found.already:
        if found.surely:
            return f"Larger budgets would not help: every owner that can gain for sure already gains for sure.{never}"
        return (
            "Larger budgets would not help: every owner that can gain is already expected to gain. The remaining "
            f"uncertainty does not come from the noise.{never}"
        )
    options = [
        _way_words(each, some, paired) for each in found.ways if each.everybody is not None or each.first is not None
    ]
    crowd = _crowd_words(found, some, owners)
    options += [] if crowd is None else [crowd]
    if not options:
        return (
            "In most of the forecast's simulated draws, joining would not be worthwhile at any ε up to "
            f"{number(MAX_ADVISED_EPSILON)}, nor with any number of similar owners."
        )
    surely = "for sure" if found.surely else "in half of the forecast's simulated draws"
    whom = "Every owner that can gain would gain" if some else "Joining would be worthwhile"
    return " ".join(f"{whom} {surely} {option}." for option in options) + never


def _way_words(remedy: Remedy, some: bool, paired: bool) -> str:
    """Say from which budget some owner gains in one way, and from which all that can."""
    first, everybody = (_budget(each, remedy.times) for each in (remedy.first, remedy.everybody))
    way = PAIRED_WORDS if paired and remedy.way == "shared" else WAY_WORDS[remedy.way]
    if some or first is None or first == everybody:
        whom = "" if everybody is not None else ", for some owners"
        return f"{way} at {everybody or first} or more{whom}"
    for_all = f" (at {everybody} or more for all owners that can gain)" if everybody is not None else ""
    return f"{way} at {first} or more for {listed_names(list(remedy.names))}{for_all}"


def _budget(value: float | None, times: bool) -> str | None:
    if value is None:
        return None
    shown = number(value, 2, side="above")
    return f"{shown} times the agreed ε" if times else f"ε = {shown}"


def _crowd_words(found: Remedies, some: bool, owners: int) -> str | None:
    """Say with how many such owners joining would be worth it; None if more do not help."""
    ends: Sequence[int | None] = (found.owners, found.owners_for_all)
    more = [each for each in ends if each is not None and each > owners]
    if not more:
        return None
    first, everybody = more[0], more[-1]
    if some or first == everybody:
        return f"with {everybody:,} similar owners"
    return f"with {first:,} similar owners for some owners and with {everybody:,} similar owners for all that can gain"
