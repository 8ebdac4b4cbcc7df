"""Numbers drawn inside a circuit from public tables at secret places (`mechanisms.alias_table`).

All products of a place's 7 digits make every function of the place an exclusive or (its algebraic normal form). So 120
ANDs choose the threshold and the alias; a comparison of 64 digits and 7 choices follow.
"""

from collections.abc import Sequence

from parley.privacy.mechanisms.alias_table import PLACE_BITS, PLACES, WORD_BITS, AliasTable
from parley.privacy.sharing.circuits import Builder, Wire, carry

TABLE_INPUTS = PLACE_BITS + WORD_BITS  # planes: the place's digits, lowest first, and the word's, highest first


def draw_from_table(builder: Builder, table: AliasTable, start: Wire) -> list[Wire]:
    """Return the 7 digits, lowest first, of the number that the table gives for the input planes from `start` on."""
    place, word = range(start, start + PLACE_BITS), range(start + PLACE_BITS, start + TABLE_INPUTS)
    products = _products(builder, place)
    threshold = [_function(builder, products, table.thresholds, WORD_BITS - 1 - k) for k in range(WORD_BITS)]
    wrapped = carry(builder, threshold, word)
    accepted = builder.parity(*wrapped.wires, flip=wrapped.flip)
    digits = []
    for digit, wire in enumerate(place):
        alias = _function(builder, products, table.aliases, digit)
        digits.append(builder.parity(alias, builder.conjunction(accepted, builder.parity(wire, alias))))
    return digits


def _products(builder: Builder, place: Sequence[Wire]) -> list[Wire]:
    """Return the products of each set of the place's digits, a set by its bits; place 0 is not used."""
    made = [place[0]] * PLACES
    for chosen in range(1, PLACES):
        digits = [digit for digit in range(PLACE_BITS) if chosen >> digit & 1]
        if len(digits) == 1:
            made[chosen] = place[digits[0]]
            continue
        low = sum(1 << digit for digit in digits[: len(digits) // 2])
        made[chosen] = builder.conjunction(made[low], made[chosen ^ low])
    return made


def _function(builder: Builder, products: list[Wire], table: tuple[int, ...], digit: int) -> Wire:
    """Return bit `digit` of the table's entry at the place, as the exclusive or of products."""
    form = [entry >> digit & 1 for entry in table]
    for step in range(PLACE_BITS):
        form = [bit ^ form[place ^ 1 << step] if place >> step & 1 else bit for place, bit in enumerate(form)]
    terms = [products[chosen] for chosen in range(1, PLACES) if form[chosen]]
    if not terms:
        terms = [products[1], products[1]]  # 0
    return builder.parity(*terms, flip=bool(form[0]))
