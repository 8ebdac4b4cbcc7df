"""What is said of every figure and table: all are there, what to type works, and what the quick ones say is true."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from samples import data_path
from typer.testing import CliRunner

from parley.cli.app import app
from parley.privacy.accounting.meaning import posterior_bounds
from parley.privacy.accounting.stable_bounds import epsilon_curve
from parley_lab.papers.aarhus2020.collaborative_descent import total_epsilon
from parley_lab.papers.printed import Outcome
from parley_lab.papers.reproduce import COMMANDS
from parley_lab.papers.wu2019_thesis.payoffs import payoff_curves
from parley_lab.papers.zawacki2024 import stable_noise
from parley_lab.papers.zawacki2024.federated_inference import FIGURES, METHODS, trace, without_privacy

DOCUMENTS = {document.name: document for document in COMMANDS}
COUNTED = {  # by document: figures and tables as they are numbered there
    "wu2019": [f"figure {k}" for k in range(1, 12)],
    "wu2019-thesis": [
        *("figure 1.1", "figure 1.2", "table 2.1", *(f"figure 2.{k}" for k in range(1, 5)), "equation 2.3"),
        *(f"figure 3.{k}" for k in range(1, 11)),
        *(f"figure 4.{k}" for k in range(1, 4)),
    ],
    "aarhus2020": [*(f"figure {k}" for k in range(1, 10)), *(f"table {k}" for k in range(1, 7))],
    "chase2017": ["table 1", "table 2"],
    "hitaj2017": ["attack"],
    "pejo2018": [*(f"figure {k}" for k in range(1, 6)), *(f"table {k}" for k in range(1, 7)), "section 7.3"],
    "zawacki2024": [
        *("figure 2.1", "figure 2.2", *(f"figure 3.{k}" for k in range(1, 9)), "table 3.1"),
        *(f"figure 4.{k}" for k in range(1, 13)),
        *(f"table 4.{k}" for k in range(1, 7)),
        *("figure 5.1", "figure 5.2", *(f"figure 6.{k}" for k in range(1, 8))),
        *(f"figure 8.{k}" for k in range(1, 9)),
        "figure 9.1",
    ],
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_figure_and_table_is_listed_once(name):
    assert sorted(each.number for each in DOCUMENTS[name].printed) == sorted(COUNTED[name])


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_each_has_a_title_and_a_reason_and_what_to_type_is_known(document):
    for each in document.printed:
        assert document.title_of(each), each.number
        assert each.why or each.outcome in (Outcome.COMES_OUT, Outcome.PICTURE), each.number
        command = document.command_of(each)
        if each.outcome is Outcome.PICTURE:
            assert command is None
        if command is None or not command.startswith("parley reproduce"):
            continue
        _, _, other, *words = command.split()
        if words:
            DOCUMENTS[other].find(words[0].removeprefix("--"), words[1])


def test_every_exhibit_that_has_a_documents_number_is_listed():
    for document in DOCUMENTS.values():
        commands = {document.command_of(each) for each in document.printed}
        for exhibit in document.exhibits:
            if exhibit.option and exhibit.word[0].isdigit():
                assert f"parley reproduce {document.name} --{exhibit.option} {exhibit.word}" in commands


def test_the_command_lists_them():
    found = json.loads(CliRunner().invoke(app, ["reproduce", "--json"]).stdout)["printed"]
    assert len(found) == sum(map(len, COUNTED.values()))
    eight = next(each for each in found if (each["document"], each["number"]) == ("zawacki2024", "figure 8.8"))
    assert eight["outcome"] == "comes out differently"
    assert eight["command"] == "parley reproduce zawacki2024 --figure 8.8"
    for words in ([], ["--list"]):
        said = CliRunner().invoke(app, ["reproduce", *words])
        assert said.exit_code == 0
        assert "parley reproduce pejo2018 --table 3" in said.output
    refused = CliRunner().invoke(app, ["reproduce", "--json", "wu2019"])
    assert "expected after the document's name" in str(refused.exception)


def why(document, number):
    return next(each.why for each in DOCUMENTS[document].printed if each.number == number)


def check_step_epsilon(number):
    norm = "l1" if number in ("table 3", "table 5") else "l2"
    low, high = (total_epsilon(norm, step) for step in ((0.1, 1.0) if norm == "l1" else (0.02, 0.2)))
    assert f"{low:.3g} to {high:.3g} in all" in why("aarhus2020", number)


def check_ratings(number):
    from parley.tasks.ratings.table import enough, find_ratings

    counts = enough(find_ratings(data_path("ml1m.parquet").parent)).counts
    assert "{ratings:,} ratings of {items:,} items by {users:,} users".format(**counts) in why("pejo2018", number)


def check_posterior(number):
    low, high = posterior_bounds(1.0, 0.5)
    assert f"{low:.2f} and {high:.2f}" in why("zawacki2024", number)


def check_loss(number):
    """Odd, with a top below alpha = 2 (3.4), lower the larger the scale is (3.5)."""
    curves = stable_noise.chart(number.split()[1]).curves
    tops = [float(each.y.max()) for each in curves]
    assert all(np.allclose(each.y, -each.y[::-1]) for each in curves)
    assert tops == sorted(tops, reverse=True)


def check_small_scales(number):
    """Where the scale is a twentieth, one coordinate costs far less than all do."""
    assert stable_noise.one_epsilon(1.5, 0.05) < 0.5 * stable_noise.all_epsilon(1.5, 0.05)


def check_gamma(number):
    """The least value of the gamma function's argument: 1 - 1/alpha in (0, 1/2] leaves it falling, down to sqrt pi."""
    (curve,) = stable_noise.chart("3.8").curves
    assert (np.diff(curve.y) < 0).all()
    assert curve.y[-1] == pytest.approx(math.sqrt(math.pi))


def check_spread(number):
    one, many = (float(epsilon_curve(1.999, np.array([1.0]), 1e-5, 1, 1.0, spread)[0]) for spread in ("one", "many"))
    assert f"{one:.2f} for α = 1.999, then {many:.2f}" in why("zawacki2024", number)


def check_accuracy(number):
    """8.3: all at the accuracy without privacy, 80 % published. 8.8: FedLin above 90 % after ten, 1,000 published."""
    short = {"8.3": 60, "8.8": 40}[number.split()[1]]
    figure = replace(FIGURES[number.split()[1]], iterations=short)
    lines = {method.name: trace(figure, method, 4, 2) for method in METHODS if method.name != "FedAvg"}
    best = without_privacy(figure, 2)
    if figure.stagger:
        assert lines["FedInfer"].first_above(90) < lines["FedLin"].first_above(90) == 10
        return
    for line in lines.values():
        assert float(line.last.mean()) == pytest.approx(best, abs=1.5)


def check_top(number):
    """Figures 4.2 (a) and 4.3 (a): one top, at the budget that all have."""
    curve = next(each for each in payoff_curves() if each.figure == f"{number.split()[1]} (a)")
    assert curve.peaks == 1
    assert curve.others == pytest.approx([curve.top] * 2)


CHECKS = {
    **{("wu2019-thesis", f"figure 4.{k}"): check_top for k in (2, 3)},
    **{("aarhus2020", f"table {k}"): check_step_epsilon for k in (3, 4, 5, 6)},
    ("pejo2018", "table 2"): check_ratings,
    ("zawacki2024", "figure 2.2"): check_posterior,
    **{("zawacki2024", f"figure 3.{k}"): check_loss for k in (4, 5)},
    ("zawacki2024", "figure 3.6"): check_small_scales,
    ("zawacki2024", "figure 3.8"): check_gamma,
    ("zawacki2024", "figure 4.1"): check_spread,
    **{("zawacki2024", f"figure 8.{k}"): check_accuracy for k in (3, 8)},
}
REAL = "wu2019/test_value_of_collaboration.py", "test_the_slopes_and_the_headline_hold_on_the_real_data"
GAMES = "pejo2018/test_published.py", "test_what_agrees_and_what_does_not_is_said"
CONVERGENCE = "wu2019_thesis/test_convergence.py", "test_what_the_figures_show_and_what_the_thesis_adds"
BOUND = "wu2019_thesis/test_payoffs.py", "test_the_bound_is_reached_where_it_is_and_nowhere_else"
LAWS = "aarhus2020/test_output_laws.py", "test_two_truths_are_within_a_factor_of_two_and_coins_cost_three"
RATINGS, NOISE = "pejo2018/test_measurements.py", "zawacki2024/test_stable_noise.py"
NETWORKS = "zawacki2024/test_network_tables.py"
ELSEWHERE = {  # by a test of the document's own
    **{("wu2019", f"figure {k}"): REAL for k in (2, 4, 7)},
    **{("wu2019-thesis", f"figure 3.{k}"): REAL for k in (1, 3, 7)},
    **{("wu2019-thesis", f"figure 4.{k}"): CONVERGENCE for k in (2, 3)},
    ("wu2019-thesis", "equation 2.3"): BOUND,
    ("aarhus2020", "figure 4"): LAWS,
    ("pejo2018", "figure 5"): (RATINGS, "test_of_hidden_ratings_the_others_matter_more"),
    ("pejo2018", "table 3"): (RATINGS, "test_table_3_comes_out_to_within_a_quarter"),
    ("pejo2018", "table 6"): ("pejo2018/test_published.py", "test_table_6_in_numbers"),
    ("pejo2018", "section 7.3"): GAMES,
    ("zawacki2024", "figure 3.7"): (NOISE, "test_the_printed_approximation_for_small_scales_is_off_by_ln_2"),
    ("zawacki2024", "table 3.1"): (NOISE, "test_table_3_1_comes_out"),
    ("zawacki2024", "table 4.1"): (NETWORKS, "test_gaussian_rows_come_out_at_half_the_scale"),
    ("zawacki2024", "table 4.2"): (
        NETWORKS,
        "test_at_the_same_scale_one_sound_bound_gives_both_laws_the_same_epsilon",
    ),
    ("zawacki2024", "figure 6.3"): ("zawacki2024/test_echo_state.py", "test_the_series_is_the_documents"),
    ("zawacki2024", "figure 8.2"): (
        "zawacki2024/test_federated_inference.py",
        "test_without_noise_fedinfer_is_there_at_once",
    ),
    ("zawacki2024", "figure 9.1"): ("zawacki2024/test_delayed_control.py", "test_blocks_and_controllers"),
}


def test_whatever_is_called_quick_is_checked():
    quick = {(name, each.number) for name, document in DOCUMENTS.items() for each in document.printed if each.quick}
    assert quick == {*CHECKS, *ELSEWHERE}
    for path, test in ELSEWHERE.values():
        assert f"def {test}(" in (Path(__file__).parent / path).read_text(encoding="utf-8")


@pytest.mark.parametrize(("document", "number"), CHECKS)
def test_what_is_said_is_so(document, number):
    CHECKS[document, number](number)
