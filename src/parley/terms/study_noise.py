"""What terms must say where noise is for studies alone: stable noise, which has no exact sampler and no variance."""

from typing import Any

from parley.terms.catalogue import ALL_MECHANISMS, MECHANISMS, PREDICTION
from parley.terms.keys import listed

STABLE = "docs/stable_noise.md"  # what is known of it
WHY = f"stable noise is for studies alone, since no sampler of it is safe to release with ({STABLE})"
UNRELEASED = (
    "privacy.mechanism = 'stable': stable noise has no exact sampler, so it cannot be released; expected 'laplace' or "
    "'gaussian', or a simulation (parley train without ledgers)"
)
UNFORECAST = (
    "privacy.mechanism = 'stable': its noise has no variance, so nothing is expected of it on average; parley train "
    "--replicates shows medians and quartiles"
)

Terms = Any  # terms.checkable.CheckableTerms, which builds on sections that are checked here


def check_alpha(mechanism: str, alpha: float | None) -> None:
    """Refuse (ValueError) stable noise without the index of its law, and such an index beside other noise."""
    if alpha is None and mechanism == "stable":
        raise ValueError(
            f"alpha|expected a number from 1 (Cauchy) to 1.9999 beside mechanism = 'stable', or mechanism = "
            f"{listed(MECHANISMS)}; {WHY}"
        )
    if alpha is not None and mechanism != "stable":
        raise ValueError("alpha|expected only with mechanism = 'stable': the index of its law")


def check_study_noise(terms: Terms) -> None:
    """Refuse (ValueError) noise for studies where nobody studies it: other tasks than prediction, hosts, and what is
    released before anything is learned."""
    privacy = terms.privacy
    if not ALL_MECHANISMS[privacy.mechanism].studied:
        return
    if terms.task != PREDICTION:
        raise ValueError(
            f"privacy.mechanism|expected {listed(MECHANISMS)} with algorithm = {terms.learning.algorithm!r}: by terms "
            "stable noise is studied where models predict a column from others"
        )
    if terms.noise.summed:
        raise ValueError("privacy.noise|expected 'each-owner' beside mechanism = 'stable': hosts draw no such noise")
    for key in ("scale_epsilon", "difference_epsilon"):
        if getattr(privacy, key) is not None:
            raise ValueError(f"privacy.{key}|expected none beside mechanism = 'stable': it is released, and {WHY}")
