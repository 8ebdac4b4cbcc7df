"""Training by the terms: owners answer noisy queries, the learner follows the algorithm, the task makes the result."""

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

    If owners have durable ledgers, the run is a release: each must have accepted the terms (`Owner.accept`), there is
    one replicate, and nothing computed from their tables is looked at except the noisy answers. Otherwise it is a
    study.

    Parameters
    ----------
    terms
        Agreed terms.
    owners
        One for each owner of the terms.
    replicates
        Number of parallel runs of a study.
    seed
        Seed of a study's noise; a release takes none.
    progress
        Called with (done, total).
    measure
        Whether a study computes relative fitness and task metrics from the private tables.
    whole_path
        Whether it does so after every round; false, after the last only, is faster.
    start
        Public starting point: [P], or [replicates, P] in a study. Default: the objective's.
    speeds
        For asynchronous terms: each owner's answers per unit of virtual time, by name; 0 means never. By default an
        owner's speed is its number of answers, so that all give their last at once.

    Returns
    -------
    Result
        The model and its figures; for other tasks than prediction, what the task returns (`tasks`).

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
