"""What was computed from private rows without safe noise says so: `"inside": true` in JSON, one sentence on the screen.

Every command is either declared here to print nothing of the kind, or shown to say it. A new command is in neither
list, and fails.
"""

import json

import numpy as np
import pandas as pd
import pytest
from newcomer import typed
from raters import rating_terms, tastes
from samples import regression_table

from parley.cli.app import PART_BY_COMMAND
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.errors import DataError
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.network.identity import certificate_authority
from parley.network.identity.certificates import fingerprint
from parley.network.identity.settings import load_owner
from parley.network.serving.inbox import Proposal, open_inbox
from parley.terms import Terms, write_terms
from parley_lab.papers.zawacki2024.delayed_control import ROTOR

TERMS = """
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1"]
radius = 5.0
holdout = 0.2
MODEL
[learning]
horizon = 2
[privacy]
clip = 4.0
PRIVACY
[[owners]]
name = "a"
records = 100
epsilon = 1.0
data = "a.csv"
[[owners]]
name = "b"
records = 80
epsilon = 1.0
data = "b.csv"
"""
COUNTING = """
[model]
kind = "histogram"
target = "y"
bounds = { y = [-3, 3] }
[privacy]
mechanism = "geometric"
[[owners]]
name = "a"
records = 100
epsilon = 1.0
data = "a.csv"
"""
PROPOSED = Terms.from_toml(TERMS.replace("MODEL", "").replace("PRIVACY", ""))
PUBLIC = 'public = "public.csv"'
DRIVE = ("--inputs", "u1,u2", "--states", "x1,x2", "--period", "2", "--max-delay", "3")

# What they print comes from terms, public samples, settings, ledgers, or from what was released; demo's tables are made
# up.
NOTHING_PRIVATE = {
    "man": "what commands say of themselves",
    "pin": "public numbers",
    "demo": "made-up tables",
    "init": "names of columns, numbers of rows, and what becomes public with the terms",
    "plan": "the terms and a public sample",
    "audit": "of terms: the terms, a public sample, and tables that it makes up",
    "negotiate": "the terms and a public sample",
    "learner run": "what was released",
    "learner flower": "files",
    "learner propose": "which owners received something",
    "learner proposal": "what owners said that became of it",
    "learner withdraw": "the same",
    "peer run": "what was released",
    "owner init": "settings",
    "owner snapshot": "names of columns, their types, and the number of rows",
    "owner serve": "a log without data",
    "owner refuse": "a hash",
    "studio": "an address; what its jobs print says for itself whether it is private",
    "owner ledger": "what was promised and spent",
    "owner backup": "the end of a chain",
    "owner restore": "the end of a chain",
    "host restore": "the end of a chain",
    "owner close": "a hash",
    "host init": "settings",
    "host accept": "the terms",
    "host serve": "a log without data",
    "host journal": "what was opened",
    "answers draw": "an answer drawn for the person who types",
    "answers count": "answers that were drawn before they were collected",
}
FREE = ("budget", "reproduce", "certs")  # groups that read no private table at all

# The words that make each command print something private, after `parley`.
PRIVATE = {
    "forecast": ("forecast", "public.toml", "--inside", "a.csv", "--owner", "a"),
    "column-stats": ("column-stats", "asking.toml", "--seed", "1"),
    "count": ("count", "counting.toml", "--seed", "1"),
    "heterogeneity": ("heterogeneity", "differing.toml", "--seed", "1"),
    "train": ("train", "terms.toml", "--seed", "1"),
    "predict": ("predict", "model.json", "a.csv", "--out", "predicted.csv"),
    "recommend": ("recommend", "items.json", "ratings.toml", "--owner", "north", "--user", "user 0-1"),
    "score": ("score", "model.json", "terms.toml", "--owner", "a"),
    "refine": ("refine", "model.json", "terms.toml", "--owner", "a", "--save", "own.json"),
    "identify": ("identify", "drive.csv", *DRIVE),
    "owner inbox": ("owner", "inbox", "home/owner.toml", PROPOSED.hash[:8]),
    "owner accept": ("owner", "accept", "terms.toml", "--owner", "home/owner.toml", "--relay", "--yes"),
}
# The same command in other ways.
OTHERWISE = {
    "audit, a model": ("audit", "model.json", "--terms", "terms.toml", "--owner", "a", "--models", "8", "--seed", "1"),
    "score --all": ("score", "model.json", "terms.toml", "--all"),
    "train, ratings": ("train", "ratings.toml", "--seed", "1"),
    "score, ratings": ("score", "items.json", "ratings.toml", "--owner", "north"),
    "refine, ratings": ("refine", "items.json", "ratings.toml", "--owner", "north", "--save", "own_items.json"),
}


def commands():
    """Every command of the app, by the words that call it, with its options."""

    def walk(command, path):
        if not hasattr(command, "commands"):
            yield " ".join(path), command
            return
        for name, part in command.commands.items():
            yield from walk(part, (*path, name))

    for name, part in PART_BY_COMMAND.items():
        yield from walk(part.load(), (name,))


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inside")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, rows, seed in (("a", 100, 1), ("b", 80, 2), ("public", 100, 3)):
            regression_table(rows, seed=seed).to_csv(f"{name}.csv", index=False)
        for name, model, privacy in (
            ("terms", "", ""),
            ("public", PUBLIC, ""),
            ("asking", "", "scale_epsilon = 0.9"),
            ("differing", PUBLIC, "difference_epsilon = 0.5"),
        ):
            text = TERMS.replace("MODEL", model).replace("PRIVACY", privacy)
            if name == "asking":
                text = text.replace("radius = 5.0\n", "")
            (folder / f"{name}.toml").write_text(text)
        (folder / "counting.toml").write_text(COUNTING)
        terms = rating_terms({"north": 50, "south": 60}, 4.0)
        for place, (name, users) in enumerate({"north": 50, "south": 60}.items()):
            tastes(users, place).to_csv(f"{name}.csv", index=False)
            terms = terms.changed(owners={name: {"data": str(folder / f"{name}.csv")}})
        write_terms(terms, folder / "ratings.toml")
        u = np.random.default_rng(1).normal(size=(60, 2))
        x = ROTOR.delayed(2.5).simulate([0, 0], u)[:-1]
        pd.DataFrame(np.hstack([x, u]), columns=["x1", "x2", "u1", "u2"]).to_csv("drive.csv", index=False)
        for words in (
            ("owner", "init", "home", "--name", "a", "--table", "a.csv", "--lifetime", "3"),
            ("train", "terms.toml", "--seed", "1", "--save", "model.json"),
            ("train", "ratings.toml", "--seed", "1", "--save", "items.json"),
        ):
            done = typed(*words)
            assert done.code == 0, done
        home = folder / "home"
        certificate_authority.make_authority(home, "Desk", 30)
        certificate_authority.make_request(home, "learner")
        path, shown = certificate_authority.issue(home, home / "learner.csr", 30)
        who = ("learner",), fingerprint(shown), "2026-03-02T09:14:00+00:00"
        sent = Proposal(PROPOSED.hash, PROPOSED.canonical, *who, certificate=path.read_text())
        open_inbox(load_owner(home / "owner.toml")).add(sent)
    return folder


def test_every_command_is_declared():
    found = dict(commands())
    assert {"score", "owner accept", "budget explain"} <= found.keys()
    known = {*NOTHING_PRIVATE, *PRIVATE, *(path for path in found if path.split()[0] in FREE)}
    assert found.keys() == known, "a new command says in test_inside.py whether it prints something private"
    assert not NOTHING_PRIVATE.keys() & PRIVATE.keys()


def test_what_prints_something_private_has_json():
    options = {path: {word for option in command.params for word in option.opts} for path, command in commands()}
    assert [path for path in PRIVATE if "--json" not in options[path]] == []


@pytest.mark.parametrize("way", [*PRIVATE, *OTHERWISE])
def test_private_figures_say_that_they_are_inside(desk, way, monkeypatch):
    monkeypatch.chdir(desk)
    words = {**PRIVATE, **OTHERWISE}[way]
    as_json = typed(*words, "--json")
    assert as_json.code == 0, as_json
    assert json.loads(as_json.out)["inside"] is True
    shown = typed(*words)
    assert shown.code == 0, shown
    assert KEEP_INSIDE_NOTE in shown.said


def test_what_may_leave_says_that_it_is_not_inside(desk, monkeypatch):
    monkeypatch.chdir(desk)
    books = ("--ledgers", "books", "--lifetime", "1", "--other-books", "home has books, too")
    for words in (
        ("train", "terms.toml", *books, "--force"),
        ("forecast", "public.toml"),
        ("owner", "ledger", "home/owner.toml"),
        ("owner", "inbox", "home/owner.toml"),
        ("budget", "explain", "--epsilon", "1"),
    ):
        done = typed(*words, "--json")
        assert done.code == 0, done
        assert json.loads(done.out)["inside"] is False
    assert KEEP_INSIDE_NOTE not in typed("train", "terms.toml", *books, "--force").said


def test_what_a_simulation_leaves_on_the_disk_says_it_too(desk, monkeypatch):
    monkeypatch.chdir(desk)
    assert typed("train", "terms.toml", "--seed", "1", "--report", "page.html").code == 0
    assert KEEP_INSIDE_NOTE in (desk / "page.html").read_text(encoding="utf-8")
    assert typed("heterogeneity", "differing.toml", "--seed", "1", "--save", "apart.json").code == 0
    assert json.loads((desk / "apart.json").read_text())["inside"] is True
    with pytest.raises(
        DataError, match="computed this file from private rows, so the file must stay inside"
    ):  # else it would come out of a plan as if it were public
        Heterogeneity.load(desk / "apart.json")
