"""Events are what ledgers hold of them, and nothing is proved of a kind that accounting does not know."""

import json
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest
from dp_accounting import NeighboringRelation

import parley
from parley.errors import SettingError
from parley.privacy.accounting import compose
from parley.privacy.events import (
    EVENTS,
    Adjacency,
    Event,
    GaussianEvent,
    GeometricEvent,
    LaplaceEvent,
    PureEvent,
    StableEvent,
)

BEFORE = Path(__file__).parents[1] / "fixtures" / "written_before"
SOURCE = Path(parley.__file__).parent


@pytest.mark.parametrize(
    "event",
    [LaplaceEvent(3.0), GeometricEvent(2.0, 0.5, 7), PureEvent(4.0, count=2), GaussianEvent(1.5, 0.01, 100)]
    + [StableEvent(2.0, alpha=1.9, norm=norm, sampling=0.1) for norm in ("l1", "l2")],
)
def test_an_event_is_what_it_was_written_as(event):
    written = json.loads(json.dumps(event.to_dict(), sort_keys=True))
    assert set(written) == {"mechanism", "multiplier", "norm", "alpha", "sampling", "count"}
    assert Event.from_dict(written) == event
    assert event.times(5).to_dict() == {**written, "count": 5}


def test_events_of_earlier_ledgers_are_read_and_would_be_written_the_same():
    ledgers = sorted(BEFORE.glob("*.ledger"))
    kinds = set()
    for file in ledgers:
        with sqlite3.connect(f"file:{file}?mode=ro&immutable=1", uri=True) as db:
            for (text,) in db.execute("SELECT event FROM entries WHERE kind = 'answer'"):
                event = Event.from_dict(json.loads(text))
                assert json.dumps(event.to_dict(), sort_keys=True) == text
                kinds.add(type(event))
    assert ledgers
    assert kinds <= set(EVENTS.values())
    assert kinds


@pytest.mark.parametrize(
    ("wrong", "about"),
    [
        ({"mechanism": "staircase"}, "mechanism = 'staircase': expected one of laplace"),
        ({"mechanism": "gaussian"}, "norm = 'l1': gaussian noise needs a value bounded in L2"),
        ({"mechanism": "stable"}, "alpha = None"),
        ({"mechanism": "stable", "alpha": 1.5, "norm": "l3"}, "norm = 'l3'"),
    ],
)
def test_what_is_no_event_is_one_sentence(wrong, about):
    with pytest.raises(SettingError, match=about):
        Event.from_dict({"mechanism": "laplace", "multiplier": 1.0, "norm": "l1", "sampling": 1.0, "count": 1} | wrong)


def test_nothing_is_proved_of_noise_that_accounting_does_not_know():
    """A new event must not pass for a pure one: every rule refuses it."""

    @dataclass(frozen=True)
    class Staircase(Event):
        mechanism = "staircase"

    for method in ("simple", "advanced", "zcdp", "rdp", "pld"):
        with pytest.raises(SettingError, match="no bound is known for a Staircase"):
            compose([Staircase(1.0)], 1e-6, method)
    with pytest.raises(SettingError, match="no composition rule"):
        compose([Staircase(1.0)], 1e-6)


def test_adjacency_is_named_as_in_dp_accounting_and_is_plain_text_in_json():
    of_records = set(Adjacency) - {Adjacency.REPLACE_OWNER}  # the library has no whole tables
    assert {adjacency.name for adjacency in of_records} <= {relation.name for relation in NeighboringRelation}
    assert json.dumps({"adjacency": Adjacency.REPLACE_ONE}) == '{"adjacency": "replace-one"}'
    assert compose([LaplaceEvent(1.0)]).adjacency is Adjacency.REPLACE_ONE


def test_no_code_asks_an_event_for_its_name():
    """Which noise it was, its class says; the name is for ledgers and people."""
    by_name = re.compile(r"event\w*(\[\d+\])?\.mechanism\b *(==|!=|in\b|not in\b)")
    of_noise = re.compile(rf'(==|!=|\bin) *[\[({{]?"({"|".join(EVENTS)})"')
    for file in SOURCE.parent.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        assert not by_name.search(text), file
        assert not (file.is_relative_to(SOURCE / "privacy") and of_noise.search(text)), file
