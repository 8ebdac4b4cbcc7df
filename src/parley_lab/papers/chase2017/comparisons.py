"""The accuracies of Chase et al. as A quotes them beside those of a run."""

from collections.abc import Mapping

from parley_lab.papers.document import Shown
from parley_lab.papers.records import Comparison, Reading, Relation

TOLERANCE, SOURCE = 1.0, "ours: networks, rates and clip are not printed"


def table(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Tables 1 and 2: accuracy at each epsilon by the L2 norm, which is what ours clips by, and without noise."""
    (rows,) = next(iter(shown.values())).content["tables"].values()
    lines = []
    for row in rows:
        where = "no noise" if row["epsilon"] is None else f"ε = {row['epsilon']:g}, L2"
        reading = Reading.DOCUMENT if row["epsilon"] is None else Reading.BESIDE
        relation = Relation.EQUAL if row["epsilon"] is None else Relation.AT_LEAST
        lines.append(Comparison(f"{where}, %", row["l2"], row["ours"], TOLERANCE, SOURCE, relation, reading))
    return lines
