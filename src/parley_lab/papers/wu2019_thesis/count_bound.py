"""Wu's thesis (T, June 2019), equation 2.3: how often a reader of a private count is right, beside what is possible.

T calls its bound tight. For a count of n records it is for n = 1 alone: the best mechanism, found and proved in exact
fractions (`optimal_mechanism`), stays below. On rings of odd length and on cliques, which look alike from every
answer, the bound is reached.
"""

from fractions import Fraction

from parley_lab.papers.document import Progress, Shown, Titled
from parley_lab.papers.wu2019_thesis.optimal_mechanism import (
    Graph,
    clique_graph,
    optimum,
    path_graph,
    published_bound,
    ring_graph,
)

EXP_MINUS_EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))  # e^-eps
MAX_RECORDS = 12

GraphCase = tuple[str, int, int, Graph]  # what it is, largest distance, answers at each, the graph


def lines() -> list[GraphCase]:
    """Counts, rings and cliques."""
    counts = [(f"count of {n}", n, 1, path_graph(n)) for n in range(1, MAX_RECORDS + 1)]
    rings = [(f"ring of {2 * half + 1}", half, 2, ring_graph(2 * half + 1)) for half in (1, 2, 5)]
    return [*counts, *rings, *((f"clique of {size}", 1, size - 1, clique_graph(size)) for size in (3, 6))]


def shown(printed: bool, word: str, progress: Progress) -> Shown:
    """The bound and the optimum of each, and whether they are the same."""
    found = []
    for name, distance, border, graph in lines():
        for q in EXP_MINUS_EPSILONS:
            best, bound = optimum(graph, q), published_bound(distance, border, q)
            found.append((name, q, best.value, bound, best.proved()))
        progress(len(found), len(lines()) * len(EXP_MINUS_EPSILONS))
    head = ["", *(f"{what} {float(q):g}" for q in EXP_MINUS_EPSILONS for what in ("2.3 at", "best at"))]
    rows = [head]
    for name, *_ in lines():
        mine = [each for each in found if each[0] == name]
        rows.append([name, *(f"{float(value):.4f}" for each in mine for value in (each[3], each[2]))])
    content = {
        "optima": [
            {
                "graph": name,
                "ratio": str(q),
                "optimum": str(best),
                "bound": str(bound),
                "reached": best == bound,
                "proved": proved,
            }
            for name, q, best, bound, proved in found
        ]
    }
    note = (
        "The chance of guessing the true answer, uniform prior. The best is the linear program's optimum in exact "
        "fractions, proved by its dual; of a count it is two-sided geometric noise cut to 0..n. From 2 records on the "
        "published bound is not reached."
    )
    drawn = [(float(q), *zip(*_series(found, q), strict=True)) for q in EXP_MINUS_EPSILONS]
    return Shown(content, [Titled("How often a reader is right, by e^-ε", rows), note], (drawn,))


def _series(found: list[tuple[str, Fraction, Fraction, Fraction, bool]], q: Fraction) -> list[tuple[float, float]]:
    """(best, bound) of counts, by their records."""
    return [(float(best), float(bound)) for name, ratio, best, bound, _ in found if ratio == q and name[:5] == "count"]
