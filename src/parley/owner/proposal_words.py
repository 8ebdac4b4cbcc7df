"""Beside what accepting terms means (`acceptance_summary`): who else is in, and what would be left of the lifetime
budget."""

from parley.errors import ParleyError
from parley.numerals import number
from parley.owner.ledger import Ledger
from parley.owner.ledger.account import Reservation
from parley.terms import Terms

NAMED = 20  # owners


def others_in(terms: Terms, owner: str) -> str:
    """Who else the terms name, with how many records, at which epsilon."""
    others = [part for part in terms.owners if part.name != owner]
    if not others:
        return "Who else is in: nobody."
    said = [
        f"{part.name} ({part.records:,} records, ε = {number(part.epsilon, side='above')})" for part in others[:NAMED]
    ]
    more = f" and {len(others) - NAMED:,} more" if len(others) > NAMED else ""
    return f"Who else is in, by the terms: {', '.join(said)}{more}. Whether they accept is not told here."


def left_after(books: Ledger, reservation: Reservation, known: bool) -> str:
    """What of the lifetime budget would be left for further terms; or that these do not fit. `known` terms are accepted
    already."""
    if not known:
        try:
            books.require_room(reservation)
        except ParleyError as refusal:
            return f"What is left after: these terms do not fit. {refusal}."
    lifetime, reserved, held = books.lifetime, books.reserved, books.rho
    if held is not None:
        left = held[0] - held[1] - (0 if known else reservation.rho or 0)
        return f"What is left after: ρ = {number(left, side='below')} of {number(held[0], side='below')}."
    cost = (0, 0) if known else (reservation.epsilon, reservation.delta)
    left, deltas = lifetime[0] - reserved[0] - cost[0], lifetime[1] - reserved[1] - cost[1]
    of_delta = f", δ = {number(deltas, side='below')} of {number(lifetime[1])}" if lifetime[1] > 0 else ""
    return (
        f"What is left after: ε = {number(left, side='below')} of {number(lifetime[0])}{of_delta}, for all further "
        "terms."
    )
