"""One run's posterior as the next run's prior: the product of two normal laws."""

from dataclasses import replace

import numpy as np

from parley.data import Preparation
from parley.data.public_numbers import preparation_names, preparation_numbers
from parley.errors import ModelError
from parley.learning.outcome.model import JointModel, make_model
from parley.learning.outcome.posterior import Posterior


def updated(earlier: JointModel, later: JointModel, *, other_rows: bool) -> JointModel:
    """Return the model of both runs: the earlier posterior is the prior, the later release the observation.

    Formal guarantee: post-processing of releases, so it costs nothing. The caller states that the later run had other
    rows. The same rows would count twice and make intervals too narrow by up to the square root of 2, so that is
    refused.

    Parameters
    ----------
    earlier, later
        Models trained with `algorithm = "fedinfer"`, with the same columns and scales.
    other_rows
        Whether the later run had other rows than the earlier one.

    Returns
    -------
    JointModel
        A model with narrower intervals than either.

    Examples
    --------
    >>> import parley
    >>> terms = parley.Terms.from_dict({
    ...     "model": {"kind": "linear-regression", "target": "int_rate", "features": ["fico", "dti"],
    ...               "bounds": {"fico": [600, 850], "dti": [0, 45], "int_rate": [5, 31]}},
    ...     "learning": {"algorithm": "fedinfer"},
    ...     "owners": [{"name": "bank", "records": 300, "epsilon": 1.0}],
    ... })
    >>> book, models = parley.data.synthetic_lending(700), []
    >>> for first, records in [(0, 300), (300, 400)]:
    ...     year = terms.changed(owners={"bank": {"records": records}})
    ...     owner = parley.Owner("bank", book[first : first + records])
    ...     models.append(parley.train(year, [owner], seed=1).model)
    >>> updated(*models, other_rows=True).posterior_.records
    700.0
    """
    first, second = earlier.posterior_, later.posterior_
    if first is None or second is None:
        raise ModelError("prior: expected two models with posteriors, trained with algorithm = 'fedinfer'")
    if not other_rows or earlier.terms_hash_ == later.terms_hash_:
        raise ModelError(
            "prior: expected a later run on other rows than the earlier run; the same rows would count twice"
        )
    if not _same_preparation(earlier.preparation_, later.preparation_):
        raise ModelError(
            "prior: expected the same columns, scales and basis in both runs; use the same frozen preprocessing in both"
        )
    posterior = after(first, second)
    theta, released = posterior.theta.reshape(later.theta_.shape), earlier.released_ and later.released_
    return make_model(later.preparation_, theta, later.terms_hash_, released, posterior)


def after(prior: Posterior, seen: Posterior) -> Posterior:
    """Return the posterior for independent rows and noise: precisions add up and weight the models.

    >>> one = Posterior(np.array([[1.0]]), np.array([[[1.0]]]), np.array([2.0]), 10.0, False)
    >>> both = after(one, replace(one, theta=np.array([[3.0]])))
    >>> both.theta.tolist(), both.covariance.tolist(), both.records
    ([[2.0]], [[[0.5]]], 20.0)
    """
    precisions = [np.linalg.pinv(each.covariance, hermitian=True) for each in (prior, seen)]
    covariance = np.linalg.pinv(precisions[0] + precisions[1], hermitian=True)
    pulls = [np.einsum("qij,qj->qi", p, each.theta) for p, each in zip(precisions, (prior, seen), strict=True)]
    theta, records = np.einsum("qij,qj->qi", covariance, pulls[0] + pulls[1]), prior.records + seen.records
    squares = prior.records * prior.residual**2 + seen.records * seen.residual**2
    known = {"theta": theta, "covariance": covariance, "residual": np.sqrt(squares / records), "records": records}
    return replace(seen, **known, repaired=prior.repaired or seen.repaired)


def _same_preparation(first: Preparation, second: Preparation) -> bool:
    here, there = preparation_numbers(first), preparation_numbers(second)
    same = here.keys() == there.keys() and all(np.array_equal(here[name], there[name]) for name in here)
    return same and first.model == second.model and preparation_names(first) == preparation_names(second)
