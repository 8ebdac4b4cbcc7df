import numpy as np
import pytest

from parley.errors import SettingError
from parley.report import figures
from parley.report.page import Section, page
from parley.report.tables import number, percent, terminal_table


def test_the_fitness_path_shows_median_and_quartiles():
    path = np.random.default_rng(0).lognormal(size=(20, 50))
    axes = figures.fitness_path(path).axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), np.median(path, axis=1))
    assert axes.get_yscale() == "log"
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(np.quantile(path, 0.25, axis=1).min())


def test_one_run_has_no_band():
    assert not figures.fitness_path(np.ones((5, 1))).axes[0].collections


def test_files_of_an_unknown_kind_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"\.png, \.svg, \.pdf"):
        figures.save(figures.fitness_path(np.ones((5, 1))), tmp_path / "f.doc")


def test_a_page_escapes_what_it_is_given():
    text = page("<b>", "lead & more", [Section("h", ["<script>alert(1)</script>"], [["a"], ["<i>"]])], "end")
    assert "<script>" not in text
    assert "&lt;b&gt;" in text
    assert "&lt;i&gt;" in text


def test_numbers_read_well():
    assert [number(v) for v in (0.1, 1 / 3, 12345.6, None)] == ["0.1", "0.3333", "12,346", "–"]
    assert [percent(v) for v in (0.1234, None)] == ["12.3%", "–"]
    assert terminal_table([["a", "b"], ["x", "1"]]).row_count == 1
