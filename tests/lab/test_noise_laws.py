"""The picture of studies with several laws of noise: a mark at every median, even where a mean would be infinite."""

import numpy as np

from parley_lab.noise_laws import quantiles_by_law


def test_medians_stand_where_they_are_and_the_first_goes_through_the_panel():
    rng = np.random.default_rng(0)
    runs = [("Gaussian", rng.exponential(size=50)), ("α = 1.5", np.append(rng.exponential(size=50), 1e300))]
    figure = quantiles_by_law({"adult": runs, "loans": runs[:1]}, "Noise", "ψ")
    first, second = figure.axes
    marks = [float(line.get_ydata()[0]) for line in first.lines if line.get_marker() == "o"]
    assert marks == [float(np.median(values)) for _, values in runs]
    through = [line for line in second.lines if list(line.get_xdata()) == [0, 1] and line.get_linestyle() == "--"]
    assert [float(line.get_ydata()[0]) for line in through] == [float(np.median(runs[0][1]))]
    assert [tick.get_text() for tick in first.get_xticklabels()] == ["Gaussian", "α = 1.5"]
