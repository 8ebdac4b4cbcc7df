"""What Hitaj et al. claim of their attack beside what a run found."""

from collections.abc import Mapping

from parley_lab.papers.document import Shown
from parley_lab.papers.hitaj2017.exhibits import CONTROL_NAME
from parley_lab.papers.records import Comparison, Reading, Relation

HALF, SOURCE = 50.0, "ours: half of what is drawn"


def attack(shown: Mapping[str, Shown]) -> list[Comparison]:
    """Without protection, and where noise hides a record, likenesses are drawn; where it hides an owner, beside."""
    found = shown["digits"].content["attacks"]
    best = {name: 100 * max(look["recognised"] for looks in runs for look in looks) for name, runs in found.items()}
    open_, *hidden = (name for name in best if name != CONTROL_NAME)
    what = "% of drawings taken for the victim's digit, at best"
    lines = [
        Comparison(f"{what}: {open_}", HALF, best[open_], 0.0, SOURCE, Relation.AT_LEAST),
        Comparison(f"{what}: control", HALF, best[CONTROL_NAME], 0.0, SOURCE, Relation.AT_MOST),
    ]
    record, *others = hidden
    lines.append(Comparison(f"{what}: {record}", HALF, best[record], 0.0, SOURCE, Relation.AT_LEAST))
    return lines + [
        Comparison(f"{what}: {name}", HALF, best[name], 0.0, SOURCE, relation, Reading.BESIDE)
        for name in others
        for relation in [Relation.AT_MOST if "owner" in name else Relation.AT_LEAST]
    ]
