"""Studies with stable noise: every algorithm that takes Gaussian noise, at the same epsilon, shown by quantiles."""

import json

import numpy as np
import pytest
from federated import FAMILY
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms, regression_table
from scipy.stats import kstest

import parley
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.outcome.guarantee import guarantee
from parley.privacy.accounting.stable_bounds import stable_ratio
from parley.privacy.mechanisms.stable_law import cdf
from parley.protocol.queries import GradientQuery
from parley.protocol.setup import resolve
from parley.report.pages.run_page import run_page
from parley.report.words.training import quality_rows, stable_line, stable_rows

SIZES, DELTA = (300, 200), 1e-6
STABLE = {"privacy__mechanism": "stable", "privacy__alpha": 1.5, "privacy__delta": DELTA}
SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 2, "learning__epochs": 3}
ALGORITHMS = {
    "averaged-subgradient": {},
    "gradient-descent": {"learning__algorithm": "gradient-descent", "learning__decay": 0.0},
    "as they come": {"learning__algorithm": "gradient-descent", "learning__decay": 0.0, "learning__staleness": 3},
    "gossip": {"learning__algorithm": "gossip", "learning__topology": "ring"},
    "partition": SGD,
    "poisson": {**SGD, "learning__sampling": "poisson"},
    **{
        name: {**more, "learning__algorithm": name.split(",")[0], "learning__step": "auto"}
        for name, more in FAMILY.items()
    },
    "sufficient-statistics": STATISTICS,
    "fedinfer": {**STATISTICS, "learning__algorithm": "fedinfer"},
    "fedinfer, repeated": {**STATISTICS, "learning__algorithm": "fedinfer", "learning__horizon": 3},
    "owners as the unit": {"privacy__unit": "owner"},
    "a rule that liars do not decide": {"aggregation": "median"},
}
ROUNDS = {"partition": 3, "poisson": 6, "sufficient-statistics": 1, "fedinfer": 1, "fedinfer, repeated": 3}


def terms_of(name, noise=STABLE, **more):
    settings = {"model__bounds": BOUNDS, "model__holdout": 0.2, **ALGORITHMS[name], **noise, **more}
    rule = settings.pop("aggregation", None)
    sizes = SIZES if rule is None else (*SIZES, 200)
    terms = make_terms(*sizes, epsilon=3.0, **settings)
    return terms if rule is None else terms.changed(aggregation={"rule": rule})


def owners_of(terms):
    return [parley.Owner(o.name, regression_table(o.records, seed=k)) for k, o in enumerate(terms.owners)]


@pytest.fixture(scope="module")
def study():
    terms = terms_of("gradient-descent")
    return parley.train(terms, owners_of(terms), replicates=30, seed=0)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_that_takes_gaussian_noise_takes_stable_noise(name):
    """The same questions, the same rounds, the same epsilon; the noise alone is another, and all runs go at once."""
    found = {}
    for key, noise in (("stable", STABLE), ("gaussian", GAUSSIAN)):
        terms = terms_of(name, noise)
        found[key] = parley.train(terms, owners_of(terms), replicates=6, seed=0, whole_path=False)
    stable, gaussian = found["stable"], found["gaussian"]
    assert [o.epsilon_spent for o in stable.owners] == [o.epsilon_spent for o in gaussian.owners]
    assert [o.answers for o in stable.owners] == [o.answers for o in gaussian.owners]
    assert len({tuple(theta) for theta in stable.theta}) == 6
    assert np.isfinite(stable.theta).all()
    assert stable.notices == ()
    count = ROUNDS.get(name, terms.learning.horizon)
    law = resolve(stable.terms, regression_table(5)).part("a").training.series.mechanism
    assert law.scale / law.sensitivity == pytest.approx(stable_ratio(1.5, 3.0, DELTA, count), rel=1e-9)


def test_what_an_owner_answers_has_noise_of_that_law():
    """And not of half the scale, or another alpha."""
    terms = terms_of("gradient-descent")
    owner = owners_of(terms)[0].simulate(0, 3000)
    agreement = owner.accept(terms)
    query = GradientQuery.ask(terms.hash, "learner", 1, np.zeros((3000, 3)))
    question, law = agreement.part.training.question, agreement.part.training.series.mechanism
    noise = (owner.answer(query).value - question.exact(query, agreement.tables)).ravel()
    assert kstest(noise, lambda x: cdf(x, 1.5, law.scale)).pvalue > 1e-3
    assert kstest(noise, lambda x: cdf(x, 1.5, law.scale / 2)).pvalue < 1e-6
    assert kstest(noise, lambda x: cdf(x, 1.9, law.scale)).pvalue < 1e-4


def test_medians_and_quartiles_are_shown_and_no_mean(study):
    last = study.path[-1]
    assert study.relative_fitness == {
        "median": np.median(last),
        "q25": np.quantile(last, 0.25),
        "q75": np.quantile(last, 0.75),
    }
    assert study.cost == pytest.approx(float(np.median(last) + 1) * study.optimal_cost)
    assert study.cost < float(last.mean() + 1) * study.optimal_cost
    rows = {row[0]: row[1] for row in quality_rows(study)}
    assert "relative fitness ψ, median" in rows
    assert "relative fitness ψ" not in rows
    assert study.moments is None
    assert study.intervals is None


def test_what_it_costs_is_said_in_one_coordinate_and_in_all_with_the_adjacency(study):
    bound = study.stable_bounds["a"]
    assert 0 < bound.one_dimensional < bound.low < bound.high <= 3.0
    assert (bound.delta, bound.adjacency) == (DELTA, "replace-one")
    stored = json.loads(json.dumps(study.to_json()))["stable"]["b"]
    assert (stored["high"], stored["adjacency"]) == (study.stable_bounds["b"].high, "replace-one")
    head, first, _ = stable_rows(study)
    assert "ε overall, at most" in head
    assert (first[0], first[-1]) == ("a", "replace-one")
    assert "medians and quartiles" in stable_line(study)
    assert "There is no release under these terms" in guarantee(study)
    assert "What does stable noise cost?" in run_page(study)


def test_gaussian_studies_say_nothing_of_it():
    terms = terms_of("gradient-descent", GAUSSIAN)
    result = parley.train(terms, owners_of(terms), replicates=4, seed=0, whole_path=False)
    assert "mean" in result.relative_fitness
    assert (result.stable_bounds, stable_line(result), len(stable_rows(result))) == (None, None, 1)
    assert "stable" not in result.to_json()


def test_a_draw_in_secret_is_charged_as_if_there_were_none():
    terms = terms_of("poisson")
    result = parley.train(terms, owners_of(terms), replicates=2, seed=0, whole_path=False)
    assert "claims no privacy amplification" in stable_line(result)
    assert "no privacy amplification" not in stable_line(parley.train(terms_of("partition"), owners_of(terms), seed=0))


def test_the_mean_of_repeated_moments_settles_as_the_law_says():
    """As m^(1/alpha - 1), not as 1/sqrt(m): what moments stand clear of is that much larger."""
    algorithm = make_algorithm(resolve(terms_of("fedinfer, repeated"), regression_table(5)))
    begin = algorithm.start(np.zeros(3))
    once = algorithm.update(begin, begin.memory["moments"])
    twice = algorithm.update(once, once.memory["moments"])
    ratio = algorithm.certainty(twice)[0] / algorithm.certainty(once)[0]
    assert ratio == pytest.approx(2 ** (1 / 1.5 - 1))
    assert algorithm.posterior(twice) is None
    named = make_algorithm(resolve(terms_of("fedinfer, repeated").changed(owners={"a": {"trust": 1.0}})))
    rounds = named.start(np.zeros(3))
    rounds.memory["answers"][:] = 2
    assert named.certainty(rounds)[0] == pytest.approx(algorithm.certainty(twice)[0])
