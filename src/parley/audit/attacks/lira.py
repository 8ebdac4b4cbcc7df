"""How likely a row is a member, by what a model says of it: a likelihood ratio of its own (LiRA, Carlini et al. 2022),
or one attack model for all rows of a class (Shokri et al. 2017)."""

from typing import Literal

import numpy as np

from parley.audit.attacks.shadow import Evidence, Tables
from parley.validate import Floats

Method = Literal["online", "offline", "shadow"]
METHODS: tuple[Method, ...] = ("online", "offline", "shadow")
ENOUGH = 32  # models of either side from which a row has a variance of its own; below, all rows share one


def scores(method: Method, known: Evidence, tables: Tables, seen: Evidence) -> Floats:
    """How much the models that are attacked [tables, replicates, rows] look as if each row were a member, from shadow
    models of which it is known who is in their tables [shadows, rows].

    "online": shadow models with and without the row; "offline": those without it alone, as for a row that comes later;
    "shadow": an attack model that is learned from all shadow models' rows together, class by class.
    """
    if method == "shadow":
        return _by_attack_model(known, tables, seen)
    mean_out, spread_out = _laws(known.statistic, ~tables)
    if method == "offline":
        towards = np.where(known.aim >= mean_out, 1.0, -1.0)
        return np.asarray(towards * (seen.statistic - mean_out) / spread_out)
    mean_in, spread_in = _laws(known.statistic, tables)
    return np.asarray(
        0.5 * ((seen.statistic - mean_out) / spread_out) ** 2
        - 0.5 * ((seen.statistic - mean_in) / spread_in) ** 2
        + np.log(spread_out / spread_in)
    )


def _laws(statistic: Floats, which: Tables) -> tuple[Floats, Floats]:
    """(mean, deviation) of each row's statistic [tables, replicates, rows] over the tables that are marked."""
    weight = np.repeat(which[:, None], statistic.shape[1], axis=1)
    count = np.maximum(weight.sum(axis=(0, 1)), 1)
    mean = (statistic * weight).sum(axis=(0, 1)) / count
    squares = (((statistic - mean) ** 2) * weight).sum(axis=(0, 1))
    few = int(which.sum(axis=0).min()) < ENOUGH
    variance = np.full_like(mean, squares.sum() / count.sum()) if few else squares / count
    least = 1e-12 * (1.0 + float(np.mean(mean**2)))
    return mean, np.sqrt(np.maximum(variance, least))


def _by_attack_model(known: Evidence, tables: Tables, seen: Evidence) -> Floats:
    from sklearn.linear_model import LogisticRegression  # a library that the others need not wait for

    member = np.repeat(tables[:, None], known.loss.shape[1], axis=1)
    found = np.zeros(seen.loss.shape)
    for group in np.unique(known.group):
        here = known.group == group
        x, y = _features(known.loss[..., here]), member[..., here].reshape(-1)
        centre, scale = x.mean(axis=0), x.std(axis=0) + 1e-12
        attack = LogisticRegression().fit((x - centre) / scale, y)
        said = attack.decision_function((_features(seen.loss[..., here]) - centre) / scale)
        found[..., here] = said.reshape(seen.loss[..., here].shape)
    return found


def _features(loss: Floats) -> Floats:
    """What an attack model looks at [n, 2]: the loss, and its logarithm."""
    flat = loss.reshape(-1)
    return np.column_stack([flat, np.log(flat + 1e-9)])
