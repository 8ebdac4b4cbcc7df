import joblib
import numpy as np
import pandas as pd
import pytest
from joblib.parallel import ThreadingBackend
from samples import make_terms, regression_table

import parley
from parley.errors import SettingError, TermsError
from parley.learning.study_grid import study, vary, with_settings


def test_a_grid_gives_what_each_run_gives_alone():
    """A cell is `train` on consecutive blocks with the same seed; sharing the tables changes nothing."""
    terms, market = make_terms(100, 100, learning__horizon=5), regression_table(900)
    cells = vary(terms, records=[200, 400], epsilon=[0.5, 5.0])
    table = study(cells, market, replicates=7, seed=3)
    assert list(table["records"]) == [200, 200, 400, 400]
    for cell, (_, row) in zip(cells, table.iterrows(), strict=True):
        n = cell.terms.owners[0].records
        owners = [parley.Owner("a", market.iloc[:n]), parley.Owner("b", market.iloc[n : 2 * n])]
        alone = parley.train(cell.terms, owners, replicates=7, seed=3).relative_fitness
        assert {name: row[name] for name in alone} == pytest.approx(alone, rel=1e-12)
    assert (table.query("epsilon == 0.5")["mean"].to_numpy() > table.query("epsilon == 5.0")["mean"].to_numpy()).all()


def test_jobs_change_nothing_and_the_table_is_kept(tmp_path):
    terms, market = make_terms(100, learning__horizon=3), regression_table(400)
    cells = vary(terms, records=[100, 200, 400], horizon=[2, 3])
    one, two = (study(cells, market, replicates=3, seed=1, jobs=jobs).drop(columns="seconds") for jobs in (1, 2))
    pd.testing.assert_frame_equal(one, two)
    one.to_parquet(tmp_path / "study.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "study.parquet"), one)


class _AllInTheEnd(ThreadingBackend):
    """As Ray's: results come when all are there."""

    supports_return_generator = False


def test_a_backend_that_hands_over_all_results_in_the_end_will_do():
    terms, market = make_terms(100, learning__horizon=3), regression_table(400)
    cells, seen = vary(terms, records=[100, 200], horizon=[2, 3]), []
    here = study(cells, market, replicates=3, seed=1).drop(columns="seconds")
    joblib.register_parallel_backend("all in the end", _AllInTheEnd)
    with joblib.parallel_config(backend="all in the end"):
        there = study(
            cells, market, replicates=3, seed=1, jobs=2, progress=lambda done, total: seen.append((done, total))
        )
    pd.testing.assert_frame_equal(here, there.drop(columns="seconds"))
    assert seen == [(2, 4), (4, 4)]


@pytest.mark.filterwarnings("default")  # Ray's own
def test_a_ray_cluster_gives_the_same_table():
    ray = pytest.importorskip("ray", reason="Ray is not installed; pip install ray")
    from ray.util.joblib import register_ray

    terms, market = make_terms(100, learning__horizon=3), regression_table(400)
    cells = vary(terms, records=[100, 200], horizon=[2, 3])
    register_ray()
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        with joblib.parallel_config(backend="ray"):
            there = study(cells, market, replicates=3, seed=1, jobs=2).drop(columns="seconds")
    finally:
        ray.shutdown()
    pd.testing.assert_frame_equal(study(cells, market, replicates=3, seed=1).drop(columns="seconds"), there)


def test_settings_reach_their_place():
    changed = with_settings(make_terms(10, 20), {"epsilon": 7.0, "horizon": 3, "step": 0.5, "clip": 9.0})
    assert [part.epsilon for part in changed.owners] == [7.0, 7.0]
    assert [part.records for part in changed.owners] == [10, 20]
    assert (changed.learning.horizon, changed.learning.step, changed.privacy.clip) == (3, 0.5, 9.0)


def test_mistakes_are_named():
    with pytest.raises(SettingError, match="epsilom"):
        vary(make_terms(10), epsilom=[1.0])
    with pytest.raises(TermsError, match="epsilon"):
        vary(make_terms(10), epsilon=[-1.0])
    with pytest.raises(SettingError, match="the cells need 500"):
        study(vary(make_terms(10), records=[500]), regression_table(100))
    with pytest.raises(SettingError, match="at least one"):
        study([], regression_table(100))


def test_without_the_path_only_the_last_round_is_measured():
    terms = make_terms(300, learning__horizon=6)
    owners = [parley.Owner("a", regression_table(300))]
    whole = parley.train(terms, owners, replicates=4, seed=2)
    last = parley.train(terms, owners, replicates=4, seed=2, whole_path=False)
    assert last.path.shape == (1, 4)
    np.testing.assert_allclose(
        last.path[-1], whole.path[-1], rtol=1e-12
    )  # costs of one parameter or of seven: other kernels, other last bits
    assert last.cost == pytest.approx(whole.cost, rel=1e-12)
