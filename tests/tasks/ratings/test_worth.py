"""Whether items are worth a release, by public numbers: held against what was measured on MovieLens 1M
(docs/ratings.md)."""

import numpy as np
import pytest
from raters import rating_terms, tastes

import parley
from parley.errors import BelowBaselineError
from parley.tasks.ratings.algorithm import RATING_DEVIATION
from parley.tasks.ratings.measured import items_worth, require_items_worth
from parley.tasks.ratings.question import UserUpdate


def movies(epsilons, sizes=(1208, 4832), noise="each-owner", items=3260, clip=5.0):
    owners = [
        {"name": n, "records": u, "epsilon": e} for n, u, e in zip(("north", "south"), sizes, epsilons, strict=True)
    ]
    columns = {"user": "user", "item": "item", "target": "rating", "bounds": {"rating": [1.0, 5.0]}}
    content = {
        "model": {"kind": "matrix-factorization", **columns, "items": items},
        "privacy": {"mechanism": "gaussian", "delta": 1e-5, "clip": clip, "noise": noise},
        "owners": owners,
        "hosts": [{"name": f"host-{k}"} for k in range(3)] if noise == "shared" else [],
    }
    return parley.Terms.from_dict(content)


@pytest.mark.parametrize(
    "terms",
    [
        movies((1e6, 1e6)),
        movies((1.0, 1e6)),  # the smaller has 0.854 where it has 0.889 alone
        movies((300.0, 300.0)),  # 0.860
        movies((32.0, 32.0)),  # 0.879
        movies((0.67, 1e6), (3020, 3020)),
        movies((4.0, 4.0), (1000, 40000), items=300),  # the example of the documentation: 0.976 where alone is 1.000
    ],
)
def test_terms_by_which_somebody_was_measured_to_gain_are_let_be(terms):
    assert items_worth(terms).sentence() is None
    require_items_worth(terms)


@pytest.mark.parametrize(
    "terms",
    [
        movies((16.0, 16.0)),  # 0.893 where the smaller has 0.889 alone
        movies((8.0, 8.0)),
        movies((8.0, 8.0), noise="shared"),
        movies((1.0, 1.0)),
        movies((4.0, 4.0), (3020, 3020)),
        movies((1.0, 1.0), (100, 200), items=60),  # 1.07 where alone is 0.99
    ],
)
def test_terms_by_which_everybody_was_measured_to_lose_are_refused(terms):
    with pytest.raises(BelowBaselineError, match=f"The smallest owner, north, has {terms.owners[0].records:,} users"):
        require_items_worth(terms)


def test_one_owner_and_ratings_that_are_changed_themselves_are_let_be():
    changed = rating_terms({"a": 10, "b": 10}, mechanism="hide", delta=0.0, clip=None)
    for terms in (rating_terms({"a": 10}, 0.1), changed):
        require_items_worth(terms)
        found = items_worth(terms)
        assert found is None or found.sentence() is None


def test_what_is_heard_grows_with_budgets_and_falls_with_items():
    heard = [items_worth(movies((e, e))).heard for e in (0.1, 1.0, 10.0, 100.0, 1e6)]
    assert sorted(heard) == heard
    assert heard[-1] <= 6040
    assert items_worth(movies((8.0, 8.0), items=300)).heard > items_worth(movies((8.0, 8.0))).heard
    laplace = items_worth(rating_terms({"a": 80, "b": 240}, mechanism="laplace", delta=0.0)).heard
    assert 0 < laplace < items_worth(rating_terms({"a": 80, "b": 240})).heard


def test_how_many_ratings_measure_the_clip_is_about_what_users_measure():
    """A user's terms before they are clipped, at items that are learned, beside the size that the rule takes for one
    rating."""
    pytest.importorskip("numba", reason="numba is not installed; pip install 'parley-dp[ratings]'")
    from parley.tasks.ratings.measured import _ratings_within_clip
    from parley.tasks.ratings.run import learn_items

    terms, table = rating_terms({"a": 300}, 1e6), tastes(300, 0)
    table["stars"] += RATING_DEVIATION * np.random.default_rng(0).standard_normal(len(table))
    owner = parley.Owner("a", table)
    agreement = owner.prepare(terms)
    train = agreement.tables.train
    V = learn_items(terms, [owner], seed=0).model.items.V
    sizes = UserUpdate(1e9, ridge=terms.model.penalty).solved(train, V)[1]
    measured = terms.privacy.clip**2 / np.mean(sizes**2 / np.maximum(np.diff(train.first), 1))
    assert _ratings_within_clip(agreement.setup) / 2 < measured < 2 * _ratings_within_clip(agreement.setup)
