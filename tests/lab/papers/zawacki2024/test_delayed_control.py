"""Z section 9.5 again."""

import numpy as np
import pytest

from parley_lab.papers.zawacki2024.delayed_control import PERIOD, PUBLISHED, runs
from parley_lab.papers.zawacki2024.pictures import feedback


def test_blocks_and_controllers():
    for run in runs(samples=80, horizon=20, substeps=2):
        assert run.found.delay_ == pytest.approx(run.delay * PERIOD, rel=1e-8)
        wrong = np.abs(run.blocks - np.array(PUBLISHED[run.delay])) > 6e-3
        assert wrong.sum() == (run.delay == 1.5)  # the one misprint
        assert np.linalg.norm(run.fractional[-1]) < 1e-4


def test_the_figure_has_a_line_for_each_delay_and_controller():
    shown = runs(samples=60, horizon=5, substeps=2)
    figure = feedback(np.arange(11.0), {f"r = {run.delay} T": (run.fractional, run.truncated) for run in shown})
    assert len(figure.axes[0].lines) == 6
