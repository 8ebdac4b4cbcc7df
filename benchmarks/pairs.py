"""The search over pairs of tables and questions (`parley.audit.exact.pair_search`) at length: every kind of question
that is registered, under each of the BLAS kernels and NumPy features that this processor has.

Wanted: no answer tells two neighbouring tables apart better than is claimed. With `--holes` two holes that were are put
back, one after the other, and how long it takes to find each is printed.

    python benchmarks/pairs.py [--tries 4000] [--seed 0] [--kinds gradient ...] [--holes]
"""

import argparse
import sys
import time
from pathlib import Path

from parley.audit.agreement import search_with_others
from parley.audit.exact.pair_search import PairSearch, search_owner
from parley.protocol.setup import resolve

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from every_kind import EVERY_KIND, NAMED, OTHERWISE, SECRET  # type: ignore[import-not-found]
from mutants import HOLES  # type: ignore[import-not-found]

CASES = {**EVERY_KIND, **OTHERWISE, "secret draws": SECRET}
HOLED = {"secret draws round each other": SECRET, "a gap renames all others": NAMED}
FEWER = 10  # times fewer trials with each of the processor's other instructions


def search_kind(case: str, tries: int, seed: int) -> bool:
    """Whether nothing is found about one kind of question."""
    began, terms = time.perf_counter(), CASES[case]
    found = [*search_owner(resolve(terms), "a", tries, seed)]
    found += search_with_others(terms, "a", max(tries // FEWER, 1), seed)
    most = max(found, key=lambda each: each.share)
    print(
        f"{case}: {sum(each.tried for each in found):,} trials, {sum(each.read for each in found):,} of them read, at "
        f"most {most.share:.6f} of the claim ({most.instructions}; {most.found}), {time.perf_counter() - began:.0f} s",
        flush=True,
    )
    return all(each.holds for each in found)


def search_hole(hole: str, tries: int, seed: int) -> bool:
    """Whether a hole is found that is put back."""
    began = time.perf_counter()
    with HOLES[hole]():
        found = PairSearch(resolve(HOLED[hole]), "a").climb(tries, seed)
    print(
        f"{hole}: {found.share:.3f} of the claim after {found.tried:,} trials ({found.found}), "
        f"{time.perf_counter() - began:.1f} s",
        flush=True,
    )
    return not found.holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--holes", action="store_true", help="put two holes back, which the search must find")
    given = parser.parse_args()
    if given.holes:
        found = [search_hole(hole, given.tries, given.seed) for hole in HOLES]
        if not all(found):
            raise SystemExit("a hole that was put back is not found")
        return
    hold = [search_kind(case, given.tries, given.seed) for case in given.kinds]
    if not all(hold):
        raise SystemExit("an answer tells two tables apart better than is claimed")


if __name__ == "__main__":
    main()
