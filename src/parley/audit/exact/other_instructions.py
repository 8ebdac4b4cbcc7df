"""The same search in processes that take other instructions of this processor: every BLAS kernel that it can execute,
and NumPy without its faster loops.

Each is taken by a process of its own, which is started with it: one that the processor lacks ends that process.
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest

from numpy._core._multiarray_umath import (  # type: ignore[import-not-found, unused-ignore]
    __cpu_dispatch__,
    __cpu_features__,
)

from parley.audit.exact.pair_search import Searched, search_owner
from parley.errors import ParleyError
from parley.learning.algorithms.algorithm import Progress
from parley.protocol.setup import resolve
from parley.terms import Terms

PLAIN = "plain loops"  # of NumPy
KNOWN = {
    "aarch64": ("ARMV8", "NEOVERSEN1", "THUNDERX2T99", "CORTEXA53", "NEOVERSEV1"),
    "arm64": ("ARMV8", "VORTEX", "NEOVERSEN1"),
    "x86_64": ("PRESCOTT", "HASWELL", "SKYLAKEX", "ZEN", "SANDYBRIDGE", "NEHALEM"),
    "AMD64": ("PRESCOTT", "HASWELL", "SKYLAKEX", "ZEN"),
}
# What a kernel is known by: the library's own word for it, the bits of some products, and the directions in which a
# sample spreads equally.
TRIED = """
import hashlib, numpy as np, scipy.linalg
from threadpoolctl import threadpool_info
X = np.random.default_rng(0).normal(size=(101, 37))
bits = (X.T @ X).tobytes() + (X @ X[0]).tobytes() + np.linalg.eigh(X.T @ X)[1].tobytes()
balanced = np.column_stack([np.tile(np.eye(6), (20, 1)), X[np.arange(120) % 101, 0]])
turned = scipy.linalg.svd(balanced - balanced.mean(axis=0), full_matrices=False)[2][:4].round(3) + 0.0
found = [each for each in threadpool_info() if each["user_api"] == "blas" and "architecture" in each]
names = sorted({each["architecture"].lower() for each in found})
print(",".join(names), *(hashlib.sha256(each).hexdigest() for each in (bits, turned.tobytes())))
"""
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


@dataclass(frozen=True)
class Kernel:
    """A name for OPENBLAS_CORETYPE, and the directions that it finds."""

    name: str
    directions: str


@cache
def kernels() -> tuple[Kernel, ...]:
    """Those that are really taken here, one for each whose bits differ from the others'; neighbours differ in
    directions if any do."""
    found: dict[str, Kernel] = {}
    for name in KNOWN.get(platform.machine(), ()):
        ran = subprocess.run(  # noqa: S603 - the text above, and nothing from outside
            [sys.executable, "-c", TRIED],
            env={**os.environ, **kernel_setting(name)},
            capture_output=True,
            text=True,
            check=False,
        )
        taken, bits, directions = [*ran.stdout.split(), "", "", ""][:3]
        if ran.returncode == 0 and taken == name.lower():
            found.setdefault(bits, Kernel(name, directions))
    usual = [kernel for kernel in found.values() if kernel.directions == next(iter(found.values())).directions]
    others = [kernel for kernel in found.values() if kernel not in usual]
    return tuple(kernel for pair in zip_longest(usual, others) for kernel in pair if kernel is not None)


def kernel_setting(kernel: str) -> dict[str, str]:
    """The environment in which a process takes this kernel."""
    return {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def plain_loops() -> dict[str, str]:
    """The environment in which NumPy has none of the faster loops that it has here."""
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))}


def environments() -> dict[str, dict[str, str]]:
    """Environments by what a process takes in them: each kernel that is found here, and NumPy without its faster
    loops."""
    return {**{kernel.name: kernel_setting(kernel.name) for kernel in kernels()}, PLAIN: plain_loops()}
