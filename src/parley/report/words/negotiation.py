"""A negotiation in tables and sentences."""

from collections.abc import Sequence

from parley.decisions.games.break_even import BreakEven
from parley.decisions.games.budget_game import MAX_EXACT_OWNERS
from parley.decisions.games.negotiate import Negotiation
from parley.decisions.games.payments import Deal
from parley.numerals import counted, number
from parley.privacy.events import Adjacency

INTERPOLATION_NOTE = (
    "Gains at the terms' budgets and without noise come from parley forecast. Gains at other noise levels are "
    "interpolated from the joint model's cost. All gains assume that owners state their values truthfully. Test cost "
    "is the mean loss on new rows (for numeric targets, the squared error)."
)

VALUES_NOTE = (
    "An owner's value is what a reduction of the test cost by 1 is worth to the owner, in money. An owner's privacy "
    "cost is what each unit of ε costs the owner, in the same currency. Only the owner knows its value and its "
    "privacy cost."
)
VALUES_SHARED_NOTE = (
    "Value and privacy cost are part of the terms, so everyone with the terms file can read both numbers. Changing "
    "one of them requires new terms, and a release under new terms spends budget again."
)
UNSTATED_NOTE = "Some owners have not stated a value and a privacy cost yet."
TRUTHFUL = "Contracts (c) and truthful payments (t), for the target ψ or better"
BREAK_EVEN_TITLE = "What each owner saves if all owners join at the budgets in the terms"


def headline(result: Negotiation) -> str:
    """Say how good the agreed model would be, or that there is none."""
    if result.relative_fitness is None:
        existence = "exists" if result.game.owners <= MAX_EXACT_OWNERS else "was found"
        return f"No owner joins: no coalition {existence} in which every member does better than alone."
    psi = number(result.relative_fitness)
    return f"Expected relative fitness ψ = {psi} (distance from the best model without privacy; 0 is best)"


def wishes_title(result: Negotiation) -> str:
    """Return the title of the table of wishes."""
    return f"Each owner in its best coalition, with the budget that it prefers (ε: {adjacency(result)})"


def wish_rows(result: Negotiation) -> list[list[str]]:
    """Return a table of what each owner would choose, what that is worth to it, and what it lacks."""
    rows = [["owner", "prefers ε", "test cost saved", "worth to it", "privacy costs it", "lacks"]]
    for wish in result.wishes():
        money = [number(each, 3) for each in (wish.worth, wish.privacy_cost)]
        rows.append(
            [
                wish.name,
                number(wish.wants),
                number(wish.gain, 3),
                *money,
                number(wish.short, 3) if wish.short else "nothing",
            ]
        )
    return rows


def moves(result: Negotiation) -> list[str]:
    """Say what would move owners if nobody joins."""
    wishes = result.wishes()
    moved = [wish for wish in wishes if wish.short > 0 and wish.bearable > 0]
    useless, willing = [wish for wish in wishes if not wish.gain > 0], [wish for wish in wishes if not wish.short > 0]
    sentences = []
    if moved:
        least = min(moved, key=lambda wish: wish.short)
        sentences.append(
            f"{least.name} is nearest to joining: it would join for a payment of {number(least.short, 3)}, or if its "
            f"privacy cost were {least.bearable:.0%} of the stated cost. In total, "
            f"{counted(len(moved), 'owner')} would need payments of {number(sum(wish.short for wish in moved), 3)}."
        )
    if useless:
        who = "any owner" if len(useless) == len(wishes) else ", ".join(wish.name for wish in useless[:6])
        more = f" and {len(useless) - 6} more" if 6 < len(useless) < len(wishes) else ""
        top = max(useless, key=lambda wish: wish.most)
        hosts = "" if result.terms.noise.common else ', shared noise (privacy.noise = "shared")'
        better = (
            f"More owners{hosts} or larger budgets for the other owners would reduce the noise. Without any "
            f"noise, the joint model would be worth {number(top.most, 3)} to {top.name}, so {top.name} can gain only "
            f"if its total privacy cost is below {number(top.most, 3)}."
            if top.most > 0
            else "Even without any noise, the joint model would not be better, so these terms leave nothing to gain. "
            "Run parley plan to search for better terms."
        )
        sentences.append(f"At these budgets, joining does not improve the model of {who}{more}. {better}")
    if willing and len(willing) < len(wishes):
        sentences.append(
            f"{', '.join(wish.name for wish in willing[:6])} would join without payment, but a joint model needs at "
            "least two owners that stay in the coalition."
        )
    return [
        *sentences,
        "To find payments that would persuade owners to join, run parley negotiate TERMS --target 0.01 (the relative "
        "fitness that you want).",
    ]


def break_even_rows(found: Sequence[BreakEven]) -> list[list[str]]:
    """Return a table of what joining saves each owner at the terms' budgets, and from which value on it pays."""
    rows = [["owner", "ε", "test cost saved", "without noise", "value that pays*"]]
    for each in found:
        pays = "none" if each.value is None else number(each.value, 3)
        rows.append([each.name, number(each.epsilon), number(each.gain, 3), number(each.most, 3), pays])
    return rows


def break_even_line(found: Sequence[BreakEven]) -> str:
    """Explain in a sentence how to choose a value."""
    pays = [each.value for each in found if each.value is not None]
    if not pays:
        return (
            "At these budgets, joining lowers no owner's test cost, so joining is not worthwhile at any value. Run "
            "parley forecast to see whether larger budgets or more owners would help."
        )
    least = f"{min(pays):.2g}"
    return (
        "* Joining is worthwhile for an owner if its value is at least the listed multiple of its total privacy cost. "
        f"The smallest multiple in the table is {least}. To try joining, state a privacy cost of 1 and a value of "
        f"{2 * float(least):.2g}."
    )


def title(result: Negotiation) -> str:
    """Return the title of the table of a negotiation."""
    what = "What each owner would choose" if result.target is None else "Cheapest contracts found"
    return f"{what} (ε: {adjacency(result)})"


def owner_rows(result: Negotiation) -> list[list[str]]:
    """Return a table of who joins, with which budget and payoff."""
    paid = result.target is not None
    rows = [["owner", "joins", "budget ε", "test cost saved", *(["payment"] if paid else []), "payoff"]]
    for owner in result.owners:
        money = [number(owner.payment)] if paid else []
        joins = "yes" if owner.participates else "stays out"
        rows.append([owner.name, joins, number(owner.epsilon), number(owner.gain, 3), *money, number(owner.payoff)])
    return rows


def prices(result: Negotiation) -> list[str]:
    """Say what the learner pays, and what privacy costs everybody."""
    sentences = []
    if result.target is not None:
        spend = result.deal.spend
        paid = max((abs(owner.payment) for owner in result.owners), default=0.0)
        sentences.append(f"The learner pays {number(spend if abs(spend) > 1e-9 * paid else 0.0)} in total.")
        if result.posted is not None:
            price, more = number(result.posted.price), number(result.posted.spend)
            sentences[0] += f" A single price of {price} for each unit of ε would cost the learner {more}."
    if result.price_of_privacy is not None:
        lost = f"{result.price_of_privacy:.1%}"
        sentences.append(
            f"Price of privacy: because of noise, the owners lose {lost} of the gain that they would have without "
            "noise."
        )
    return sentences


def truthful_rows(result: Negotiation) -> list[list[str]]:
    """Return a table of each owner's budget, payment and payoff by contracts and by truthful payments, if asked for."""
    offer = result.truthful
    if offer is None:
        return []
    deals = (offer.contracts, offer.deal)
    rows = [["owner", "ε (c)", "ε (t)", "paid (c)", "paid (t)", "payoff (c)", "payoff (t)"]]
    for place, part in enumerate(result.terms.owners):
        pairs = [[_cell(deal, place, column) for deal in deals] for column in ("epsilon", "payment", "payoff")]
        rows.append([part.name, *(cell for pair in pairs for cell in pair)])
    return rows


def _cell(deal: Deal | None, place: int, column: str) -> str:
    if deal is None:
        return "–"
    return number(float(getattr(deal, column)[place]), 3) if deal.members[place] else "out"


def truthful_lines(result: Negotiation) -> list[str]:
    """Explain truthful payments and what they assume, if asked for."""
    offer = result.truthful
    if offer is None:
        return []
    if offer.relative_fitness is None:
        return ["Under truthful payments, no owner joins at the stated costs, and no owner is paid."]
    psi, spend = number(offer.relative_fitness), number(offer.deal.spend)
    beside = f"No contracts lead to a stable coalition at ψ = {psi}"
    if offer.contracts is not None:
        beside = f"Contracts cost {number(offer.contracts.spend)} if the stated costs are true"
    return [
        f"With truthful payments, the joint model has ψ = {psi}, and the learner pays {spend} in total. {beside}.",
        "With truthful payments, no owner gains by stating a false cost, whatever other owners state. An owner that "
        "states its true cost never loses. The guarantees of truthful payments assume gains that are interpolated "
        "between budgets.",
        "The terms that parley negotiate writes contain the budgets in column ε (t). Run parley forecast on the new "
        "terms before signing, because real gains may be smaller.",
        "A negative payment is a fee that the owner pays. An owner pays a fee if the model is worth more to the owner "
        "than its stated cost plus its payoff (t). With contracts, a member may also join without payment and choose "
        "another budget. Truthful payments offer each owner at most one budget.",
        "Truthful payments assume that values are known, that costs do not depend on the rows, and that owners do not "
        "collude.",
    ]


def checked(result: Negotiation) -> str:
    """Say how close the result is to an equilibrium."""
    return (
        f"Parley checked that no owner can gain more than {number(result.largest_gain, 2)} by changing its own choice."
    )


def adjacency(result: Negotiation) -> Adjacency:
    return Adjacency.from_unit(result.terms.privacy.unit)
