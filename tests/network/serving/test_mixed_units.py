"""Books that promise something about whole tables and something about single persons: who accepts is told."""

import pytest
from samples import make_terms

from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.offer import unit_warnings

PERSONS = make_terms(100, 150, privacy__clip=0.7)
TABLES = make_terms(100, 150, privacy__clip=0.7, privacy__unit="owner")


@pytest.mark.parametrize(("first", "second"), [(PERSONS, TABLES), (TABLES, PERSONS)])
def test_who_accepts_both_by_the_same_books_is_warned(tmp_path, first, second):
    acceptances = Acceptances(tmp_path)
    assert not unit_warnings(second, acceptances)
    acceptances.store(Acceptance(first))
    assert not unit_warnings(first, acceptances)
    (warning,) = unit_warnings(second, acceptances)
    assert (
        "Only terms that protect whole tables protect your table as a whole; the other terms may reveal it"
        in warning.sentence
    )
