"""BLAS kernels and loops of NumPy that this processor can execute.

Each is taken by a process of its own, which is started with it: one that the processor lacks ends that process.
"""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest

from numpy._core._multiarray_umath import (  # type: ignore[import-not-found, unused-ignore]
    __cpu_dispatch__,
    __cpu_features__,
)

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
