"""Pairs at the ends of what the terms allow: of some canaries the two whose answers lie farthest apart. A search begins
with such a pair, and whole runs of any kind are on one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from parley.audit.exact.cell_pool import FRAME
from parley.audit.exact.enumeration import sizes
from parley.audit.exact.trial import Asked, Trial, Unit
from parley.errors import Refusal, TermsError
from parley.privacy.mechanisms import Norm
from parley.protocol.queries import Query, Tables
from parley.validate import Floats

if TYPE_CHECKING:
    from parley.audit.exact.pair_search import PairSearch

EXTREMES = 16  # canaries that are tried
TURNED = 50  # questions about each of them


def extreme_trial(search: "PairSearch", rng: np.random.Generator) -> Trial:
    """The pair of canaries whose answers lie farthest apart, asked where the algorithm begins, or at numbers at ends of
    their box, of which one after the other is turned as long as answers move apart."""
    base = plain_trial(search, rng)
    try:
        asked = search.questions.of_size(search.records(base), base.batches)
    except TermsError:
        return base
    units, tables = answerable(search, base, asked, rng)
    if asked.question.own_noise is not None or len(units) < 2:
        return base
    numbers, (_, a, b) = _turned(search, base, asked, tables, rng)
    return replace(base, a=units[a], b=units[b], numbers=numbers)


def _turned(
    search: "PairSearch", base: Trial, asked: Asked, tables: Sequence[Tables], rng: np.random.Generator
) -> tuple[Mapping[str, Floats], tuple[float, int, int]]:
    """(the numbers that are asked at, how far apart which two tables lie): coordinate by coordinate, until the claim
    is used up or so many questions were asked."""
    moves, question, steps = search.moves, asked.question, TURNED
    enough = 0.999 * (question.reach if question.together > 1 else question.sensitivity)

    def apart(numbers: Mapping[str, Floats]) -> tuple[float, int, int]:
        nonlocal steps
        try:
            queries = list(search.questions.queries(asked, numbers, 0))
        except Refusal:
            return 0.0, 0, 1
        steps -= len(queries)
        return farthest([exact_answer(asked, queries, each) for each in tables], question.norm)

    best, found = base.numbers, apart(base.numbers)
    ends = ({name: np.full_like(v, sign * moves.largest[name]) for name, v in base.numbers.items()} for sign in (1, -1))
    places = [(name, place, end) for name, v in base.numbers.items() for place in range(v.size) for end in (-1, 0, 1)]
    order = (places[int(place)] for _ in range(TURNED) for place in rng.permutation(len(places))[:TURNED])
    while found[0] < enough and steps > 0 and any(moves.largest.values()):
        tried = next(ends, None)
        if tried is None:
            name, place, end = next(order)
            turned = best[name].copy()
            turned.flat[place] = end * moves.largest[name]
            tried = {**best, name: turned}
        if (now := apart(tried)) > found:
            best, found = tried, now
    return best, found


def plain_trial(search: "PairSearch", rng: np.random.Generator) -> Trial:
    """A table of a few usual rows, in a declared frame."""
    moves, shape = search.moves, search.shape
    rows = shape.rows + shape.beyond
    unit = moves.unit(rng, moves.plain_kinds, rows)
    others = (unit if shape.several else unit[:1],) * min(2, moves.most - 1)
    batches = moves.batches[0] if moves.batches else None
    return Trial(FRAME, moves.plain_kinds, others, unit, unit, 0, moves.asked, 0, batches)


def answerable(
    search: "PairSearch", base: Trial, asked: Asked, rng: np.random.Generator, times: int = 1
) -> tuple[list[Unit], list[Tables]]:
    """Canaries whose tables are taken, and those tables."""
    moves, rows = search.moves, search.shape.rows + search.shape.beyond
    units = [base.a, *(moves.unit(rng, base.kinds, rows) for _ in range(times * EXTREMES - 1))]
    read = [(unit, search.prepared(base, asked, unit, "a").tables) for unit in units]
    taken = [(unit, tables) for unit, tables in read if tables is not None]
    return [unit for unit, _ in taken], [tables for _, tables in taken]


def exact_answer(asked: Asked, queries: Sequence[Query], tables: Tables) -> Floats:
    """All answers before any noise, if every row is drawn where rows are."""
    question = asked.question
    if question.draws:
        return np.concatenate([question.about(query, tables, np.arange(len(tables.train))) for query in queries])
    return np.concatenate([question.bounded(query, tables).value for query in queries])


def farthest(answers: Sequence[Floats], norm: Norm) -> tuple[float, int, int]:
    """(how far the two of these answers lie apart that are farthest, and which they are)."""
    values, best = np.array(answers), (0.0, 0, 0)
    for place in range(1, len(values)):
        apart = sizes(values[:place] - values[place], norm)
        best = max(best, (float(apart.max()), int(np.argmax(apart)), place))
    return best
