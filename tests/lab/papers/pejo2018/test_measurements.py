"""P's measurements, on a sample of MovieLens where it is at hand and on planted tastes."""

import json
from dataclasses import replace

import numpy as np
import pytest
from planted_tastes import planted, silent
from samples import data_path
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import GuaranteeError, SettingError
from parley.tasks.ratings.factorization import Factorization
from parley.tasks.ratings.table import divide, drop_rare, find_ratings
from parley_lab.papers.pejo2018 import measurements
from parley_lab.papers.pejo2018.divided_ratings import Repeats, alone, make_division, solved_error
from parley_lab.papers.pejo2018.measurements import (
    NETFLIX_COUNTS,
    Choice,
    chosen_mechanisms,
    expansion,
    privacy_curves,
    size_ratios,
    together,
)
from parley_lab.papers.pejo2018.released_updates import Contribution, learned_from
from parley_lab.papers.pejo2018.tables import whose_rows

RULE = Factorization()


@pytest.fixture(scope="module")
def movielens():
    whole = drop_rare(find_ratings(data_path("ml1m.parquet").parent))
    return drop_rare(divide(whole, [1, 5], np.random.default_rng(0))[0])


def test_the_smaller_owner_gains_on_real_ratings(movielens):
    """A sixth of the users; all of them are measured by the command itself."""
    division = make_division(movielens, (1, 4), 0, all_means=True)
    both, own = together(division, [Choice()] * 2, RULE, 0).errors, alone(division, RULE, 0)
    gains = [100 * (a - b) / a for a, b in zip([one.best for one in own], both, strict=True)]
    assert gains[0] > 0.3
    assert gains[0] > gains[1]


def test_figure_3_has_a_point_for_each_player_with_its_error_bar():
    points = size_ratios(planted(users=1500), 3, Factorization(step=0.03), silent)
    assert [(p["ratio"], p["player"]) for p in points] == [(r, n) for r in ("1:9", "1:4", "1:2", "1:1") for n in (1, 2)]
    assert all(p["error"] >= 0 and len(p["improvements"]) == 3 for p in points)
    assert points[0]["improvement"] > 2 * points[0]["error"] > 0  # the smallest owner
    assert points[0]["improvement"] > points[1]["improvement"]


def test_more_privacy_costs_more_and_every_point_says_its_real_epsilon():
    points = privacy_curves(planted(), chosen_mechanisms(None), 1, Factorization(step=0.05), silent)
    by = {(p["mechanism"], p["p"]): p for p in points}
    for mechanism in ("hide", "bounded", "bounded-published"):
        assert (
            by[mechanism, 0.9]["improvement"]
            < by[mechanism, 0.1]["improvement"]
            < by[mechanism, 0.0]["improvement"] + 1
        )
    assert by["bounded", 0.5]["epsilon"] == by["bounded", 0.5]["epsilon_named"] == 1
    assert by["bounded-published", 0.5]["epsilon"] is None  # raw means of both owners' ratings centre everybody's
    assert by["bounded-published", 0.5]["epsilon_named"] == 1.0
    assert by["hide", 0.5]["epsilon"] is None
    assert by["updates", 0.5]["epsilon"] == 1
    assert by["updates", 0.5]["together"] < min(
        by[m, 0.5]["together"] for m in ("bounded", "unbounded", "bounded-published")
    )
    assert by["bounded", 0.5]["improvement"] < by["bounded-published", 0.5]["improvement"]


def test_rowwise_is_the_best_of_an_owners_own_ratings_and_of_nobody_elses():
    division = make_division(planted(), (1, 4), 0)
    changed = replace(
        division, trains=(division.trains[0], division.trains[1].with_values(6 - division.trains[1].values))
    )
    (own, _), (same, _) = (alone(one, RULE, 0) for one in (division, changed))
    assert own == same  # the partner's ratings have no part in it
    V = learned_from([Contribution(division.trains[0])], 0)
    assert own.by["updates"] == solved_error(V, division.trains[0], division.tests[0])
    assert own.best == min(own.by.values()) == min(own.by[way] for way in ("walked", "solved", "updates"))


def test_a_gain_is_of_learning_together_and_not_of_a_better_method():
    """Whatever the mechanism, it is measured against the same error alone; together, the better of both ways is
    taken."""
    points = privacy_curves(planted(), ["hide", "updates"], 1, RULE, silent)
    assert len({point["alone"] for point in points}) == 1
    for point in points:
        assert point["alone"] == min(point["alone_by"].values())
        assert point["together"] == min(point["together_walked"], point["together_solved"])
        assert point["improvement"] == pytest.approx(100 * (1 - point["together"] / point["alone"]))
    repeats = Repeats([make_division(planted(), (1, 4), 0)], RULE)
    (first, _) = repeats.measure(lambda division, split: [1.0, 1.0], lambda: None)
    assert first["alone"] == points[0]["alone"]


def test_without_privacy_all_mechanisms_are_one():
    division = make_division(planted(), (1, 4), 0)
    found = [together(division, [Choice(m, 0.0)] * 2, RULE, 0) for m in chosen_mechanisms(None) if m != "updates"]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("mechanism", ["unbounded", "unbounded-published"])
def test_a_matrix_that_would_blow_up_is_refused_before_anything_is_learned(mechanism):
    steps = []
    with pytest.raises(GuaranteeError, match=r"about .* ratings in a matrix of 300 x 80 cells and need .* GB"):
        privacy_curves(
            planted(), ["hide", mechanism], 1, RULE, lambda done, total: steps.append(done), both=True, memory=1e5
        )
    assert steps == []


def test_of_hidden_ratings_the_others_matter_more(movielens, monkeypatch):
    """P's figure 5 the other way round, at p = 0.6: hiding them oneself costs less than if the other does, because
    users are solved from all their ratings in the end; as learned, which is P's way, it is as P says."""
    monkeypatch.setattr(measurements, "PAIR_LEVELS", (0.0, 0.6))
    found = whose_rows(privacy_curves(movielens, ["hide"], 2, RULE, silent, both=True))[1]
    learned_own, learned_other, own, other = (float(cost) for cost in found[2:6])
    assert other - own > 0.2
    assert learned_own - learned_other > 0.3


def test_table_3_comes_out_to_within_a_quarter():
    for row in expansion(NETFLIX_COUNTS, RULE):
        assert row["netflix"] == pytest.approx(row["netflix_printed"], rel=0.25)


def test_the_command_prints_counts_and_points(tmp_path):
    ratings = planted(users=150)
    lines = [f"{u}::{i}::{r:.0f}::0" for u, i, r in zip(ratings.users, ratings.items, ratings.values, strict=True)]
    (tmp_path / "ratings.dat").write_text("\n".join(lines))
    run = CliRunner().invoke(
        app, ["reproduce", "pejo2018", "--figure", "3", "--data", str(tmp_path), "--splits", "1", "--json"]
    )
    said = json.loads(run.stdout)
    assert said["counts"] == {"ratings": len(ratings), "users": 150, "items": 80}
    assert {"ratio", "player", "alone", "together", "improvement"} <= said["points"][0].keys()
    words = [
        "reproduce",
        "pejo2018",
        "--figure",
        "4",
        "--data",
        str(tmp_path),
        "--splits",
        "1",
        "--mechanism",
        "unbounded",
    ]
    refused = CliRunner().invoke(app, [*words, "--memory", "0.00001"])
    assert refused.exit_code != 0
    shown = CliRunner().invoke(app, ["reproduce", "pejo2018", "--table", "3", "--data", str(tmp_path)])
    assert "x 45" in shown.stdout


def test_impossible_choices_are_refused():
    for wrong in (
        lambda: Choice("hide", 1.0),
        lambda: Choice("hide", float("nan")),
        lambda: chosen_mechanisms(["noise"]),
    ):
        with pytest.raises(SettingError):
            wrong()
