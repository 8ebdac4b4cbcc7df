"""Bits about one person by the terms at hand."""

import json

import pytest
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import SettingError
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.owner import reservation
from parley.owner.record_leakage import leakage_words, record_leakage
from parley.privacy.accounting.leakage import BIT, gaussian_bits, pure_leakage
from parley.protocol.setup import resolve
from parley.tasks.column_statistics.agreement import column_statistics_agreement
from parley.terms import write_terms

SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 4, "learning__epochs": 3}


def found(terms):
    return record_leakage(resolve(terms), "a")


def test_pure_noise_tells_by_its_epsilon():
    assert found(make_terms(50)) == pure_leakage(1.0)
    endless = found(make_terms(50, epsilon=1e6))
    assert endless.guess_factor is None
    assert "likelier" not in leakage_words(endless, "person")


def test_gaussian_noise_tells_round_by_round_less_than_its_rho():
    terms = make_terms(50, **GAUSSIAN)
    stage = resolve(terms).part("a").training
    noise = stage.series.mechanism
    bits = found(terms)
    assert bits.mutual_information == gaussian_bits(noise.sensitivity, noise.noise_scale, 3, 10, ball=True)
    assert bits.mutual_information < float(reservation(terms, "a").rho) / BIT / 3.9
    assert bits.min_entropy is None
    moments = make_terms(50, **GAUSSIAN, **STATISTICS, model__bounds=BOUNDS)
    assert not resolve(moments).part("a").training.question.centred
    assert found(moments).mutual_information < float(reservation(moments, "a").rho) / BIT


def test_a_score_and_copies_add_up():
    scored = make_terms(50, **GAUSSIAN, privacy__score_epsilon=0.5, model__holdout=0.5, model__bounds=BOUNDS)
    training = resolve(scored).part("a").training.series.mechanism
    alone = gaussian_bits(training.sensitivity, training.noise_scale, 3, 10, ball=True)
    assert found(scored).mutual_information == pytest.approx(alone + pure_leakage(0.5).mutual_information)
    shared = make_terms(50, 50, **GAUSSIAN, privacy__shared_records=2)
    noise = resolve(shared).part("a").training.series.mechanism
    each = gaussian_bits(noise.sensitivity, noise.noise_scale, 3, 10, ball=True)
    assert found(shared).mutual_information == pytest.approx(2 * each)


def test_batches_tell_epoch_by_epoch_and_secret_draws_by_their_rate():
    for sampling, answers in (("partition", 3), ("poisson", 12 / 4)):
        terms = make_terms(40, **SGD, **GAUSSIAN, learning__sampling=sampling)
        noise = resolve(terms).part("a").training.series.mechanism
        expected = gaussian_bits(noise.sensitivity, noise.noise_scale, 3, answers, ball=True)
        assert found(terms).mutual_information == pytest.approx(expected)
    people = make_terms(40, **SGD, **GAUSSIAN, privacy__person="who", privacy__records_per_person=2)
    assert found(people).by == "zCDP"


def test_where_a_part_of_delta_is_a_failure_nothing_is_said():
    names = column_statistics_agreement(make_terms(400, privacy__scale_epsilon=0.5, **GAUSSIAN))
    hosted = make_terms(50, 50).changed(privacy={"noise": "shared", "delta": 1e-6}, hosts=("a", "b", "h"))
    for terms in (names, hosted):
        bits = record_leakage(resolve(terms, regression_table(9)), "a")
        assert bits.mutual_information is None
        assert "not bounded" in leakage_words(bits, "person")


def test_acceptance_and_the_command_say_it(tmp_path):
    terms = make_terms(50)
    owner = parley.Owner("a", regression_table(50), ledger=parley.Ledger(tmp_path / "a.ledger", 5))
    said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    assert "learns at most 0.178 bits about a person" in said
    assert "no guess becomes likelier by more than 2.72 times" in said
    write_terms(terms, tmp_path / "terms.toml")
    ran = CliRunner().invoke(app, ["budget", "explain", "--terms", str(tmp_path / "terms.toml"), "--json"])
    (row,) = json.loads(ran.stdout)["owners"]
    assert row["mutual_information_bits"] == pytest.approx(0.1779, abs=1e-4)
    assert row["by"] == "pure epsilon"
    plain = CliRunner().invoke(app, ["budget", "explain", "--terms", str(tmp_path / "terms.toml")])
    assert "0.178" in plain.stdout
    both = ["budget", "explain", "-e", "1", "--terms", str(tmp_path / "terms.toml")]
    assert isinstance(CliRunner().invoke(app, both).exception, SettingError)
    assert isinstance(CliRunner().invoke(app, ["budget", "explain"]).exception, SettingError)
    explained = json.loads(CliRunner().invoke(app, ["budget", "explain", "-e", "1", "--json"]).stdout)
    assert explained["mutual_information_bits"] == pytest.approx(0.1779, abs=1e-4)
