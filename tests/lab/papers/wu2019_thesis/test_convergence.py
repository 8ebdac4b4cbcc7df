import numpy as np

from parley_lab.papers.wu2019_thesis.convergence import convergence


def test_what_the_figures_show_and_what_the_thesis_adds():
    for panel in convergence():
        inside, lowest = panel.ends[:-1], panel.ends[-1]
        # one end from three starts
        np.testing.assert_allclose(inside, np.broadcast_to(inside[0], inside.shape), atol=1e-5)
        equal = len(set(panel.sizes)) == 1
        assert (np.ptp(inside[0]) < 1e-5) == equal
        assert np.allclose(lowest, 0.01) == (panel.game == "utility")
