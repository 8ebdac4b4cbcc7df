"""What a key means, in a few words: comments for terms that a command writes and a person reads."""

from collections.abc import Mapping
from dataclasses import dataclass

NOTES: Mapping[str, str] = {
    "model.kind": "linear-regression: a number; logistic-regression: two classes; softmax-regression: several; "
    "poisson-regression: a count; survival: a time; boosted-regression and boosted-classification: by trees",
    "model.target": "what is predicted",
    "model.event": "1: it happened at that time; 0: it had not by then",
    "model.periods": "in which time is cut, by their ends",
    "model.exposure": "how much, or how long, each count was counted in",
    "model.features": "what it is predicted from",
    "model.positive": "counts as 1, every other name as 0",
    "model.merged": "columns of names in which capitals and spaces do not count",
    "model.dates": "columns of dates, and how they are written: each becomes days since 1970-01-01, as do its bounds",
    "model.coding": "each name of a category is a column of 0 and 1",
    "model.missing": "fill: the public median and a 0/1 column that says so; in a column of names, one more name",
    "model.bounds": "private values are cut to these; from public knowledge, never from private rows",
    "model.categories": "names that are told apart; any other is none of them. Never from private rows",
    "model.centres": "taken from each value before it is scaled",
    "model.scales": "one unit of each column",
    "model.public": "a public sample: ranges, scales, categories, and what plans are judged on. Nobody's private rows",
    "model.public_sha256": "so that all parties use the same one",
    "model.preparation": "public numbers found once: bounds, scales, directions; machines would find other directions",
    "model.preparation_sha256": "so that all parties use the same ones",
    "model.whitening": "features are turned: public: uncorrelated on the public sample; public-curvature: each bends "
    "its cost alike",
    "model.basis": "features by nearness to public points, waves or polynomials, instead of the columns",
    "model.columns": "bins: numbers cut at public quantiles; hinges: joined by lines; trees: leaves of public trees",
    "model.bins": "for each column of numbers, at most",
    "model.crossed": "pairs of columns whose coarser bins are combined, for what two do only together",
    "model.trees": "how many, of how many leaves, of how many public rows each; how fast they are grown; refitted: of "
    "how many the leaves are columns, what the others say being a public margin; 0: straight lines beside it",
    "model.intercept": "a constant beside the features",
    "model.radius": "no parameter leaves the box |theta| <= radius",
    "model.holdout": "share of each owner's rows kept for scoring: never learned from",
    "model.holdout_seed": "which rows those are follows from it and their places, without the rest of the table",
    "model.holdout_by": "person: all rows of a person are learned from, or none is, by a hash of the person's name",
    "model.regularisation": "weight of |theta|^2 / 2",
    "learning.algorithm": "how answers become a model; parley plan compares",
    "learning.horizon": "rounds: how often owners are asked; their budgets are spread over all of them",
    "learning.step": "how far the learner moves on an answer",
    "learning.average": "which iterates make the model: the last, the last half, or all",
    "learning.decay": "steps shrink with this power of the round; 0: they do not",
    "learning.momentum": "how much of the last step is kept in the next",
    "learning.start": "public: training begins at the best fit of the public sample",
    "learning.top_k": "so many numbers of a released gradient travel, those that changed most",
    "learning.staleness": "answers are used as they come, if the model took no more steps since they were asked for",
    "learning.learner": "who asks",
    "privacy.mechanism": "laplace: no delta; gaussian: less noise over many rounds, with a delta",
    "privacy.alpha": "of stable noise: how heavy its tails are, 1 (Cauchy) to 1.9999; for simulations alone",
    "privacy.clip": "no record's gradient counts for more than this: what one person can do, and how loud the noise is",
    "privacy.delta": "with which probability the promise of epsilon may fail; well below 1/records",
    "privacy.person": "the column that tells people apart",
    "privacy.records_per_person": "of each person so many rows count, and all of them are protected together",
    "privacy.score_epsilon": "of every epsilon, for one released score of the finished model",
    "privacy.scale_epsilon": "of every epsilon, for ranges and category names, asked with noise before anything is "
    "learned",
    "privacy.difference_epsilon": "of every epsilon, for one answer that tells how much owners differ, asked before "
    "anything is learned",
    "privacy.unit": "owner: answers are clipped as a whole, and the noise hides a whole table, not one person in it",
    "privacy.noise": "shared: one noise for all, drawn by three hosts of whom none knows it, or two",
    "aggregation.rule": "how answers become one; all but the mean hold where some owners lie, and cost noise",
    "aggregation.byzantine": "how many owners may lie",
    "aggregation.spread": "how far apart honest owners' answers lie at most, but for noise: who is farther is named",
    "owners.records": "rows in the table: public, and checked",
    "owners.epsilon": "what all answers together may tell about a person, at most; smaller = more private",
    "owners.answers": "the most answers that it gives; its noise is for exactly so many",
    "owners.data": "for runs on one machine; left out of the terms' hash",
}


@dataclass(frozen=True)
class TermsWarning:
    """Something in the terms that looks wrong; `about` names the key."""

    about: str
    sentence: str
