"""The same search in processes that take other instructions of this processor: every BLAS kernel that it has, and NumPy
without its faster loops."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from parley.audit.exact.kernels import environments
from parley.audit.exact.pair_search import Searched, search_owner
from parley.errors import ParleyError
from parley.learning.algorithms.algorithm import Progress
from parley.protocol.setup import resolve
from parley.terms import Terms

AT_ONCE = 2  # processes
CHILD = "from parley.audit.exact.other_instructions import main; main()"


def search_with_others(
    terms: Terms, name: str, tries: int, seed: int = 0, progress: Progress = lambda done, total: None
) -> list[Searched]:
    """What searches of so many trials each find about an owner's answers, with each of the other instructions."""
    ways = environments()

    def search(place: int) -> list[Searched]:
        instructions, environment = list(ways.items())[place]
        own = search_elsewhere(environment, terms, name, tries, seed + place + 1)
        return [replace(each, instructions=instructions) for each in own]

    found: list[Searched] = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for place, own in enumerate(pool.map(search, range(len(ways)))):
            found += own
            progress(place + 1, len(ways))
    return found


def search_elsewhere(environment: Mapping[str, str], terms: Terms, name: str, tries: int, seed: int) -> list[Searched]:
    """The same with one of them, in a process of its own."""
    asked = {"terms": terms.model_dump(mode="json", exclude_none=True), "name": name, "tries": tries, "seed": seed}
    ran = subprocess.run(  # noqa: S603 - this program itself
        [sys.executable, "-c", CHILD],
        env={**os.environ, **environment},
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise ParleyError(f"a search with other instructions of this processor ended with code {ran.returncode}")
    return [Searched(**each) for each in json.loads(ran.stdout)]


def main() -> None:
    """Search as the object on the standard input says, and print what is found."""
    asked = json.load(sys.stdin)
    setup = resolve(Terms.from_dict(asked["terms"]))
    found = search_owner(setup, asked["name"], asked["tries"], asked["seed"])
    sys.stdout.write(json.dumps([vars(each) for each in found]))
