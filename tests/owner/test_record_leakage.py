"""Bits about one person by the terms at hand."""

import json
import math

import pytest
from samples import BOUNDS, GAUSSIAN, STATISTICS, make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import SettingError
from parley.numerals import number
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.disclosure import leakage_words, promises, record_leakage
from parley.owner.owner import reservation
from parley.privacy.accounting import shared_record_epsilon
from parley.privacy.accounting.meaning import NATS_PER_BIT, gaussian_bits, pure_leakage
from parley.protocol.setup import resolve
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement
from parley.terms import write_terms

SGD = {"learning__algorithm": "private-sgd", "learning__horizon": None, "learning__batches": 4, "learning__epochs": 3}


def found(terms):
    return record_leakage(resolve(terms), "a")


def test_pure_noise_tells_by_its_epsilon():
    assert found(make_terms(50)) == pure_leakage(1.0)
    endless = found(make_terms(50, epsilon=1e6))
    assert endless.guess_factor is None
    assert "likelier" not in leakage_words(endless, make_terms(50), "person")


def test_gaussian_noise_tells_round_by_round_less_than_its_rho():
    terms = make_terms(50, **GAUSSIAN)
    stage = resolve(terms).part("a").training
    noise = stage.series.mechanism
    bits = found(terms)
    assert bits.mutual_information == gaussian_bits(noise.sensitivity, noise.noise_scale, 3, 10, ball=True)
    assert bits.mutual_information < float(reservation(terms, "a").rho) / NATS_PER_BIT / 3.9
    assert bits.min_entropy is None
    moments = make_terms(50, **GAUSSIAN, **STATISTICS, model__bounds=BOUNDS)
    assert not resolve(moments).part("a").training.question.centred
    assert found(moments).mutual_information < float(reservation(moments, "a").rho) / NATS_PER_BIT


def test_a_score_and_copies_add_up():
    scored = make_terms(50, **GAUSSIAN, privacy__score_epsilon=0.5, model__holdout=0.5, model__bounds=BOUNDS)
    training = resolve(scored).part("a").training.series.mechanism
    alone = gaussian_bits(training.sensitivity, training.noise_scale, 3, 10, ball=True)
    assert found(scored).mutual_information == pytest.approx(alone + pure_leakage(0.5).mutual_information)
    shared = make_terms(50, 50, **GAUSSIAN, privacy__shared_records=2)
    noise = resolve(shared).part("a").training.series.mechanism
    each = gaussian_bits(noise.sensitivity, noise.noise_scale, 3, 10, ball=True)
    assert found(shared).mutual_information == pytest.approx(2 * each)


UNEQUAL = {"a": {"epsilon": 1.0}, "b": {"epsilon": 5.0}, "c": {"epsilon": 2.0}}


def test_a_record_at_several_owners_is_covered_by_this_one_and_the_largest_others():
    shared = make_terms(50, 50, 50, privacy__shared_records=2).changed(owners=UNEQUAL)
    covered = {name: record_leakage(resolve(shared), name) for name in "abc"}
    assert covered == {"a": pure_leakage(3.0), "b": pure_leakage(3.5), "c": pure_leakage(3.5)}
    assert max(each.guess_factor for each in covered.values()) >= math.exp(shared_record_epsilon([1.0, 5.0, 2.0], 2))
    rows = {row["owner"]: row for row in promises(shared)}
    assert rows["a"]["posterior"]["high"] >= math.exp(3) / (1 + math.exp(3)) - 1e-12
    assert rows["a"]["epsilon"] == 1.0
    assert rows["a"]["covering_epsilon"] == 3.0


def test_gaussian_noise_on_a_shared_record_adds_up_over_unequal_owners():
    shared = make_terms(50, 50, 50, **GAUSSIAN, privacy__shared_records=2).changed(owners=UNEQUAL)
    setup = resolve(shared)
    each = {}
    for name in "abc":
        noise = setup.part(name).training.series.mechanism
        each[name] = gaussian_bits(noise.sensitivity, noise.noise_scale, 3, 10, ball=True)
    assert record_leakage(setup, "a").mutual_information == pytest.approx(each["a"] + each["b"])
    assert record_leakage(setup, "b").mutual_information == pytest.approx(each["b"] + each["c"])


def test_what_is_promised_to_an_owner_as_a_whole_is_said_of_its_table(tmp_path):
    terms = make_terms(50, privacy__unit="owner")
    assert "bits about your table" in leakage_words(found(terms), terms, "person")
    assert "all other owners' tables" in leakage_words(found(terms), terms, "person")
    write_terms(terms, tmp_path / "terms.toml")
    explain = ["budget", "explain", "--terms", str(tmp_path / "terms.toml")]
    assert json.loads(CliRunner().invoke(app, [*explain, "--json"]).stdout)["adjacency"] == "replace-one-owner"
    said = " ".join(CliRunner().invoke(app, explain).stdout.split())
    assert "Neighbouring tables: replace-one-owner" in said
    assert "person" not in said


def test_with_a_delta_the_table_says_how_often_a_belief_may_grow_further(tmp_path):
    terms = make_terms(50, **GAUSSIAN)
    write_terms(terms, tmp_path / "terms.toml")
    said = CliRunner().invoke(app, ["budget", "explain", "--terms", str(tmp_path / "terms.toml")]).stdout
    assert "except with" in said
    assert number(promises(terms)[0]["posterior"]["failure"], 3, "above") in said
    assert promises(terms)[0]["posterior"]["failure"] > terms.privacy.delta


@pytest.mark.parametrize("beside", [["--harm", "0.5"], ["--people", "100"]])
def test_terms_are_explained_by_nothing_else(tmp_path, beside):
    write_terms(make_terms(50), tmp_path / "terms.toml")
    refused = CliRunner().invoke(app, ["budget", "explain", "--terms", str(tmp_path / "terms.toml"), *beside])
    assert isinstance(refused.exception, SettingError)


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
        assert "do not bound" in leakage_words(bits, terms, "person")
        assert "fails" in bits.by


def test_acceptance_and_the_command_say_it(tmp_path):
    terms = make_terms(50)
    owner = parley.Owner("a", regression_table(50), ledger=parley.Ledger(tmp_path / "a.ledger", 5))
    said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    assert "From the answers under these terms, someone who knows everybody else's records learns" in said
    assert "learns at most 0.178 bits about a person" in said
    assert "No guess becomes more than 2.72 times as likely" in said
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
    with_delta = CliRunner().invoke(app, ["budget", "explain", "-e", "1", "-d", "0.01"])
    assert "no records are drawn in secret" in " ".join(with_delta.stdout.split())
    explained = json.loads(CliRunner().invoke(app, ["budget", "explain", "-e", "1", "--json"]).stdout)
    assert explained["mutual_information_bits"] == pytest.approx(0.1779, abs=1e-4)
