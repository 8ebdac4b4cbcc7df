"""An audit of an agreement: every promise of its terms, and which larger faults the attack would have noticed. The
search is repeated in processes with other instructions of this processor: each BLAS kernel, and NumPy's plain loops.
Each has its own process, because a kernel that the processor lacks ends it."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy._core._multiarray_umath import (  # type: ignore[import-not-found, unused-ignore]
    __cpu_dispatch__,
    __cpu_features__,
)

from parley.audit.canary import require_audited_owner
from parley.audit.exact.enumeration import ExactVerdict, exact_verdicts, size_verdicts
from parley.audit.exact.pair_search import Searched, search_owner
from parley.audit.runs import Verdict, audit_owner
from parley.audit.served.one_host import HostVerdict, audit_hosts
from parley.errors import ParleyError, TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms

PLAIN_LOOPS = "plain loops"  # of NumPy
KNOWN_KERNELS = {
    "aarch64": ("ARMV8", "NEOVERSEN1", "THUNDERX2T99", "CORTEXA53", "NEOVERSEV1"),
    "arm64": ("ARMV8", "VORTEX", "NEOVERSEN1"),
    "x86_64": ("PRESCOTT", "HASWELL", "SKYLAKEX", "ZEN", "SANDYBRIDGE", "NEHALEM"),
    "AMD64": ("PRESCOTT", "HASWELL", "SKYLAKEX", "ZEN"),
}
# What a kernel is known by: the library's own word for it, the bits of some products, and the directions in which a
# sample spreads equally.
KERNEL_PROBE = """
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
PARALLEL_PROCESSES = 2  # processes
SEARCH_PROGRAM = "from parley.audit.agreement import main; main()"


def search_with_others(
    terms: Terms, name: str, tries: int, seed: int = 0, progress: Progress = lambda done, total: None
) -> list[Searched]:
    """Search `tries` trials of an owner's answers with each of the other instruction sets."""
    ways = environments()

    def search(place: int) -> list[Searched]:
        instructions, environment = list(ways.items())[place]
        own = search_elsewhere(environment, terms, name, tries, seed + place + 1)
        return [replace(each, instructions=instructions) for each in own]

    searched: list[Searched] = []
    with ThreadPoolExecutor(PARALLEL_PROCESSES) as pool:
        for place, own in enumerate(pool.map(search, range(len(ways)))):
            searched += own
            progress(place + 1, len(ways))
    return searched


def search_elsewhere(environment: Mapping[str, str], terms: Terms, name: str, tries: int, seed: int) -> list[Searched]:
    """Run the search with one of these instruction sets, in its own process."""
    request = {"terms": terms.model_dump(mode="json", exclude_none=True), "name": name, "tries": tries, "seed": seed}
    ran = subprocess.run(  # noqa: S603 - this program itself
        [sys.executable, "-c", SEARCH_PROGRAM],
        env={**os.environ, **environment},
        input=json.dumps(request),
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise ParleyError(
            f"the audit's search under another processor instruction set failed with exit code {ran.returncode}; run "
            "the audit again"
        )
    return [Searched(**each) for each in json.loads(ran.stdout)]


def main() -> None:
    """Run the search that the JSON object on standard input describes, and print what it finds."""
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
    """Return the kernels that work here, one for each result's bits; neighbours differ in directions if any do."""
    kernel_by_bits: dict[str, Kernel] = {}
    for name in KNOWN_KERNELS.get(platform.machine(), ()):
        ran = subprocess.run(  # noqa: S603 - the text above, and nothing from outside
            [sys.executable, "-c", KERNEL_PROBE],
            env={**os.environ, **kernel_setting(name)},
            capture_output=True,
            text=True,
            check=False,
        )
        taken, bits, directions = [*ran.stdout.split(), "", "", ""][:3]
        if ran.returncode == 0 and taken == name.lower():
            kernel_by_bits.setdefault(bits, Kernel(name, directions))
    usual = [
        kernel
        for kernel in kernel_by_bits.values()
        if kernel.directions == next(iter(kernel_by_bits.values())).directions
    ]
    others = [kernel for kernel in kernel_by_bits.values() if kernel not in usual]
    return tuple(kernel for pair in zip_longest(usual, others) for kernel in pair if kernel is not None)


def kernel_setting(kernel: str) -> dict[str, str]:
    """Return the environment in which a process uses this kernel."""
    return {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def plain_loops() -> dict[str, str]:
    """Return the environment in which NumPy uses none of its faster loops."""
    return {"NPY_DISABLE_CPU_FEATURES": " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))}


def environments() -> dict[str, dict[str, str]]:
    """Return environments by name: each kernel that is found here, and NumPy without its faster loops."""
    return {**{kernel.name: kernel_setting(kernel.name) for kernel in kernels()}, PLAIN_LOOPS: plain_loops()}


KEYS_OUTSIDE_PROMISE = {
    "name",
    "data",
    "value",
    "privacy_cost",
    "records",
}  # of an owner's part: its promise does not depend on them
TRIALS_DIVISOR = 5  # times fewer trials with each of the processor's other instructions
CONTROL_FACTORS = (2, 4, 8)  # times the budget, and about as much less noise
HOST_DRAWS = 2**15  # of either answer, where hosts draw one noise


@dataclass(frozen=True)
class Audit:
    """What was found about every owner, and what would have been noticed."""

    title: str
    terms_hash: str
    verdicts: tuple[Verdict, ...]
    exact: tuple[ExactVerdict, ...]  # of the first owner's answers, by their law
    controls: Mapping[int, bool]  # whether noise for so many times the budget was caught, by the same attack
    seconds: float
    search: tuple[Searched, ...] = ()  # for pairs of tables that the first owner's answers tell apart too well
    hosts: tuple[HostVerdict, ...] = ()  # what each of them sees of one answer, with the learner
    score: Verdict | None = None  # of the first owner's score, where one is agreed on
    before: "tuple[Audit, ...]" = ()  # of what is asked, by an agreement of its own, before these terms

    @property
    def holds(self) -> bool:
        """Whether nothing contradicts any claim."""
        kinds = (self.verdicts, self.exact, self.search, self.hosts, [self.score] if self.score else [], self.before)
        return all(verdict.holds for found in kinds for verdict in found)

    @property
    def noticed(self) -> int | None:
        """The least excess among the controls that was caught; None if none was, so this audit had hardly any power."""
        return next((factor for factor, caught in self.controls.items() if caught), None)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `parley audit --json` prints."""
        return {
            "title": self.title,
            "terms_hash": self.terms_hash,
            "holds": self.holds,
            "owners": [verdict.to_json() for verdict in self.verdicts],
            "exact": [verdict.to_json() for verdict in self.exact],
            "search": [found.to_json() for found in self.search],
            "hosts": [verdict.to_json() for verdict in self.hosts],
            "score": None if self.score is None else self.score.to_json(),
            "before": [audit.to_json() for audit in self.before],
            "mutants": {control_name(factor): caught for factor, caught in self.controls.items()},
            "seconds": self.seconds,
        }


def control_name(factor: int) -> str:
    """Name a control."""
    return f"noise for {factor} times the budget"


def audit_terms(
    terms: Terms,
    runs: int | None = None,
    seed: int | None = None,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
    says: Callable[[str], None] = lambda label: None,
    tries: int = 0,
) -> Audit:
    """Attack every owner's answers under these terms. Owners with the same promise are attacked once.

    All verdicts hold together at `confidence`. Controls repeat the attack on the first owner with noise for 2, 4 and 8
    times the budget, up to the first that is caught. `runs`: None for as many as take a minute (`audit_owner`).
    `tries`: of a search over tables and questions of the first owner (`pair_search`); a fifth as many with each of the
    processor's other instructions.
    """
    require_audited_owner(terms)
    began = time.perf_counter()
    owner_groups, scored = owners_alike(terms), terms.privacy.score_epsilon is not None
    seeds = iter(np.random.SeedSequence(seed).generate_state(len(owner_groups) + len(CONTROL_FACTORS) + 1).tolist())
    each = 1 - (1 - confidence) / (len(owner_groups) + scored + terms.noise.hosts)
    verdict_by_owner: dict[str, Verdict] = {}
    for first, names in owner_groups.items():
        says(f"attacking {first}")
        verdict = audit_owner(terms, first, runs, next(seeds), each, progress)
        verdict_by_owner.update({name: replace(verdict, owner=name, confidence=confidence) for name in names})
    controls: dict[int, bool] = {}
    name = terms.owners[0].name
    for factor in CONTROL_FACTORS:
        says(f"attacking noise calibrated to {factor} times the budget, as a control")
        caught = _detects_less_noise(terms, name, factor, verdict_by_owner[name].runs, next(seeds), each, progress)
        if caught is not None:
            controls[factor] = caught
        if caught:
            break
    score = None
    if scored:
        says(f"attacking the released score of {name}")
        score = replace(audit_owner(terms, name, runs, next(seeds), each, progress, stage=1), confidence=confidence)
    setup = resolve(terms)
    if terms.noise.hosts:
        says("attacking what each host sees")
    hosts = audit_hosts(terms, HOST_DRAWS, seed, each) if terms.noise.hosts else ()
    verdicts = tuple(verdict_by_owner[part.name] for part in terms.owners)
    exact = (*exact_verdicts(setup, name), *size_verdicts(setup.part(name).stages))
    searched = tuple(_searched(setup, name, tries, seed or 0, progress, says))
    took = time.perf_counter() - began
    return Audit(terms.title, terms.hash, verdicts, exact, controls, took, searched, hosts, score)


def _searched(
    setup: Setup, name: str, tries: int, seed: int, progress: Progress, says: Callable[[str], None]
) -> Iterator[Searched]:
    if not tries:
        return
    says("searching for the pair of tables that answers reveal most")
    yield from search_owner(setup, name, tries, seed, progress)
    if tries >= TRIALS_DIVISOR:
        says("repeating the search with this processor's other instruction sets")
        yield from search_with_others(setup.terms, name, tries // TRIALS_DIVISOR, seed, progress)


def owners_alike(terms: Terms) -> dict[str, list[str]]:
    """Group owners by promise, each group under its first owner."""
    groups: dict[object, list[str]] = {}
    for part in terms.owners:
        key = tuple(getattr(part, field) for field in type(part).model_fields if field not in KEYS_OUTSIDE_PROMISE)
        groups.setdefault(key, []).append(part.name)
    return {names[0]: names for names in groups.values()}


def _detects_less_noise(
    terms: Terms, name: str, factor: int, runs: int, seed: int, confidence: float, progress: Progress
) -> bool | None:
    """Return whether noise for `factor` times every budget is shown to break the terms; None if no such terms exist."""
    try:
        loud = terms.changed(owners={part.name: {"epsilon": factor * part.epsilon} for part in terms.owners})
        verdict = audit_owner(loud, name, runs, seed, confidence, progress)
    except TermsError:
        return None
    return max(verdict.lower_bound, verdict.by_noise) > terms.training_epsilon(name)
