"""Daemons and a learner as separate processes with mutual TLS on loopback."""

import contextlib
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest
from consortium import Consortium, toml_terms
from samples import regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import BudgetExhausted
from parley.learning.algorithms.algorithm import Asker, run
from parley.learning.checkpoint import load_checkpoint
from parley.learning.deployed import prepare_run
from parley.network.identity import certificate_authority
from parley.protocol.aggregation import aggregation_of
from parley.protocol.queries import Answer


def test_the_model_is_that_of_a_learner_in_process_that_replays_the_ledgers(banks):
    terms = banks.write_terms()
    banks.accept(terms)
    banks.start()
    result = banks.learn("--save", str(banks.folder / "model.json"))
    assert result["relative_fitness"] is None
    assert result["released"] is True
    assert set(result["latency"]) == {"a", "b", "c"}
    assert [owner["epsilon_spent"] for owner in result["owners"]] == [1.0, 1.0, 1.0]
    assert banks.spent(terms) == {"a": 1, "b": 1, "c": 1}
    assert banks.replay(terms) == result["theta"]
    assert parley.load_model(banks.folder / "model.json").theta_.tolist() == result["theta"]
    again = banks.learn("--resume")  # a finished run costs nothing more, and knows what it cost
    assert (again["theta"], again["owners"]) == (result["theta"], result["owners"])
    assert "continue that run with --resume" in banks.fail()
    (banks.folder / "terms.checkpoint").unlink()
    assert banks.learn()["theta"] == result["theta"]  # nor does one from the start: the answers are stored
    assert banks.spent(terms) == {"a": 1, "b": 1, "c": 1}
    assert all(banks.kill(name, signal.SIGTERM) == 0 for name in "abc")
    assert banks.log("a")[-1]["event"] == "stopped"


def test_terms_accepted_while_the_daemon_runs_draw_on_the_same_lifetime_budget(banks):
    banks.start()
    first, second = banks.write_terms(), banks.write_terms("second.toml", horizon=2)
    banks.accept(first)
    banks.learn()
    banks.accept(second)
    banks.learn(file="second.toml")
    assert banks.ledger("a").reserved == (2, 0)
    with pytest.raises(BudgetExhausted, match="lifetime budget is epsilon = 2"):
        banks.accept(banks.write_terms("third.toml", horizon=3, epsilon=0.1))
    assert "accepted these terms" in banks.fail("--deadline", "5", file="third.toml")


@pytest.mark.parametrize("algorithm", ["sufficient-statistics", "fedinfer"])
def test_statistics_travel_in_one_round(banks, algorithm):
    head = toml_terms(horizon=1, extra=f'algorithm = "{algorithm}"').replace("step = 0.2\n", "")
    (banks.folder / "terms.toml").write_text(head)
    terms = parley.load_terms(banks.folder / "terms.toml")
    banks.accept(terms)
    banks.start()
    result = banks.learn("--save", str(banks.folder / "model.json"))
    assert banks.spent(terms) == {"a": 1, "b": 1, "c": 1}
    assert banks.replay(terms) == result["theta"]
    assert len(result["moments"]["matrix"]) == 4
    saved = parley.load_model(banks.folder / "model.json").intervals()
    assert [vars(each) for each in saved] == result["intervals"]


def test_an_owner_that_learns_adds_noise_to_its_own_answers_and_keeps_its_refinement(banks):
    terms = banks.write_terms(learner="a")
    (banks.folder / "terms.toml").write_text(
        (banks.folder / "terms.toml").read_text().replace("radius", "holdout = 0.2\nradius")
    )
    terms = parley.load_terms(banks.folder / "terms.toml")
    banks.accept(terms)
    banks.start("b", "c")
    addresses = banks.write_addresses(a='{ own = "a.toml" }')
    addresses.write_text(addresses.read_text().replace("learner.", "a."))
    result = banks.learn("--save-own", str(banks.folder / "own.json"))
    assert banks.spent(terms) == {"a": 1, "b": 1, "c": 1}
    assert banks.replay(terms) == result["theta"]
    assert parley.load_model(banks.folder / "own.json").released_ is False


def stored_answer(consortium, name, terms, round_):
    with sqlite3.connect(consortium.folder / f"{name}.ledger") as db:
        row = db.execute(
            "SELECT query, answer FROM entries WHERE kind='answer' AND terms=? AND round=?", (terms.hash, round_)
        ).fetchone()
    return Answer(row[0], name, terms.train_rows(name), np.frombuffer(row[1], dtype="<f8"))


def test_a_skipped_owner_costs_nothing_and_the_run_follows_from_who_answered(banks):
    """c is away at first and joins later; the model is again that of the stored answers, given the recorded sets."""
    terms = banks.write_terms(horizon=6, extra='quorum = 2\nstraggler = "skip"')
    banks.accept(terms)
    banks.start("a", "b")
    learner = banks.learner("--deadline", "0.4")
    checkpoint = banks.folder / "terms.checkpoint"
    until = time.monotonic() + 60
    while not checkpoint.exists() and time.monotonic() < until:
        time.sleep(0.01)
    banks.start("c")
    learner.join(60)
    assert learner.exitcode == 0, banks.said()
    assert "going on without late owners: c:" in banks.said()
    plan = prepare_run(terms, checkpoint)
    kept = load_checkpoint(checkpoint, terms, plan.start)
    late = {int(k) for k in re.findall(r"round (\d+): going on without late owners: c:", banks.said())}
    assert kept.answers == {"a": 6, "b": 6} | ({"c": 6 - len(late)} if len(late) < 6 else {})
    spent = banks.spent(terms)
    assert spent["a"] == spent["b"] == 1
    assert spent["c"] == parley.Ledger(banks.folder / "c.ledger").account(terms.hash).answers * Fraction(1, 6)
    assert spent["c"] <= 1  # an answer that came too late to be used is debited all the same
    assert 1 in late

    class Replay:
        def ask(self, questions):
            there = [name for name, query in questions.items() if name != "c" or query.round not in late]
            return [stored_answer(banks, name, terms, questions[name].round) for name in there]

    final = run(plan.algorithm, Replay(), aggregation_of(terms), Asker.from_setup(plan.setup), plan.start)
    np.testing.assert_array_equal(final.theta, kept.state.theta)


def test_the_commands_of_an_owner_from_the_first_to_the_last(tmp_path):
    """init, accept (in words, with a question), ledger - as people type them; the real command in a real process."""
    consortium = Consortium(tmp_path)
    terms = consortium.write_terms()
    runner = CliRunner()
    home = tmp_path / "home"
    made = runner.invoke(
        app,
        [
            "owner",
            "init",
            str(home),
            "--name",
            "a",
            "--table",
            str(tmp_path / "a.csv"),
            "--lifetime",
            "1.5",
            "--listen",
            "127.0.0.1:0",
        ],
    )
    assert made.exit_code == 0, made.output
    assert home.stat().st_mode & 0o777 == 0o700
    again = runner.invoke(
        app, ["owner", "init", str(home), "--name", "a", "--table", str(tmp_path / "a.csv"), "--lifetime", "9"]
    )
    assert "already exists" in str(again.exception)
    arguments = ["owner", "accept", str(tmp_path / "terms.toml"), "--owner", str(home / "owner.toml")]
    arguments += ["--certificate", str(tmp_path / "learner.crt")]
    assert "ca.crt: no such file; expected a certificate" in str(runner.invoke(app, arguments, input="y\n").exception)
    for file in ("ca.crt", "ca.crl"):
        shutil.copy(tmp_path / file, home)
    refused = runner.invoke(app, arguments, input="n\n")
    assert refused.exit_code == 1
    for words in (
        "8 answers, each a mean over 60 records as vectors of 3 numbers",
        "ε = 1",
        "between 26.8% and 73.2%",
        "ε = 0 is already reserved",
    ):
        assert words in refused.output
    assert parley.Ledger(home / "a.ledger").reserved == (0, 0)
    accepted = runner.invoke(app, arguments, input="y\n")
    assert f"Accepted: terms {terms.hash[:16]}" in accepted.output
    assert (
        "nothing more, because you have already accepted them. The lifetime budget"
        in runner.invoke(app, arguments, input="y\n").output
    )
    wrong = runner.invoke(app, [*arguments[:-1], str(tmp_path / "b.crt"), "--yes"])
    assert "the learner in the terms is 'learner'" in str(wrong.exception)
    code = "from parley.cli import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "owner", "ledger", str(home / "owner.toml")],
        capture_output=True,
        text=True,
        check=True,
    )
    for words in (
        "Test",
        "learner",
        "0 of 8",
        "is reserved, of which 0 is spent",
        "chain unbroken",
    ):
        assert words in " ".join(shown.stdout.split())


def test_terms_are_accepted_for_no_certificate_that_the_daemon_would_turn_away(tmp_path):
    consortium = Consortium(tmp_path, names="a")
    consortium.write_terms()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    certificate_authority.make_authority(elsewhere, "Test", 3650)
    certificate_authority.make_request(elsewhere, "learner")
    certificate_authority.issue(elsewhere, elsewhere / "learner.csr", 9)
    for copy in ("good.crt", "ended.crt"):
        shutil.copy(tmp_path / "learner.crt", elsewhere / copy)
    certificate_authority.renew(tmp_path, elsewhere / "ended.crt", -1)

    def accept(certificate):
        arguments = [
            "owner",
            "accept",
            str(tmp_path / "terms.toml"),
            "--owner",
            str(tmp_path / "a.toml"),
            "--yes",
            "--certificate",
        ]
        return CliRunner().invoke(app, [*arguments, str(elsewhere / certificate)])

    assert "did not issue this certificate" in str(accept("learner.crt").exception)
    assert "expired on" in str(accept("ended.crt").exception)
    revoked = certificate_authority.revoke(tmp_path, "learner", 30)
    assert len(revoked) == 2
    assert "the authority revoked this certificate" in str(accept("good.crt").exception)
    assert parley.Ledger(tmp_path / "a.ledger").reserved == (0, 0)
    assert not (tmp_path / "accepted-a").exists()
    settings = tmp_path / "a.toml"
    settings.write_text(settings.read_text().replace("revoked =", "# revoked ="))  # as settings were written before
    assert accept("good.crt").exit_code == 0


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_an_owner_makes_is_for_its_account_alone(tmp_path):
    """Also in a folder that others may enter; a key that others can read is refused, a ledger that they can read is
    told of."""
    consortium = Consortium(tmp_path, names="a")
    consortium.write_terms()
    runner, home = CliRunner(), tmp_path / "deep" / "home"
    table = ["--name", "a", "--table", str(tmp_path / "a.csv"), "--lifetime", "1.5"]
    assert runner.invoke(app, ["owner", "init", str(home), *table]).exit_code == 0
    assert mode(home) == mode(home.parent) == 0o700
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shutil.move(home / "owner.toml", tmp_path / "forgotten.toml")
    made = runner.invoke(app, ["owner", "init", str(shared), *table])
    assert "chmod 700" in made.output
    accept = ["owner", "accept", str(tmp_path / "terms.toml"), "--owner", str(shared / "owner.toml"), "--yes"]
    with contextlib.closing(parley.Ledger(shared / "a.ledger")):
        accepted = runner.invoke(app, accept)
        assert "Accepted" in accepted.output
        assert "chmod" not in accepted.output
        files = [path for path in shared.rglob("*") if path.is_file()]
        assert len(files) == 6  # settings, ledger, its -wal and -shm, how far it was verified, an acceptance
        assert {mode(path) for path in files} == {0o600}
    assert mode(shared / "accepted") == 0o700
    (shared / "a.ledger").chmod(0o640)
    assert "a.ledger: other accounts may read this ledger; chmod 600" in runner.invoke(app, accept).output.replace(
        "\n", ""
    )
    shutil.copy(tmp_path / "a.key", shared)
    (shared / "a.key").chmod(0o640)
    assert "chmod 600" in str(runner.invoke(app, accept).exception)


def test_a_table_has_one_set_of_books_as_far_as_init_can_see(tmp_path):
    regression_table(20, seed=0).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    runner = CliRunner()

    def init(folder, name="a", table="a.csv"):
        table = str(tmp_path / table)
        return runner.invoke(
            app, ["owner", "init", str(tmp_path / folder), "--name", name, "--table", table, "--lifetime", "1"]
        )

    made = init("home")
    assert made.exit_code == 0
    assert "before its first use. Then run parley owner init again" in made.stderr  # it has no delta
    refused = str(init("neighbour").exception)
    assert "already has a ledger in these settings" in refused
    assert f"move {tmp_path / 'home'} out of {tmp_path} and run parley owner init again" in refused
    assert "already has a ledger in these settings" in str(init("neighbour", table="link.csv").exception)
    assert "already has a ledger in these settings" in str(init("home/inside").exception)
    assert not (tmp_path / "neighbour").exists()
    (tmp_path / "home" / "owner.toml").unlink()
    assert "the folder already contains another ledger" in str(init("home", name="b").exception)
    assert "exists" not in init("home").output  # the same books with new settings
    shutil.copy(tmp_path / "a.csv", tmp_path / "b.csv")
    assert init("second", name="b", table="b.csv").exit_code == 0  # a copy cannot be told from another table


def test_a_public_sample_between_organisations_needs_its_hash(banks):
    (banks.folder / "public.csv").write_text((banks.folder / "a.csv").read_text())
    text = toml_terms().replace('target = "y"', 'target = "y"\npublic = "public.csv"')
    (banks.folder / "terms.toml").write_text(text)
    assert "model.public_sha256: missing" in banks.fail()


def scored_terms(banks, extra=""):
    """Terms by which a quarter of every epsilon is for a score."""
    text = toml_terms(extra=extra).replace("clip = 4.0", "clip = 4.0\nscore_epsilon = 0.25")
    (banks.folder / "terms.toml").write_text(
        text.replace("radius", "holdout = 0.3\nbounds = { y = [-2.0, 2.0] }\nradius")
    )
    return parley.load_terms(banks.folder / "terms.toml")


def test_a_score_travels_after_the_last_round_and_a_finished_run_gets_it_again_for_free(banks):
    terms = scored_terms(banks)
    banks.accept(terms)
    banks.start()
    result = banks.learn()
    assert banks.spent(terms) == dict.fromkeys("abc", 1)
    assert [(owner["epsilon_spent"], owner["answers"]) for owner in result["owners"]] == [(1.0, 8)] * 3
    scores = result["scores"]
    assert [(score["name"], score["rows"]) for score in scores["owners"]] == [("a", 18), ("b", 12), ("c", 15)]
    stored = [stored_answer(banks, name, terms, 9) for name in "abc"]
    weights = np.array([18, 12, 15]) / 45
    pooled = float(weights @ [answer.value[0] for answer in stored])
    shown = scores["pooled"]["figures"]["mean_squared_error"]
    if pooled < 0:  # the noise is fresh in every run, and may drown the error
        assert shown is None
    else:
        assert shown["value"] == pytest.approx(16 * min(1, pooled))  # bounds 4 wide
        deviations = np.sqrt(2) * 13 / 4 / 0.25 / (45 * weights)
        assert shown["standard_error"] == pytest.approx(16 * np.sqrt(np.sum((weights * deviations) ** 2)))
    kept = load_checkpoint(banks.folder / "terms.checkpoint", terms, prepare_run(terms, banks.folder / "unused").start)
    assert {name: head.entries for name, head in kept.heads.items()} == dict.fromkeys(
        "abc", 11
    )  # opened, accepted, 8 rounds, the score
    assert banks.learn("--resume")["scores"] == scores
    assert banks.replay(terms) == result["theta"]
    assert banks.spent(terms) == dict.fromkeys("abc", 1)
    assert [line["round"] for line in banks.log("a") if line["event"] == "answer"][-1] == 9


def test_an_owner_that_is_away_at_the_score_is_left_out_of_it(banks):
    terms = scored_terms(banks, 'quorum = 2\nstraggler = "skip"')
    banks.accept(terms)
    banks.start("a", "b")
    result = banks.learn("--deadline", "0.3")
    assert [score["name"] for score in result["scores"]["owners"]] == ["a", "b"]
    assert result["scores"]["pooled"]["rows"] == 30
    assert banks.spent(terms) == {"a": 1, "b": 1, "c": 0}
