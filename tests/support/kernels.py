"""Other instructions of this processor, and public samples whose directions hang on its BLAS kernel."""

import hashlib
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import parley
from parley.audit.agreement import KNOWN_KERNELS, PLAIN_LOOPS, Kernel, environments, kernels

INSTRUCTIONS = (*KNOWN_KERNELS.get(platform.machine(), ()), PLAIN_LOOPS)  # that processors of this kind may have


def environment(instructions: str) -> dict[str, str]:
    """The environment of a process that takes these, or a skip that says why."""
    found = environments()
    if instructions not in found:
        pytest.skip(f"this processor and this BLAS do not take {instructions}, or it differs from no other")
    return found[instructions]


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
