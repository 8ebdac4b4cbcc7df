"""A forecast and a plan, as tables and in words."""

from parley.forecasting import Forecast, Proposal
from parley.numerals import number

METHODS = {
    "curvature-moments": "moments of the algorithm by curvature alone, which a clip, a box or a corner may upset",
    "exact-moments": "exact moments of the algorithm on the pilot's landscape",
    "pilot-run": "the algorithm itself, run on the pilot with the owners' noise",
}
OWNERS = "Together or alone, if all owners' data follow one law"
CAVEAT = "Owners that differ should judge the trained model on their own rows (parley score) before believing this."
PLAN = "The same budgets, spent otherwise"


def headline(result: Forecast) -> str:
    """Relative fitness, and what its interval covers."""
    fitness = result.relative_fitness
    return (
        f"Expected relative fitness ψ = {number(fitness.mean)}  ({result.coverage}: {number(fitness.low)} to {number(fitness.high)}, "
        "for what the pilot leaves open)"
    )


def details(result: Forecast) -> list[str]:
    """How runs differ, how it was found, and what the task's metrics would be."""
    said = []
    if result.run_quartiles is not None:
        low, _, high = result.run_quartiles
        said.append(f"half of all runs end between {number(low)} and {number(high)}")
    said.append(f"excess training cost {number(result.excess_cost.mean)}; by {METHODS[result.method]}")
    expected = ", ".join(f"{name.replace('_', ' ')} {number(value)}" for name, value in result.metrics.items() if value is not None)
    said += [f"on the pilot's rows: {expected}"] if expected else []
    said += [] if result.target_words is None else [result.target_words]
    return said if result.coding is None else [*said, result.coding.words()]


def owner_rows(result: Forecast) -> list[list[str]]:
    """What joining means for each owner."""
    rows = [["owner", "test cost alone", "together", "gain", "worth it from ε", "worth to the others"]]
    for owner in result.owners:
        even = owner.break_even_epsilon
        needed = "never" if even is None else "always" if even == 0 else number(even)
        costs = [number(v, 5) for v in (owner.alone, owner.together)]
        rows.append([owner.name, *costs, number(owner.gain, 3), needed, number(owner.marginal_value, 3)])
    return rows


def better_without(result: Forecast) -> str | None:
    """Who had better be left out, if anybody."""
    left_out = [owner.name for owner in result.owners if owner.name not in result.best_coalition]
    if not left_out:
        return None
    return f"Better without {', '.join(left_out)}: the noise of so small a budget adds more than the records bring."


def plan_rows(proposal: Proposal) -> list[list[str]]:
    """What the planner tried, one row a choice."""
    written = proposal.choices[0].relative_fitness
    rows = [["choice", "rounds", "step", "clip", "ψ", "against as written"]]
    for choice in proposal.choices:
        against = written / choice.relative_fitness if choice.relative_fitness > 0 else float("inf")
        settings = [number(choice.step), number(choice.clip), number(choice.relative_fitness)]
        said = f"{against:.3g} x better" if against >= 1 else f"{1 / against:.3g} x worse"
        rows.append([choice.label, str(choice.horizon), *settings, said])
    return rows


def plan_advice(proposal: Proposal) -> str:
    """What to do: nothing, ask for more, or the lines to put into the terms."""
    best = proposal.best
    if not best.relative_fitness < 0.95 * proposal.nobody:
        return "At these budgets no choice is better than the model that asks nobody; ask for more records or larger budgets."
    if best is proposal.choices[0]:
        return "The terms are as good as any of these."
    lines = ["[learning]", f'algorithm = "{best.algorithm}"']
    lines += [f"horizon = {best.horizon}"] if best.batches is None else [f"batches = {best.batches}", f"epochs = {best.epochs}"]
    lines += [] if best.optimiser is None else [f'optimiser = "{best.optimiser}"']
    lines += [] if best.step is None else [f"step = {best.step:g}"]
    for key in ("local_steps", "average", "decay", "momentum", "start"):
        value = getattr(best, key)
        lines += [] if value is None else [f'{key} = "{value}"' if isinstance(value, str) else f"{key} = {value}"]
    lines += [] if best.whitening is None else ["[model]", f'whitening = "{best.whitening}"']
    lines += ["[privacy]", f'mechanism = "{best.mechanism}"']
    lines += [] if best.clip is None else [f"clip = {best.clip:g}"]
    lines += [f"delta = {best.delta:g}"] if best.delta > 0 else []
    lines += ['noise = "shared"'] if proposal.terms.shared else []
    return "For the terms file:\n  " + "\n  ".join(lines)
