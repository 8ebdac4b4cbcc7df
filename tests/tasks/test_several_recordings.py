"""What somebody with several recordings is told."""

import pytest
from plants import plant_terms
from series import series_terms

from parley.privacy.accounting.meaning import group_delta
from parley.privacy.mechanisms.gaussian import gaussian_delta
from parley.protocol.setup import resolve
from parley.tasks.records import recordings_delta, several_recordings


@pytest.mark.parametrize("terms", [series_terms(1, 50, 3.0), plant_terms(1, 50, 3.0)], ids=["series", "plant"])
def test_delta_grows_with_recordings_as_normal_noise_says(terms):
    setup = resolve(terms)
    name = terms.owners[0].name
    mechanism = setup.part(name).training.series.mechanism
    said = recordings_delta(setup, name, 5)
    assert said == pytest.approx(gaussian_delta(15.0, 5 * mechanism.sensitivity / mechanism.sigma), rel=1e-8)
    assert said == pytest.approx(6.3e-4, rel=0.01)
    words = several_recordings(setup, name)
    assert "ε is m times as large, and δ grows: 7.7" in words
    assert "for m = 10" in words


def test_without_delta_epsilon_alone_grows():
    terms = series_terms(1, 50, 3.0, privacy={"mechanism": "laplace", "delta": 0.0})
    assert several_recordings(resolve(terms), "site-0") == " For a person with m recordings, ε is m times as large."


@pytest.mark.parametrize(
    "terms",
    [
        series_terms(2, 50, 3.0, noise="shared"),
        series_terms(2, 50, 3.0, privacy={"shared_records": 2}),
        series_terms(2, 50, 3.0, noise="shared", privacy={"mechanism": "laplace"}),
    ],
    ids=["one noise for all", "copies", "shared laplace"],
)
def test_where_no_formula_is_exact_the_bound_of_any_noise_is_told(terms):
    setup = resolve(terms)
    assert recordings_delta(setup, "site-0", 2) == group_delta(3.0, 1e-6, 2)
    assert "1 for m = 10; a δ of 1 promises nothing." in several_recordings(setup, "site-0")
