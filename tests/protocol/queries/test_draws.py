"""A sample of `benchmarks/draws.py`: no draw is found in which one row moves an answer by more than half of its
sensitivity.

The search has power: with margins by one product of matrices, which rounds a row by who stands beside it, it finds such
draws. `tests/test_other_kernels.py` searches with the other instructions of this processor.
"""

import numpy as np
import pytest
from draw_search import SEARCH
from mutants import margins_by_products

from parley.data import rowwise
from parley.data.preparation import Preparation
from parley.protocol.queries import gradient
from parley.protocol.setup import resolve

Setting = SEARCH.Setting


def worst(settings, folder):
    return max(SEARCH.search(setting, folder) for setting in settings)


def some(kind, **others):
    """Every way in which a margin may cancel, for tables of a few rows and of many."""
    return [
        Setting(
            kind, mechanism, clip, None, width, size=size, rows=rows, chain=chain, spread=spread, seed=seed, **others
        )
        for seed, (mechanism, clip, width, size, rows, chain, spread) in enumerate(
            [
                ("laplace", 1.0, 50, 1e24, 4, False, False),
                ("gaussian", 0.01, 64, 1e16, 4, False, True),
                ("laplace", 1.0, 17, 1e17, 4, False, True),
                ("gaussian", 1.0, 9, 1e50, 30, True, False),
                ("laplace", None, 33, 1e33, 5, False, False),
                ("gaussian", 1.0, 100, 1.0, 5, False, False),
            ]
        )
    ]


@pytest.mark.parametrize("kind", SEARCH.KINDS)
def test_no_row_that_is_drawn_moves_an_answer_beyond_half_of_its_sensitivity(kind, tmp_path):
    assert 0.5 < worst(some(kind), tmp_path) <= 1


@pytest.mark.parametrize("prepared", SEARCH.PREPARED)
@pytest.mark.parametrize("kind", ["linear-regression", "one-vs-all"])
def test_nor_in_a_table_on_disk_whose_rows_are_prepared_when_they_are_drawn(kind, prepared, tmp_path):
    settings = [Setting(kind, width=w, prepared=prepared, streamed=True, size=1e24, rows=3, seed=w) for w in (17,)]
    assert worst(settings, tmp_path) <= 1


def test_the_search_finds_margins_by_products_of_matrices(tmp_path):
    with margins_by_products():
        assert any(worst([each], tmp_path) > 1.4 for kind in ("linear-regression", "linear-svm") for each in some(kind))


@pytest.mark.parametrize("prepared", ["whitened", "curved"])
def test_the_search_finds_rows_on_disk_whose_last_digit_hangs_on_who_else_was_drawn(tmp_path, monkeypatch, prepared):
    """As if they were prepared by a product of matrices that rounds a single row another way: a large theta shows
    it."""
    settings = [
        Setting("linear-regression", width=9, prepared=prepared, streamed=True, size=1e24, rows=4, seed=s)
        for s in range(24)  # different processors show it with different seeds
    ]
    kept = Preparation.columns

    def columns(self, frame, name, secret=False):
        made = kept(self, frame, name, secret)
        return np.nextafter(made, 1e50) if secret and len(frame) == 1 else made

    assert worst(settings[:3], tmp_path) <= 1
    monkeypatch.setattr(Preparation, "columns", columns)
    assert any(worst([each], tmp_path) > 1.4 for each in settings)


def test_what_a_row_adds_is_the_same_to_the_bit_in_every_draw(tmp_path):
    """In memory and on disk, for every model: alone, the first of two, the last of many."""
    rng = np.random.default_rng(1)
    for kind in SEARCH.KINDS:
        for streamed in (False, True):
            setting = Setting(kind, width=20, size=1e20, rows=12, spread=True, streamed=streamed)
            question, tables, theta = SEARCH.posed(setting, tmp_path, rng)
            shares = {}
            for places in ([7], [7, 11], [0, 7], [*range(12)], [1, 3, 5, 7, 9]):
                for block in drawn_blocks(question, tables.train, theta, places):
                    shares.setdefault(kind, set()).add(block.tobytes())
            assert len(shares[kind]) == 1


def drawn_blocks(question, table, theta, places):
    """What row 7 is made of in this draw: x, its norms, its margins and their exponentials."""
    found = []

    def part(block):
        flat = theta.reshape(-1, block.width)
        own = [block.X.T, block.row_norms("l1")[None], block.row_norms("l2")[None], block.margins(flat)]
        values = np.concatenate([*own, block.logistic(own[-1] / 1e20), block.exp(-np.abs(own[-1]) / 1e20)])
        found.append(values[:, places.index(7)].copy())
        return np.zeros(1)

    table.drawn(np.array(places)).sum(part)
    assert isinstance(question, gradient.MinibatchQuestion)
    return found


def test_two_rows_cost_what_is_said_and_more_by_products_of_matrices(tmp_path):
    """By the law of all draws: the claim is reached, so that less noise would be a lie, and was broken."""
    now, then = SEARCH.actual_epsilons(tmp_path)
    assert 0.999 < now <= 1 + 1e-9
    assert then > 1.2


def test_a_pilot_and_a_partition_are_computed_as_before(tmp_path, monkeypatch):
    """Batches that all know need no such arithmetic."""
    setting = Setting("logistic-regression", rows=12)
    rng = np.random.default_rng(0)
    terms = SEARCH.terms_of(setting, tmp_path, rng).changed(learning={"sampling": "partition"})
    setup = resolve(terms)
    question = setup.part("a").training.question
    tables = gradient.Tables(*setup.preparation.designs(SEARCH.table_of(setting, rng), terms, "a"))
    monkeypatch.setattr(rowwise, "products", None)
    query = gradient.MinibatchQuery.ask("ab12", "learner", 1, np.ones(question.parameters))
    assert np.isfinite(question.bounded(query, tables).value).all()
