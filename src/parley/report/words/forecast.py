"""A forecast and a plan, as tables and in words."""

import math
from collections.abc import Sequence

import numpy as np

from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.outlook import Interval
from parley.decisions.outlook.remedies import LARGEST, Remedies, Remedy
from parley.decisions.outlook.worth import Worth
from parley.decisions.planning.planner import Proposal
from parley.numerals import ends, number
from parley.privacy.events import Adjacency
from parley.report.words.outlook import listed_names

METHODS = {
    "curvature-moments": "moments of the algorithm by curvature alone, which a clip, a box or a corner may upset",
    "exact-moments": "exact moments of the algorithm on the pilot's landscape",
    "pilot-run": "the algorithm itself, run on the pilot with the owners' noise",
}
CAVEAT = "Once trained, each owner judges the model on its own held-out rows: parley score MODEL TERMS --owner NAME."
DIVERGED = 100  # relative fitness beyond which a model is of no use, however far beyond
PLAN = "The same budgets, spent otherwise"
FEWER_RUNS = (
    "ψ of a choice comes from fewer runs than that of parley forecast, with other draws, and counts what a clip hides "
    "from rows that were learned from: the two differ a little."
)
ONE_LAW = (
    "Choices are compared by one invented law, for want of a public sample; what all of them make of the best one, "
    "parley forecast says."
)


def headline(result: Forecast) -> str:
    """Relative fitness, and what its interval covers."""
    fitness = result.relative_fitness
    return (
        f"Expected relative fitness ψ = {number(fitness.mean)}  ({result.coverage}: {number(fitness.low)} to "
        f"{number(fitness.high)}, for what the pilot leaves open)"
    )


def details(result: Forecast) -> list[str]:
    """How runs differ, how it was found, and what the task's metrics would be."""
    said = []
    if result.run_quartiles is not None:
        low, _, high = result.run_quartiles
        said.append(f"half of all runs end between {number(low)} and {number(high)}")
    said.append(f"excess training cost {number(result.excess_cost.mean)}; by {METHODS[result.method]}")
    expected = ", ".join(
        f"{name.replace('_', ' ')} {number(value)}" for name, value in result.metrics.items() if value is not None
    )
    said += [f"on the pilot's rows: {expected}"] if expected else []
    said += [] if result.target_words is None else [result.target_words]
    return said if result.coding is None else [*said, result.coding.words()]


def baseline_line(worth: Worth, interval: Interval | None = None) -> str:
    """What a model costs for which nobody is asked, beside the joint one."""
    zero, public = worth.baselines.zero, worth.baselines.public_sample
    by = " (boosted trees)" if worth.baselines.public_model == "boosted trees" else ""
    alone = "" if public is None else f", the public sample alone gives {number(public, 5)}{by}"
    ends = "" if interval is None else f" ({_ends(interval, 3)})"
    return (
        f"Expected test cost together {number(worth.together, 5)}{ends}; the zero model has {number(zero, 5)}{alone}."
    )


def verdict_lines(result: Forecast) -> list[str]:
    """What speaks against these terms: a baseline that beats them."""
    said = []
    below, advice = result.worth.sentence(), result.worth.advice
    if below is not None:
        said.append(f"Not worth a budget: {below}. {advice[0].upper()}{advice[1:]}.")
    return said


def owner_title(result: Forecast) -> str:
    """The title of the table of owners."""
    adjacency = Adjacency.of_unit(result.terms.privacy.unit)
    return f"Together or alone: expected test costs for each owner's own rows (ε: {adjacency})"


def owner_rows(result: Forecast) -> list[list[str]]:
    """What joining means for each owner."""
    rows = [["owner", "alone", "together", "from … to", "personal", "gain", "from … to", "verdict", "worth it from ε"]]
    for owner, value in zip(result.owners, result.values, strict=True):
        even = value.break_even_epsilon
        needed = "never" if even is None else "always" if even == 0 else number(even)
        costs = [number(owner.alone, 5), number(owner.together, 5), _ends(owner.together_interval, 3)]
        costs.append(number(owner.personal, 5))
        gain = [number(owner.gain.mean, 2), _ends(owner.gain, 2)]
        rows.append([owner.name, *costs, *gain, owner.verdict, needed])
    return rows


def _ends(interval: Interval, digits: int) -> str:
    return ends(interval.low, interval.high, digits)


def assumption(result: Forecast) -> str:
    """A sentence that says what the forecast gains rest on."""
    law = result.outlook.laws[0]
    rests = (
        "exact for a squared loss" if result.method == "exact-moments" else "by the cost's curvature around its optimum"
    )
    apart = (
        f" Together costs own rows more than the {number(result.worth.together, 5)} above, by what owners differ."
        if law.differences.high > 0 and any(owner.together > result.worth.together for owner in result.owners)
        else ""
    )
    return f"{law.differences.words(float(np.median(law.owners.records)))}.{apart} Personal models: {rests}."


def better_without(result: Forecast) -> str | None:
    """Who had better be left out, if anybody."""
    left_out = [owner.name for owner in result.owners if owner.name not in result.best_coalition]
    if not left_out:
        return None
    names = listed_names(left_out)
    return (
        f"For the joint model's test cost better without {names}: noise of so small a budget adds more than the "
        f"records bring."
    )


def plan_rows(proposal: Proposal) -> list[list[str]]:
    """What the planner tried, one row a choice."""
    written = proposal.choices[0].relative_fitness
    rows = [["choice", "rounds", "step", "clip", "ψ", "against as written"]]
    for place, choice in enumerate(proposal.choices):
        fitness = choice.relative_fitness if math.isfinite(choice.relative_fitness) else None
        shown = f"> {DIVERGED:,}" if fitness is not None and fitness > DIVERGED else number(fitness)
        settings = [number(choice.step), number(choice.clip), shown]
        against = _against(written, choice.relative_fitness) if place or not math.isfinite(written) else "as written"
        rows.append([choice.label, str(choice.horizon), *settings, against])
    return rows


def _against(written: float, fitness: float) -> str:
    """How one relative fitness compares with that of the terms as written; infinite where there is none to forecast."""
    if not math.isfinite(fitness):
        return "no forecast"
    if not math.isfinite(written) or not fitness > 0:
        return "better"
    if fitness > DIVERGED:
        return "diverges"
    return (
        f"{written / fitness:.3g} x better"
        if written >= fitness
        else f"{fitness / written:.3g} x worse"
        if written > 0
        else "worse"
    )


def plan_advice(proposal: Proposal) -> str:
    """What to do: nothing, ask for more, or the lines to put into the terms."""
    best = proposal.best
    if best is None:
        return "Nothing was chosen, because nothing can be judged: the terms stay as they are."
    if not best.relative_fitness < 0.95 * proposal.nobody:
        return (
            "At these budgets no choice is better than the model that asks nobody; ask for more records or larger "
            "budgets."
        )
    if best is proposal.choices[0]:
        return "The terms are as good as any of these."
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
    return "For the terms file:\n  " + "\n  ".join(lines)


def plan_rests_on(proposal: Proposal) -> str:
    """Why a plan's figures are not quite the forecast's."""
    return ONE_LAW if proposal.invented else FEWER_RUNS


def unjudged_lines(proposal: Proposal) -> list[str]:
    """Ways to spend the budgets that the planner could not judge, and why; with one noise for all too, where that was
    planned beside."""
    of_one = () if proposal.shared is None else proposal.shared.unjudged
    reasons: dict[str, list[str]] = {}
    for label, why in (
        *((each.label, each.why) for each in proposal.unjudged),
        *((f"one noise: {e.label}", e.why) for e in of_one),
    ):
        reasons.setdefault(why, []).append(label)
    return [
        f"Not judged, so never chosen: {'; '.join(dict.fromkeys(labels))}. Why: {why}."
        for why, labels in reasons.items()
    ]


WAYS = {
    "each_owner": "with noise of each owner's own",
    "shared": "with one noise for all (three hosts)",
    "two_hosts": "with the noise of two hosts",
}


def remedy_line(found: Remedies, some: bool, owners: int) -> str:
    """From which budgets, with whose noise, or among how many owners it would be worth it; `some`: for some it is."""
    if found.already:
        rest = "gains surely at any budget does so" if found.surely else "is expected to gain at any budget is so"
        more = "" if found.surely else ": what makes it unsure is no budget's matter"
        never = f"; never: {listed_names(list(found.never))}" if found.never else ""
        return f"Larger budgets would not change that: whoever {rest} already{more}{never}."
    told = [_way_words(each, some) for each in found.ways if each.everybody is not None or each.first is not None]
    crowd = _crowd_words(found, some, owners)
    told += [] if crowd is None else [crowd]
    never = f" Never for {listed_names(list(found.never))}." if found.never and told else ""
    if not told:
        return f"No ε up to {number(LARGEST)} and no number of owners like these would make joining worth it."
    surely = "surely" if found.surely else "in half of the draws"
    so = "worth it for all that can gain" if some else "worth it"
    return f"It would be {so}, {surely}, {'; or '.join(told)}.{never}"


def _way_words(remedy: Remedy, some: bool) -> str:
    """One way to spend budgets: from where on somebody gains, and from where on all that can."""
    first, everybody = (_budget(each, remedy.times) for each in (remedy.first, remedy.everybody))
    said = WAYS[remedy.way]
    if some or first is None or first == everybody:
        return f"{said} from {everybody}" if everybody is not None else f"{said} from {first}, for some"
    for_all = f", for all that can gain from {everybody}" if everybody is not None else ""
    return f"{said} from {first} for {listed_names(list(remedy.names))}{for_all}"


def _budget(value: float | None, times: bool) -> str | None:
    if value is None:
        return None
    shown = number(value, 2, side="above")
    return f"{shown} times these ε" if times else f"ε {shown}"


def _crowd_words(found: Remedies, some: bool, owners: int) -> str | None:
    """Among how many owners like these it would be worth it; None where more of them do not help."""
    ends: Sequence[int | None] = (found.owners, found.owners_for_all)
    more = [each for each in ends if each is not None and each > owners]
    if not more:
        return None
    first, everybody = more[0], more[-1]
    if some or first == everybody:
        return f"from {everybody:,} owners like these"
    return f"from {first:,} owners like these for some, from {everybody:,} for all that can gain"
