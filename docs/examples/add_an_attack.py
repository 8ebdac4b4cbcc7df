"""Add an attack: taking those rows for members on which a model errs least.

An attack sees what shadow models say of rows, and who is in their tables; it scores rows of models that are attacked.
Which scores count as hits, on how many models, and what that proves about epsilon follow.

In the package: audit/attacks/membership.py, report/words/membership.py
"""

import parley
from parley.audit.attacks.membership import ATTACKS, infer_members
from parley.audit.attacks.shadow import without_privacy
from parley.losses import make
from parley.report.words.membership import ATTACK_NAMES


def small_loss(known, tables, seen):
    """The smaller its loss beside what shadow models without the row make of it, the likelier a member."""
    usual = known.loss.mean(axis=(0, 1))
    return usual - seen.loss


ATTACKS["small-loss"] = small_loss
ATTACK_NAMES["small-loss"] = "smallest loss"

book = parley.data.synthetic_lending(60, seed=1)
model = {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True}
owners = [{"name": "bank", "records": 60, "epsilon": 1.0}]
terms = parley.Terms.from_dict({"model": model, "privacy": {"clip": 2e4}, "owners": owners})
design = parley.Owner("bank", book).prepare(terms).tables.train.in_memory()
train = without_privacy(make(terms.model), "number", design)
found = {each.method: each for each in infer_members(train, len(design), seed=1).inferences}
assert found["small-loss"].auc.value > 0.5  # better than chance, where no noise hides anybody
