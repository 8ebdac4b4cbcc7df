"""Training by the terms: every owner answers noisy queries, the learner follows the algorithm. What comes out is the
task's business."""

from collections.abc import Mapping, Sequence
from typing import Any

from parley.learning.algorithms.algorithm import Progress
from parley.owner.owner import Owner
from parley.protocol.task import RunSettings, task_of
from parley.terms import Terms
from parley.validate import Floats


def train(
    terms: Terms,
    owners: Sequence[Owner],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
    measure: bool = True,
    whole_path: bool = True,
    start: Floats | None = None,
    speeds: Mapping[str, float] | None = None,
) -> Any:
    """Train one joint model under these terms.

    Owners with durable ledgers release: the terms must have been accepted by each (`Owner.accept`), there is one
    replicate, and nothing computed from their tables but the noisy answers is looked at. Owners without take part in a
    study.

    Parameters
    ----------
    terms
        What was agreed on.
    owners
        One for each owner of the terms.
    replicates
        How many parallel runs a study has.
    seed
        Of a study's noise; a release takes none.
    progress
        Is told how far the work is: (done, of).
    measure
        Whether a study has relative fitness and task metrics, computed from the private tables,
    whole_path
        after every round, or (false: faster) after the last alone.
    start
        Where the search begins, something public: [P], or [replicates, P] in a study; left out: where the objective
        says.
    speeds
        Of asynchronous terms: how many answers an owner gives in a unit of a virtual clock's time, by name, 0: none
        ever; left out, owners are as fast as they have answers, and all give their last at once.

    Returns
    -------
    Result
        The model and what became of it; of another task than prediction, what its wing returns (`tasks`).

    Examples
    --------
    >>> import parley
    >>> book = parley.data.synthetic_lending(4000, seed=1)
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"], "intercept": True,
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]}, "radius": 30.0},
    ...     "learning": {"horizon": 20, "step": 1e-6},
    ...     "privacy": {"clip": 2e4},
    ...     "owners": [{"name": "bank", "records": 4000, "epsilon": 1.0}],
    ... })
    >>> result = parley.train(terms, [parley.Owner("bank", book)], replicates=8, seed=0)
    >>> result.owners[0].epsilon_spent, result.path.shape
    (1.0, (20, 8))
    """
    return task_of(terms).run(
        terms, owners, RunSettings(replicates, seed, progress, measure, whole_path, start, speeds)
    )
