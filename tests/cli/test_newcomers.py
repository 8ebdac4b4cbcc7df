"""From files that nobody here has seen to scores by the commands that each command says come next: no public sample,
odd columns."""

import shlex

import numpy as np
import pandas as pd
import pytest
from newcomer import on_disk, typed

import parley
from parley.decisions.from_files.odd_columns import odd_columns
from parley.decisions.from_files.terms_from_files import owner_names
from parley.errors import SettingError
from parley.protocol.task import task_named
from parley.tasks.statistics.column_statistics.run import require_learnable
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement


def households(rows, seed, where):
    """A utility's table: an address that is nobody else's, a column that nobody filled in, truth values, names,
    gaps."""
    rng = np.random.default_rng(seed)
    people, heating = rng.integers(1, 7, rows), rng.choice(["gas", "electric", "district"], rows, p=[0.5, 0.3, 0.2])
    solar = rng.choice(["TRUE", "FALSE"], rows, p=[0.3, 0.7])
    used = 800 + 600 * people + 2500 * (heating == "electric") - 1200 * (solar == "TRUE") + rng.normal(0, 500, rows)
    table = pd.DataFrame(
        {"address": [f"{where} {k}" for k in range(rows)], "people": people, "heating": heating, "solar": solar}
    )
    table = table.assign(remarks=None, used=used.clip(200).round(1))
    table.loc[rng.random(rows) < 0.05, "heating"] = None
    return table


@pytest.fixture(scope="module")
def utilities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("utilities")
    households(5000, 1, "Hill").to_csv(folder / "north power.csv", index=False, encoding="utf-8-sig")
    households(4000, 2, "Lake").to_csv(folder / "südstrom.csv", index=False, sep=";")
    return folder


@pytest.fixture
def here(utilities, monkeypatch):
    monkeypatch.chdir(utilities)
    return utilities


INIT = ("init", "north power.csv", "südstrom.csv", "--target", "used", "--kind", "linear-regression", "--yes")


def test_without_a_public_sample_the_commands_that_come_next_lead_to_scores(here):
    """An address tells households apart and leaves nobody; a column without a cell has no range. Neither stops what was
    paid for."""
    begun = typed(*INIT, "--epsilon", "2", "--delta", "1e-6", "--write", "our terms.toml")
    assert begun.code == 0, begun
    lines = begun.err[begun.err.index("Next:") :].splitlines()[1:]
    commands = [shlex.split(line, comments=True) for line in lines]
    assert [words[:2] for words in commands] == [
        ["parley", name] for name in ("column-stats", "plan", "forecast", "forecast", "train", "train", "score")
    ]
    said = []
    for _, *words in commands:
        done = typed(*words)
        if "is not worth its budget" in done.err:  # each has rows enough
            done = typed(*words, "--force")
        assert done.code == 0, (words, done)
        said.append(done)
    assert "address: a column of names" in said[0].err
    assert "remarks: the noise hides all values" in said[0].err
    assert said[0].err.count("left out of the features") == 2
    ready = parley.load_terms("our terms-ready.toml")
    assert ready.model.features == ("people", "heating", "solar")
    assert ready.model.bounds["solar"][1] >= 1.0  # three rows in ten are 1, which is no tail
    assert ready.model.bounds["people"][1] >= 6.0
    for name in ("north-power", "sudstrom"):
        ledger = parley.Ledger(here / "ledgers" / f"{name}.ledger")
        assert [float(account.spent) for _, account in ledger.accounts()] == [0.4, 1.6]
        assert ledger.reserved == ledger.lifetime


def test_words_among_numbers_are_found_before_scales_are_paid_for(tmp_path, monkeypatch):
    """Scales would be read all the same, by their noisy counts, and training would refuse the row afterwards."""
    monkeypatch.chdir(tmp_path)
    table = households(3000, 3, "Mill").astype({"people": object})
    table.loc[41, "people"] = "?"
    table.to_csv("mill.csv", index=False)
    words = ("init", "mill.csv", *INIT[3:], "--features", "people,heating", "--write", "mill.toml", "--force")
    assert typed(*words).code == 0
    before = on_disk(tmp_path)
    books = ("--ledgers", "books", "--lifetime", "1", "--lifetime-delta", "1e-6", "--force")
    done = typed("column-stats", "mill.toml", *books)
    assert done.code == 2
    assert "column 'people', row 42" in done.said
    assert "so Parley asked no owner" in done.said
    assert on_disk(tmp_path) == before
    owner = parley.Owner("mill", table)
    agreement = owner.prepare(column_statistics_agreement(parley.load_terms("mill.toml")))
    warning = task_named("column-statistics").warnings(owner, agreement)
    assert [each.about for each in warning] == ["model.categories.people"]
    table.loc[41, "people"] = None
    table.to_csv("mill.csv", index=False)
    assert typed("column-stats", "mill.toml", "--seed", "1").code == 0


def test_names_that_cannot_be_asked_for_are_said_before_anything_is_written(here):
    """With one noise for all no name can leave: columns of names are left out, or listed by who wants them."""
    hosts = ("--hosts", "north-power,sudstrom,learner", "--write", "hosted.toml")
    before = on_disk(here)
    refused = typed(*INIT, *hosts, "--features", "people,heating")
    assert refused.code == 2
    assert "heating=A,B,C" in refused.said
    assert on_disk(here) == before
    left_out = typed(*INIT, *hosts)
    assert "heating, address" in left_out.said or "address, heating" in left_out.said
    assert parley.load_terms("hosted.toml").model.features == ("people", "remarks")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"privacy": {"scale_epsilon": 1e-4}}, "would hide all column statistics"),
        ({"privacy": {"scale_epsilon": 1e-2}}, "would hide most column statistics.*To ask anyway, use --force"),
        ({"model": {"kind": "softmax-regression", "target": "heating"}}, r"model\.categories\.heating"),
        (
            {"model": {"transforms": {"address": "log"}, "bounds": {"elsewhere": (0.0, 1.0)}}},
            r"model\.bounds\.elsewhere",
        ),
    ],
)
def test_scales_that_would_be_paid_for_in_vain_are_refused(changes, hint):
    """By what is public alone: too little noise to see through, classes whose names stay, keys that learning would
    refuse."""
    rows = 400 if "kind" in changes.get("model", {}) else 9000
    content = {
        "model": {"kind": "linear-regression", "target": "used", "features": ["people", "address"], "missing": "fill"},
        "privacy": {"mechanism": "gaussian", "delta": 1e-6, "clip": 1.0, "scale_epsilon": 0.2},
        "owners": [{"name": "a", "records": rows, "epsilon": 1.0}],
    }
    require_learnable(parley.Terms.from_dict({**content, "owners": [{"name": "a", "records": 9000, "epsilon": 1.0}]}))
    for section, keys in changes.items():
        content[section] |= keys
    with pytest.raises((SettingError, parley.errors.DataError), match=hint):
        require_learnable(parley.Terms.from_dict(content))


def test_columns_that_are_nearly_numbers_are_pointed_at():
    public = pd.DataFrame(
        {
            "paid": ["$1,200.50", "$90.00", "$3.10"],
            "filled": ["93%", "94 %", "88%"],
            "comma": ["1,5", "2,25", "3,0"],
            "gap": ["1.5", "2.5", "n/a?"],
            "job": ["nurse", "clerk", "3"],
            "truth": ["TRUE", "FALSE", "TRUE"],
        }
    )
    said = odd_columns(public, list(public.columns))
    assert [sentence.split()[0] for sentence in said] == ["paid", "filled", "comma", "gap"]
    assert "'$1,200.50'" in said[0]


def test_owners_keep_their_letters(tmp_path):
    assert owner_names([tmp_path / "südstrom.csv", tmp_path / "Île de Ré.csv", tmp_path / "北.csv"]) == [
        "sudstrom",
        "Ile-de-Re",
        "owner",
    ]


def test_how_little_would_be_seen_is_said_before_anything_is_debited(here):
    """Refused short of --force, by `init` already; a simulation says it and goes on. Comments of the terms stay in
    what follows."""
    faint = (*INIT, "--epsilon", "0.1", "--delta", "1e-6", "--write", "faint.toml")
    told = typed(*faint)
    assert told.code == 2
    assert (
        "No range or names are stated for these columns: address, people, heating, solar, remarks, used." in told.said
    )
    assert not (here / "faint.toml").exists()
    assert typed(*faint, "--force").code == 0
    refused = typed("column-stats", "faint.toml", "--ledgers", "faint", "--lifetime", "1", "--lifetime-delta", "1e-6")
    assert refused.code == 2
    assert "Nobody was asked" in refused.said
    assert not (here / "faint").exists()
    done = typed("column-stats", "faint.toml", "--seed", "1", "--write", "guessed.toml")
    assert done.code == 0, done
    assert done.said.index("A bin is read from") < done.said.index("column")
    assert "of 2 private files" in (here / "guessed.toml").read_text()
