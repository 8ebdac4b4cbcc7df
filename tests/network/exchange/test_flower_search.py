"""Finding owners in a federation where other people run other things."""

import json
from pathlib import Path

import numpy as np
import pytest
from consortium import Consortium, toml_terms

import parley

pytest.importorskip("flwr", reason="flwr is not installed; pip install 'parley-dp[flower]'")
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from parley.errors import ContradictionError, ExchangeError, Refusal, SettingError, Unavailable
from parley.learning import over_flower
from parley.learning.algorithms.algorithm import State
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.deployed import prepare_run
from parley.network.exchange import flower, messages
from parley.network.exchange.flower import Carrier, find_owners
from parley.network.identity.settings import load_owner
from parley.network.serving.acceptance import Acceptances, Caller
from parley.network.serving.daemon import open_owner
from parley.network.serving.log import Log
from parley.network.serving.service import OwnerService


def record(**content):
    return RecordDict({"parley": ConfigRecord(content)})


HEALTHY = {name: record(content=messages.write_health(name, "1")) for name in "abz"}
FOREIGN = {
    "silent": None,
    "failed": Error(code=0, reason="no"),
    "empty": RecordDict(),
    "another app": RecordDict({"theirs": ConfigRecord({"content": b""})}),
    "another record": RecordDict({"parley": MetricRecord({"content": 1.0})}),
    "another key": record(reply=b""),
    "text": record(content="text"),
    "a number": record(content=10**12),
    "junk": record(content=b"\xff" * 20),
    "refusal": record(content=messages.write_refusal(Refusal("go away"))),
    "standing": record(content=messages.write_statement("a", messages.AccountStatement(1, 0, 0, 8))),
    "bad name": record(content=messages.write_health("../a", "1")),
    "another owner": HEALTHY["z"],
}


class Federation(Grid):
    """Nodes that always say the same; Flower's own messages, without its processes."""

    def __init__(self, *said):
        self.said, self.sent = said, {}

    def get_node_ids(self):
        return range(1, len(self.said) + 1)

    def push_messages(self, asked):
        for message in asked:
            self.sent[str(len(self.sent) + 1)] = message
        return [str(len(self.sent))]

    def pull_messages(self, numbers):
        for number in numbers:
            message = self.sent[number]
            said = self.said[message.metadata.dst_node_id - 1]
            if said is not None:
                yield Message(said, reply_to=message)

    def set_run(self, run):
        raise NotImplementedError

    run = create_message = get_nodes = send_and_receive = set_run


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """Flower's messages say in which of its tasks they were made."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.parametrize("foreign", FOREIGN)
def test_a_foreign_or_hostile_node_is_not_an_owner_of_ours_and_ends_nothing(foreign):
    grid = Federation(FOREIGN[foreign], HEALTHY["a"], FOREIGN[foreign], HEALTHY["b"])
    assert sorted(owner.name for owner in find_owners(Carrier(grid), ["a", "b"], 5.0)) == ["a", "b"]
    with pytest.raises(ExchangeError, match="no node of the federation claims to be b"):
        find_owners(Carrier(Federation(FOREIGN[foreign], HEALTHY["a"])), ["a", "b"], 0.15)


def test_a_name_that_two_nodes_claim_ends_the_search():
    with pytest.raises(ExchangeError, match="two nodes of the federation claim to be 'a'"):
        find_owners(Carrier(Federation(HEALTHY["a"], HEALTHY["a"])), ["a", "b"], 5.0)


@pytest.mark.parametrize(
    "foreign", [name for name in FOREIGN if name not in ("junk", "refusal", "standing", "bad name", "another owner")]
)
def test_an_owner_whose_node_says_something_else_is_asked_again_later(foreign):
    with pytest.raises(Unavailable, match="node 1"):
        Carrier(Federation(FOREIGN[foreign])).carry(1, "Health", b"", 0.1)


def test_a_federation_that_takes_no_message_is_unavailable():
    grid = Federation(HEALTHY["a"])
    grid.push_messages = lambda asked: [None]
    with pytest.raises(Unavailable, match="accepts no message"):
        Carrier(grid).carry(1, "Health", b"", 0.1)


def test_a_node_that_fails_is_asked_again_but_not_at_once(monkeypatch):
    late = Federation(FOREIGN["failed"], HEALTHY["a"])
    with pytest.raises(ExchangeError, match="no node of the federation claims to be b"):
        find_owners(Carrier(late), ["a", "b"], 0.5)
    assert len(late.sent) == 2
    monkeypatch.setattr(flower, "RETRY_PAUSE_S", 0.2)
    pull = late.pull_messages

    def pull_messages(numbers):
        late.said = (HEALTHY["b"] if len(late.sent) > 5 else FOREIGN["failed"], HEALTHY["a"])
        return pull(numbers)

    late.pull_messages = pull_messages
    assert sorted(owner.name for owner in find_owners(Carrier(late), ["a", "b"], 5.0)) == ["a", "b"]


@pytest.fixture
def settings(tmp_path):
    """A run's settings, for owners a and b."""
    (tmp_path / "terms.toml").write_text(toml_terms(horizon=2, names="ab"))
    files = {"terms": "terms.toml", "save": "model.json", "report": "report.json", "checkpoint": "kept"}
    return {key: str(tmp_path / name) for key, name in files.items()} | {"deadline": 5.0}


class Daemons(Federation):
    """Nodes behind which real desks answer, each with somebody who rewrites their replies."""

    def __init__(self, desks, rewrite):
        super().__init__(*desks)
        self._rewrite = rewrite

    def pull_messages(self, numbers):
        for number in numbers:
            message = self.sent[number]
            place = message.metadata.dst_node_id - 1
            asked, service, relay = message.content["parley"], self.said[place], Caller(relay=True)
            reply = (
                service.health()
                if asked["method"] == "Health"
                else getattr(service, asked["method"].lower())(asked["content"], relay)
            )
            read = messages.wire.Reply.FromString(reply)
            if place == 0:
                self._rewrite(read)
            yield Message(record(content=read.SerializeToString()), reply_to=message)


def huge(reply):
    if reply.WhichOneof("outcome") == "answer":
        reply.answer.value.data = np.full(3, 1e300).tobytes()


def unspent(reply):
    if reply.WhichOneof("outcome") == "answer":
        reply.answer.statement.spent = "0"


@pytest.mark.parametrize(
    ("lie", "sentence"), [(huge, "larger than the agreed"), (unspent, "has spent 0"), (lambda reply: None, None)]
)
def test_a_node_is_believed_no_more_than_any_owner(tmp_path, settings, lie, sentence):
    banks = Consortium(tmp_path, names="ab")
    terms = banks.write_terms(horizon=2)
    banks.accept(terms, relay=True)
    opened = [(open_owner(it), it) for it in (load_owner(tmp_path / f"{name}.toml") for name in "ab")]
    grid = Daemons([OwnerService(owner, Acceptances(it.accepted), Log()) for owner, it in opened], lie)
    if sentence is None:
        over_flower.main(grid, run_context(settings))
        assert json.loads(Path(settings["report"]).read_text())["by_word"] is True
        assert load_checkpoint(Path(settings["checkpoint"]), terms, prepare_run(terms).start).heads["a"].entries == 4
    else:
        with pytest.raises(ContradictionError, match=f"round 1: a: .*{sentence}"):
            over_flower.main(grid, run_context(settings))
        assert not Path(settings["save"]).exists()
    for owner, _ in opened:
        owner.ledger.close()


def run_context(settings):
    return Context(run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=settings)


@pytest.mark.parametrize("file", ["save", "report", "checkpoint"])
def test_a_file_whose_folder_is_missing_is_refused_before_anybody_is_asked(settings, tmp_path, file):
    grid = Federation(HEALTHY["a"], HEALTHY["b"])
    with pytest.raises(SettingError, match=r"missing/it: its folder does not exist"):
        over_flower.main(grid, run_context(settings | {file: str(tmp_path / "missing" / "it")}))
    assert not grid.sent


def test_a_finished_run_asks_no_owner_where_it_stands(settings):
    plan = prepare_run(parley.load_terms(settings["terms"]), Path(settings["checkpoint"]))
    state = State(3, plan.start.theta, plan.start.memory)
    Checkpoint(plan.setup.hash, state, {"a": 2, "b": 2}, {"a": 1.0, "b": 1.0}).save(plan.checkpoint)
    grid = Federation(HEALTHY["a"], HEALTHY["b"])
    over_flower.main(grid, run_context(settings))
    assert {message.content["parley"]["method"] for message in grid.sent.values()} == {"Health"}
    assert [owner["epsilon_spent"] for owner in json.loads(Path(settings["report"]).read_text())["owners"]] == [
        1.0,
        1.0,
    ]
