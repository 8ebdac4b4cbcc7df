"""Figures 6.3 to 6.7 at sizes that take a second."""

import numpy as np
import pytest

from parley_lab.papers.zawacki2024 import echo_state, echo_state_pictures
from parley_lab.papers.zawacki2024.document import DOCUMENT
from parley_lab.papers.zawacki2024.settings import Trials


@pytest.fixture
def small(monkeypatch):
    for name, value in {"ITERATIONS": 30, "TRIALS": 1, "LBFGS_STARTS": 1}.items():
        monkeypatch.setattr(echo_state, name, value)
    return Trials()


@pytest.mark.parametrize("word", ["6.3", "6.4", "6.5", "6.6", "6.7"])
def test_figures_are_computed_and_drawn(small, word):
    exhibit = DOCUMENT.find("figure", word)
    shown = DOCUMENT.load(exhibit.compute)(small, word, lambda done, total: None)
    assert shown.content["figures"][0]["figure"] == word
    assert len(DOCUMENT.load(exhibit.draw)(*shown.drawn).axes) >= 1
    if word == "6.6":
        assert max(next(iter(shown.content["figures"][0]["errors"].values()))) < 1e-2
    if word == "6.7":
        assert all(min(errors) > 1 for errors in shown.content["figures"][0]["errors"].values())


def test_the_series_is_the_documents():
    assert echo_state.TRUE_SERIES[0] == pytest.approx(5 * np.sin(1 / 60))
    assert len(echo_state.TRUE_SERIES) == 20
    assert echo_state_pictures.series(echo_state.TRUE_SERIES).axes[0].get_xlabel() == "t"
