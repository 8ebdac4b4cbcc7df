"""The accuracies of Chase et al. as A quotes them beside those of a run."""

from collections.abc import Mapping
from dataclasses import dataclass

from parley_lab.papers.document import Shown
from parley_lab.papers.records import Comparison, Reading


@dataclass(frozen=True)
class NormColumn:
    """One norm of the tables: its name with our noise, and the column of a run that has the noise it has in A."""

    name: str
    key: str


# A: L1 and Linf have Laplace noise, L2 Gaussian noise. Runs in Linf have Gaussian noise alone.
COLUMN_BY_NORM = {
    "linf": NormColumn("Linf (our noise: Gaussian)", "our_linf"),
    "l1": NormColumn("L1", "pure"),
    "l2": NormColumn("L2", "our_l2"),
}


def table(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Tables 1 and 2: accuracy at each epsilon in each norm, in the paper's order of norms, and without noise. Nothing
    decides: neither the networks nor what epsilon stands for are printed."""
    content = next(iter(shown.values())).content
    (rows,), (by_step,) = content["tables"].values(), content["by_step"].values()
    *noisy, silent = rows
    lines = [_beside("no noise, %", silent["l2"], silent["our_l2"])]
    for row in noisy:
        for norm, column in COLUMN_BY_NORM.items():
            lines.append(_beside(f"ε = {row['epsilon']:g} in all, {column.name}, %", row[norm], row[column.key]))
    for row in by_step:
        for norm in ("l1", "l2"):
            total = f"{row[f'total_{norm}']:.3g} in all"
            what = f"ε = {row['epsilon']:g} a step ({total}), {COLUMN_BY_NORM[norm].name}, %"
            lines.append(_beside(what, row[norm], row[f"step_{norm}"]))
    return lines


def _beside(what: str, published: float, found: float) -> Comparison:
    return Comparison(what, published, found, reading=Reading.BESIDE)
