import numpy as np

from parley.data import synthetic_lending


def test_the_same_seed_gives_the_same_book_and_another_another():
    assert synthetic_lending(100, seed=5).equals(synthetic_lending(100, seed=5))
    assert not synthetic_lending(100, seed=5).equals(synthetic_lending(100, seed=6))


def test_the_book_looks_like_one():
    book = synthetic_lending(20_000, seed=1)
    correlation = book.select_dtypes("number").corr()["int_rate"]
    assert correlation["fico"] < -0.6
    assert correlation["revol_util"] > 0.4
    assert correlation["dti"] > 0.1
    rates = book.groupby("grade", observed=True)["int_rate"].mean()
    assert rates.is_monotonic_increasing
    assert len(rates) == 7
    assert book["int_rate"].between(5.3, 30.9).all()
    assert book["loan_amnt"].between(1000, 40000).all()
    assert not book.isna().any().any()
    assert np.isfinite(book.select_dtypes("number")).all().all()
