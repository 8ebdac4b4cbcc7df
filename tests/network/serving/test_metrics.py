"""An owner's page for Prometheus, and its readiness, from a real daemon."""

import json
import shutil
import socket
import sqlite3
import subprocess
import urllib.error
import urllib.request
from fractions import Fraction

import numpy as np
import pytest
from consortium import Consortium, free_port, toml_terms
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import Refusal, SettingError
from parley.network.exchange.remote import RemoteOwner
from parley.network.identity.settings import load_owner
from parley.network.serving.metrics import above, below
from parley.protocol.queries import GradientQuery


@pytest.fixture
def bank(tmp_path):
    consortium = Consortium(tmp_path, names="a", lifetime_delta=1e-5)
    consortium.metrics = free_port()
    settings = tmp_path / "a.toml"
    settings.write_text(
        settings.read_text().replace("\n[identity]", f'\nmetrics = "127.0.0.1:{consortium.metrics}"\n[identity]')
    )
    yield consortium
    consortium.close()


def page(bank, path="/metrics"):
    """(status, text)."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{bank.metrics}{path}", timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def figures(text):
    """{(name, labels): number}."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sorted(sample.labels.values())): sample.value for sample in samples}


def ask(bank, terms, *rounds):
    peer = RemoteOwner("a", f"127.0.0.1:{bank.ports['a']}", bank.identity())
    try:
        return [peer.ask(GradientQuery.ask(terms.hash, "learner", k, np.zeros(3)), 60, 3, 20) for k in rounds]
    finally:
        peer.close()


def test_the_page_says_what_ledger_and_log_say(bank):
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    short, told = (terms.hash[:16], "learner"), ask(bank, terms, 1, 2, 2)
    with pytest.raises(Refusal):
        ask(bank, terms, 7)
    status, text = page(bank)
    found = figures(text)
    assert status == 200
    for name, number in {
        ("parley_agreement_epsilon_reserved", *sorted(short)): 1.0,
        ("parley_agreement_epsilon_spent", *sorted(short)): above(Fraction(2, 3)),
        ("parley_agreement_epsilon_left", *sorted(short)): below(Fraction(1, 3)),
        ("parley_agreement_delta_reserved", *sorted(short)): 0.0,
        ("parley_agreement_delta_spent", *sorted(short)): 0.0,
        ("parley_agreement_answers_reserved", *sorted(short)): 3,
        ("parley_agreement_answers_given", *sorted(short)): 2,
        ("parley_lifetime_epsilon",): 2.0,
        ("parley_lifetime_epsilon_left",): 1.0,
        ("parley_lifetime_delta",): below(Fraction("1e-5")),
        ("parley_lifetime_delta_left",): below(Fraction("1e-5")),
        ("parley_answers_total",): 3,
        ("parley_answer_seconds_count",): 3,
        ("parley_refusals_total", "out-of-order"): 1,
        ("parley_ready",): 1,
        ("parley_ledger_entries",): 4,
        ("parley_ledger_head",): int(told[-1].statement.head.hash[:12], 16),
    }.items():
        assert found[name] == number, name
    for of, days in {"certificate": 365, "authority": 3650, "revocation-list": 365}.items():
        assert days - 1 < found["parley_time_left_seconds", of] / 86400 < days
    assert found["parley_answer_seconds_bucket", "+Inf"] == 3
    assert page(bank, "/ready") == (200, "ready\n")
    assert page(bank, "/healthy")[0] == 200
    assert page(bank, "/ledger")[0] == 404


def test_the_page_counts_answers_and_delta_of_an_owner_that_is_asked_in_some_rounds(bank):
    """By strides the owner has fewer turns than there are rounds; what a restore counted as spent is not left for
    further terms."""
    text = toml_terms(horizon=7, names="a").replace("clip = 4.0", 'clip = 4.0\nmechanism = "gaussian"\ndelta = 1e-6')
    others = '[[owners]]\nname = "b"\nrecords = 40\nepsilon = 1.0\n'
    (bank.folder / "terms.toml").write_text(f"{text}stride = 3\n{others}")
    terms = parley.load_terms(bank.folder / "terms.toml")
    bank.accept(terms)
    bank.start()
    short = sorted((terms.hash[:16], "learner"))

    def shown():
        found = figures(page(bank)[1])
        names = ("answers_reserved", "answers_given", "delta_reserved", "delta_spent")
        return [found[f"parley_agreement_{name}", *short] for name in names], found["parley_lifetime_delta_left",]

    reserved = above(Fraction("1e-6"))
    assert shown() == ([3, 0, reserved, 0], below(Fraction("9e-6")))
    ask(bank, terms, 1, 4)
    assert shown() == ([3, 2, reserved, reserved], below(Fraction("9e-6")))
    ledger = bank.ledger("a")
    ledger.assume_spent("a", [], everything=True)
    ledger.close()
    assert shown() == ([3, 2, reserved, reserved], 0)
    assert figures(page(bank)[1])["parley_lifetime_epsilon_left",] == 0


def test_promtool_reads_the_page(bank):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed (Debian's package prometheus)")
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    ask(bank, terms, 1)
    checked = subprocess.run(["promtool", "check", "metrics"], input=page(bank)[1], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr, checked.stdout) == (0, "", "")


def test_a_look_at_the_page_waits_for_no_writer_and_keeps_none_waiting(bank):
    """Somebody holds the ledger's write lock all the while."""
    terms = bank.write_terms(horizon=3)
    bank.accept(terms)
    bank.start()
    with sqlite3.connect(bank.folder / "a.ledger", isolation_level=None) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert figures(page(bank)[1])["parley_ledger_entries",] == 2
        writer.execute("ROLLBACK")


def ledger_moved(folder):
    (folder / "a.ledger").rename(folder / "moved.ledger")


def table_gone(folder):
    (folder / "a.csv").unlink()


def table_changed(folder):
    (folder / "a.csv").write_text((folder / "a.csv").read_text() + "\n")


def terms_unknown_to_the_ledger(folder):
    (folder / "accepted-a" / f"{'0' * 64}.json").write_text("{}")


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (ledger_moved, "the ledger was moved"),
        (table_gone, "the table cannot be read"),
        (table_changed, "the table's file changed"),
        (terms_unknown_to_the_ledger, "terms were accepted that the ledger does not know"),
    ],
)
def test_an_owner_that_cannot_use_its_things_is_not_ready(bank, monkeypatch, break_it, words):
    bank.accept(bank.write_terms(horizon=3))
    bank.start()
    break_it(bank.folder)
    status, text = page(bank, "/ready")
    assert status == 503
    assert words in text
    found = figures(page(bank)[1])
    assert found["parley_ready",] == 0
    assert page(bank, "/healthy")[0] == 200


def test_terms_that_the_table_does_not_fit_make_an_owner_unready(bank):
    bank.accept(bank.write_terms(horizon=3))
    table = bank.folder / "a.csv"
    table.write_text("\n".join(table.read_text().splitlines()[:-5]))
    bank.start()
    assert page(bank, "/ready") == (503, "the table does not fit accepted terms\n")


def test_a_page_that_cannot_be_shown_is_said_in_one_sentence(bank):
    settings = bank.folder / "a.toml"
    settings.write_text(settings.read_text().replace(f":{bank.metrics}", f":{bank.ports['a']}"))
    with socket.create_server(("127.0.0.1", bank.ports["a"])), pytest.raises(AssertionError) as said:
        bank.start()
    sentence = str(said.value).strip().splitlines()[-1]
    assert (
        f"127.0.0.1:{bank.ports['a']}: the metrics page cannot listen at this address (Address already in use)"
        in sentence
    )


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "[::]:9464", "10.0.0.7:9464", "parley.example:9464"])
def test_a_page_that_others_could_reach_is_asked_for_in_so_many_words(bank, address):
    settings = bank.folder / "a.toml"
    settings.write_text(settings.read_text().replace(f"127.0.0.1:{bank.metrics}", address))
    with pytest.raises(SettingError, match="metrics_anywhere"):
        load_owner(settings)
    settings.write_text(settings.read_text().replace("\nmetrics =", "\nmetrics_anywhere = true\nmetrics ="))
    assert load_owner(settings).metrics == address


def test_budgets_on_the_page_are_never_rounded_in_somebodys_favour():
    for numerator in range(1, 200):
        exact = Fraction(numerator, 967)
        assert Fraction(below(exact)) <= exact <= Fraction(above(exact))
        assert above(exact) - below(exact) < 1e-15


def test_new_settings_mention_the_page_and_leave_it_off(tmp_path):
    (tmp_path / "t.csv").write_text("y\n1\n")
    made = ["owner", "init", str(tmp_path / "a"), "--name", "a", "--table", str(tmp_path / "t.csv"), "--lifetime", "1"]
    assert CliRunner().invoke(app, made).exit_code == 0
    assert "# metrics = " in (tmp_path / "a" / "owner.toml").read_text()
    assert load_owner(tmp_path / "a" / "owner.toml").metrics is None
    assert json.dumps(load_owner(tmp_path / "a" / "owner.toml").metrics_anywhere) == "false"
