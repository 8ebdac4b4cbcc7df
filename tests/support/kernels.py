"""BLAS kernels that this processor can execute, and public samples whose directions hang on them.

Each kernel is tried in a process of its own: one that the processor lacks ends it.
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import parley

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
    for name in KNOWN.get(os.uname().machine, ()):
        ran = subprocess.run(
            [sys.executable, "-c", TRIED],
            env={**os.environ, **setting(name)},
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


def setting(kernel: str) -> dict[str, str]:
    """The environment in which a process takes this kernel."""
    return {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def several_kernels(least: int = 2) -> tuple[Kernel, ...]:
    """At least so many, or a skip that says why."""
    found = kernels()
    if len(found) < least:
        names = ", ".join(kernel.name for kernel in found) or "none"
        pytest.skip(f"this processor and this BLAS have {len(found)} kernels that differ, {names}: {least} are needed")
    return found


def balanced_sample(rows: int = 120, seed: int = 0, names: str = "abcdef") -> pd.DataFrame:
    """A category whose names are equally frequent: one-hot, its columns spread equally in five directions, and machines
    choose which."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"c": list(names) * (rows // len(names)), "x": np.clip(rng.normal(size=rows), -3, 3)})
    return table.assign(y=np.clip(table["x"] + (table["c"] == "a") + 0.3 * rng.normal(size=rows), -4, 4))


def balanced_terms(folder: Path, *sizes: int, **keys: Any) -> parley.Terms:
    """Terms by which a balanced public sample is turned; keys of the model, or section__key."""
    balanced_sample().to_csv(folder / "public.csv", index=False)
    digest = hashlib.sha256((folder / "public.csv").read_bytes()).hexdigest()
    content: dict[str, Any] = {
        "model": {
            "kind": "linear-regression",
            "target": "y",
            "features": ["c", "x"],
            "coding": "one-hot",
            "radius": 5.0,
        },
        "learning": {"horizon": 2, "step": 0.2},
        "privacy": {"clip": 2.0},
        "owners": [{"name": "abc"[i], "records": size, "epsilon": 1.0} for i, size in enumerate(sizes or (60, 60, 60))],
    }
    content["model"] |= {"public": str(folder / "public.csv"), "public_sha256": digest, "intercept": True}
    for key, value in keys.items():
        section, _, name = key.rpartition("__")
        if key == "hosts":
            content[key] = value
        else:
            content[section or "model"][name] = value
    return parley.Terms.from_dict(content)
