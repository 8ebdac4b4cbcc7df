"""What is said before a daemon or a learner starts, and while a daemon runs."""

import contextlib
import json
import threading
import time
from io import StringIO

import pytest
from consortium import Consortium
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import CertificateError
from parley.network.identity import certificate_authority
from parley.network.identity.settings import load_owner
from parley.network.serving import daemon, network
from parley.network.serving.log import Log
from parley.network.serving.network import identity_reminders


@pytest.fixture
def bank(tmp_path):
    consortium = Consortium(tmp_path, names="a")
    consortium.accept(consortium.write_terms())
    return consortium


def test_who_is_not_who_the_settings_say_neither_listens_nor_asks(bank):
    run = CliRunner()
    settings, addresses = bank.folder / "a.toml", bank.folder / "addresses.toml"
    settings.write_text(settings.read_text().replace('certificate = "a.crt"', 'certificate = "learner.crt"'))
    addresses.write_text(addresses.read_text().replace("learner.", "a."))
    served = run.invoke(app, ["owner", "serve", str(settings)])
    assert "a.key: the key does not belong to" in str(served.exception)
    asked = run.invoke(app, ["learner", "run", str(bank.folder / "terms.toml"), "--owners", str(addresses)])
    assert "the certificate is for a, not for 'learner'" in str(asked.exception)
    settings.write_text(settings.read_text().replace('"learner.crt"', '"a.crt"'))
    (bank.folder / "a.key").chmod(0o644)
    served = run.invoke(app, ["owner", "serve", str(settings)])
    assert "chmod 600" in str(served.exception)
    assert all(isinstance(result.exception, CertificateError) for result in (served, asked))
    assert (
        not list(bank.folder.glob("*.sock")) + list(bank.folder.glob("*.lock")) + list(bank.folder.glob("*.checkpoint"))
    )


@pytest.mark.parametrize("days", [9, 365])
def test_a_daemon_that_runs_says_every_day_what_ends_soon(bank, monkeypatch, days):
    """A day is short here. Of the certificate that it shows: once a renewed one is, no more of the old one."""
    monkeypatch.setattr(network, "REMINDER_INTERVAL_S", 0.1)
    monkeypatch.setattr(network, "CHECK_INTERVAL_S", 0.1)
    certificate_authority.renew(bank.folder, bank.folder / "a.crt", days)
    (bank.folder / "a.ledger").chmod(0o600)
    stop, stream = threading.Event(), StringIO()
    running = threading.Thread(target=daemon.serve, args=(load_owner(bank.folder / "a.toml"), stop, Log(stream)))
    running.start()

    def lines():
        return list(map(json.loads, stream.getvalue().splitlines()))

    def warnings():
        return [line["reason"] for line in lines() if line["event"] == "warning"]

    def until_said(event):
        until = time.monotonic() + 30
        while event not in [line["event"] for line in lines()] and time.monotonic() < until:
            time.sleep(0.02)

    with contextlib.ExitStack() as then:
        then.callback(running.join)
        then.callback(stop.set)
        until_said("serving")
        time.sleep(0.55)
        told = warnings()
        certificate_authority.renew(bank.folder, bank.folder / "a.crt", 300)
        until_said("renewed")
        renewed = [line["event"] for line in lines()].index("renewed")
        (bank.folder / "a.ledger").chmod(0o644)
        time.sleep(0.4)
    assert all("expires in 8 days" in sentence for sentence in told)
    assert len(told) >= 2 if days == 9 else not told
    later = {line["reason"] for line in lines()[renewed:] if line["event"] == "warning"}
    assert later == {f"{bank.folder}/a.ledger: other accounts may read this ledger; chmod 600 {bank.folder}/a.ledger*"}


def test_a_learner_hears_what_of_its_identity_ends_soon(tmp_path):
    bank = Consortium(tmp_path, names="a")
    certificate_authority.revoke(tmp_path, None, 12)
    listed = bank.identity().model_copy(update={"revoked": tmp_path / "ca.crl"})
    said = identity_reminders(listed)
    (sentence,) = said()
    assert "ca.crl: this revocation list is good for 11 more days" in sentence
    assert not identity_reminders(bank.identity())()
    certificate_authority.revoke(tmp_path, None, -1)
    assert "out of date" in said()[0]
    (tmp_path / "ca.crl").unlink()
    assert "no such file" in said()[0]
    certificate_authority.revoke(tmp_path, None, 365)
    assert not said()
    short = tmp_path / "short"
    short.mkdir()
    certificate_authority.make_authority(short, "Test", 20)
    (sentence,) = identity_reminders(listed.model_copy(update={"authority": short / "ca.crt", "revoked": None}))()
    assert "ca.crt: the certificate expires in 19 days" in sentence
    assert "needs a new authority" in sentence
    bank.accept(bank.write_terms(horizon=1))
    certificate_authority.revoke(tmp_path, None, 12)
    bank.write_addresses(learner='{ own = "missing.toml" }')
    addresses = tmp_path / "addresses.toml"
    addresses.write_text(addresses.read_text().replace("[owners]", 'revoked = "ca.crl"\n[owners]'))
    told = CliRunner().invoke(app, ["learner", "run", str(tmp_path / "terms.toml"), "--owners", str(addresses)])
    assert "good for 11 more days" in told.output.replace("\n", "")
