"""The relay over a real Flower federation: SuperLink and SuperNodes as processes, TLS, key authentication.

PARLEY_FLOWER=1 runs it (about a minute); flwr must be installed.
"""

import json
import os
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from consortium import Consortium, toml_terms
from flower_federation import Flower

import parley

pytest.importorskip("flwr", reason="flwr is not installed; pip install 'parley-dp[flower]'")
if os.environ.get("PARLEY_FLOWER") != "1":
    pytest.skip("a Flower federation takes a minute; PARLEY_FLOWER=1 runs it", allow_module_level=True)

from parley.learning.over_flower import write_app

NOBODY = 65534
HOSTILE = """
import os
from pathlib import Path

import numpy as np
from flwr.clientapp import ClientApp

from parley.errors import ParleyError
from parley.network.exchange import messages
from parley.network.exchange.flower import relay
from parley.network.exchange.remote import RemoteOwner
from parley.protocol.queries import GradientQuery

client_app = ClientApp()
__all__ = ["client_app"]


@client_app.query()
def steal(message, context):
    reply = relay(message, context)
    with Path(context.node_config["diary"]).open("a") as diary:
        diary.write(f"user {os.geteuid()}\\n")
        for name in ("a.csv", "a.ledger", "a.key"):
            try:
                diary.write(f"stole {(Path(context.node_config['prey']) / name).read_bytes()[:9]}\\n")
            except OSError as error:
                diary.write(f"{type(error).__name__}\\n")
        if message.content["parley"]["method"] == "Ask":
            asked = messages.read_query(message.content["parley"]["content"])
            peer = RemoteOwner("a", f"unix:{context.node_config['socket']}", None)
            for k in (1, asked.round, 3, 4):
                try:
                    told = peer.ask(GradientQuery.ask(asked.terms_hash, "learner", k, np.full(3, 0.1)), 60, 3, 10)
                    diary.write(f"got {told.answer.value}\\n")
                except ParleyError as refusal:
                    diary.write(f"{type(refusal).__name__}\\n")
    return reply
"""


@pytest.fixture
def open_folder():
    """A folder that other users can enter, as /run/parley would be."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o755)
        yield folder


def federation(tmp_path, home, names, scored=False):
    banks = Consortium(tmp_path, names=names)
    for name in names:
        settings = tmp_path / f"{name}.toml"
        settings.write_text(settings.read_text().replace(f'socket = "{name}.sock"', f'socket = "{home / name}.sock"'))
    terms = banks.write_terms(horizon=2)
    if scored:
        text = toml_terms(horizon=2, names=names).replace("clip = 4.0", "clip = 4.0\nscore_epsilon = 0.25")
        (tmp_path / "terms.toml").write_text(
            text.replace("radius", "holdout = 0.3\nbounds = { y = [-2.0, 2.0] }\nradius")
        )
        terms = parley.load_terms(tmp_path / "terms.toml")
    banks.accept(terms, relay=True)
    banks.start()
    return banks, Flower(banks.folder, home), terms


def test_the_same_terms_over_a_flower_federation(tmp_path, open_folder):
    banks, flower, terms = federation(tmp_path, open_folder, "ab", scored=True)
    try:
        for name in "ab":
            flower.node(name)
        write_app(open_folder / "app")
        theta = parley.load_model(flower.train(open_folder / "app", tmp_path / "terms.toml")).theta_
        assert banks.spent(terms) == dict.fromkeys("ab", Fraction(1))
        report = json.loads((tmp_path / "terms.report.json").read_text())
        assert [score["rows"] for score in report["scores"]["owners"]] == [18, 12]
        np.testing.assert_array_equal(theta, banks.replay(terms))
    finally:
        flower.close()
        banks.close()


def runs_as_another_user():
    """Whether this interpreter can be started by a user that owns nothing."""
    try:
        subprocess.run([sys.executable, "-c", ""], user=NOBODY, group=NOBODY, extra_groups=[], check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


@pytest.mark.skipif(not runs_as_another_user(), reason="needs root, and an interpreter that other users may run")
def test_a_hostile_client_app_reads_no_table_and_gets_only_refusals_beyond_the_budget(tmp_path, open_folder):
    banks, flower, terms = federation(tmp_path, open_folder, "a")
    try:
        flower.node("a", user=NOBODY, diary=f"{open_folder}/node-a/diary", prey=str(tmp_path))
        write_app(open_folder / "app")
        (open_folder / "app" / "parley_relay" / "relay.py").write_text(HOSTILE)
        theta = parley.load_model(flower.train(open_folder / "app", tmp_path / "terms.toml")).theta_
        diary = (open_folder / "node-a" / "diary").read_text().split("\n")
        assert f"user {NOBODY}" in diary
        assert diary.count("PermissionError") == 3 * diary.count(f"user {NOBODY}")
        assert not [line for line in diary if line.startswith(("stole", "got"))], diary
        assert "OutOfOrder" in diary
        assert banks.spent(terms) == {"a": 1}
        assert banks.ledger("a").account(terms.hash).answers == 2
        np.testing.assert_array_equal(theta, banks.replay(terms))
    finally:
        flower.close()
        banks.close()
