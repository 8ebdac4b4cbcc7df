"""What people type wrongly: one sentence with what to do, no traceback, nothing spent, nothing half-written."""

import hashlib
import re
from pathlib import Path

import pandas as pd
import pytest
from newcomer import on_disk, typed
from samples import patients

TERMS = """
[model]
kind = "logistic-regression"
target = "outcome"
positive = "diseased"
features = ["age", "income", "job", "smoker"]
coding = "one-hot"
missing = "fill"
public = "public.csv"
public_sha256 = "SHA"
holdout = 0.2
[learning]
algorithm = "gradient-descent"
horizon = 2
step = 1.0
[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 2.0
[[owners]]
name = "north"
records = 400
epsilon = 1.0
data = "north.csv"
[[owners]]
name = "south"
records = 300
epsilon = 1.0
data = "south.csv"
"""
ALONE = TERMS.replace('public = "public.csv"\npublic_sha256 = "SHA"\n', "")
ASKING = ALONE.replace("delta = 1e-6", "delta = 1e-6\nscale_epsilon = 0.2")
NUMBER = ALONE.replace('kind = "logistic-regression"', 'kind = "linear-regression"').replace(
    'positive = "diseased"\n', ""
)
LIFE = ("--lifetime", "1", "--lifetime-delta", "1e-6")
INIT = ("init", "north.csv", "south.csv", "--target", "outcome", "--yes", "--write", "new.toml")
PUBLIC = (*INIT, "--public", "public.csv")


def variants():
    """Terms with one thing wrong, by the name of their file."""
    return {
        "typo": TERMS.replace("horizon", "horizn"),
        "bad": TERMS.replace("[privacy]", "[privacy"),
        "more": TERMS.replace("records = 400", "records = 401"),
        "otherwise": TERMS.replace("clip = 2.0", "clip = 3.0"),  # edited after it was accepted
        "twice": TERMS.replace("south.csv", "north_copy.csv").replace("records = 300", "records = 400"),
        "lacking": TERMS.replace("south.csv", "south_without_age.csv"),
        "text": NUMBER.replace('missing = "fill"\n', "").replace('"age", "income", "job", "smoker"', '"age"'),
        "lost": TERMS.replace("south.csv", "sought.csv"),
        "nodata": TERMS.replace('data = "south.csv"\n', ""),
        "hostless": TERMS.replace("clip = 2.0", 'clip = 2.0\nnoise = "shared"'),
        "zero": TERMS.replace("epsilon = 1.0", "epsilon = 0.0", 1),
        "negative": TERMS.replace("epsilon = 1.0", "epsilon = -1.0", 1),
        "delta": TERMS.replace("delta = 1e-6", "delta = 1.5"),
        "pinned": TERMS.replace("SHA", 64 * "0"),
        "sampleless": TERMS.replace("public.csv", "publik.csv"),
        "asking": ASKING,
        "faint": ASKING.replace("scale_epsilon = 0.2", "scale_epsilon = 0.001"),
        "walking": ASKING.replace("step = 1.0", 'step = 1.0\nstart = "public"'),
        "swapped": TERMS.replace("north.csv", "x.csv").replace("south.csv", "north.csv").replace("x.csv", "south.csv"),
    }


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Two clinics that released a model, and an owner with books of its own."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        tables = {
            "north": patients(400, 1, "north"),
            "south": patients(300, 2, "south"),
            "public": patients(120, 3, "public"),
        }
        for name, table in tables.items():
            table.to_csv(f"{name}.csv", index=False)
        tables["north"].to_csv("north_copy.csv", index=False)
        tables["south"].drop(columns="age").to_csv("south_without_age.csv", index=False)
        Path("empty.csv").write_text("")
        Path("names.csv").write_text("age,outcome\n")
        Path("again.csv").write_text("age;outcome;age\n1;healthy;2\n")
        Path("sheet.xlsx").write_bytes(b"PK")
        digest = hashlib.sha256(Path("public.csv").read_bytes()).hexdigest()
        for name, text in (variants() | {"terms": TERMS}).items():
            Path(f"{name}.toml").write_text(text.replace("SHA", digest))
        trained = typed("train", "terms.toml", "--ledgers", "books", *LIFE, "--save", "model.json", "--force")
        assert trained.code == 0, trained
        opened = typed("owner", "init", "home", "--name", "north", "--table", "north.csv", *LIFE)
        assert opened.code == 0, opened
        other = typed("owner", "init", "away", "--name", "nord", "--table", "south.csv", *LIFE)
        assert other.code == 0, other
    return folder


MISTAKES = {
    # the wrong file
    "a table that is not there": (("init", "nort.csv", *INIT[2:]), "no such file"),
    "a spreadsheet": (("init", "sheet.xlsx", *INIT[2:]), "csv"),
    "an empty table": (("init", "empty.csv", *INIT[2:], "--kind", "softmax-regression"), "empty.csv"),
    "a table of names alone": (
        ("init", "names.csv", *INIT[2:], "--kind", "softmax-regression"),
        "no rows below its header",
    ),
    "a column twice": (("init", "again.csv", *INIT[2:]), "more than once"),
    "a private table as the public sample": ((*INIT, "--public", "south.csv"), "is the private table south.csv"),
    "a public sample that is not there": ((*INIT, "--public", "publik.csv"), "no such file"),
    "terms over a table": (
        (*PUBLIC[:6], "--public", "public.csv", "--write", "north.csv"),
        "this file is one of the tables; name another file for the terms",
    ),
    "terms into no folder": ((*PUBLIC[:6], "--public", "public.csv", "--write", "none/new.toml"), "folder"),
    "terms onto a folder": ((*PUBLIC[:6], "--public", "public.csv", "--write", "books"), "folder"),
    "terms that are not there": (("train", "term.toml"), "cannot be read"),
    "a table for terms": (("train", "north.csv"), "terms"),
    "a model for terms": (("forecast", "model.json"), "terms"),
    "terms for a model": (("score", "terms.toml", "model.json", "--owner", "north"), None),
    "a model that is not there": (("score", "modell.json", "terms.toml", "--owner", "north"), "modell.json"),
    "rows that are not there": (("predict", "model.json", "rows.csv", "--out", "p.csv"), "no such file"),
    "rows without a column": (("predict", "model.json", "south_without_age.csv", "--out", "p.csv"), "'age' is missing"),
    "predictions over their rows": (("predict", "model.json", "south.csv", "--out", "south.csv"), "south.csv"),
    "a model into no folder": (
        ("refine", "model.json", "terms.toml", "--owner", "north", "--save", "no/own.json"),
        "folder",
    ),
    "a model onto a folder": (("train", "otherwise.toml", "--ledgers", "new", *LIFE, "--save", "home"), "folder"),
    # the wrong name
    "a command that is none": (("trian", "terms.toml"), "did you mean 'train'"),
    "an option that is none": (("train", "terms.toml", "--lifetme", "1"), "No such option"),
    "a target that is none": ((*PUBLIC[:3], "--target", "outcom", *PUBLIC[5:]), "did you mean 'outcome'"),
    "a feature that is none": ((*PUBLIC, "--features", "age,incom"), "did you mean 'income'"),
    "a kind that is none": ((*PUBLIC, "--kind", "regression"), "linear-regression"),
    "a number where there are names": ((*PUBLIC, "--kind", "linear-regression"), "contains names"),
    "no word about the target": (INIT, "--kind"),
    "an owner that is none": (("score", "model.json", "terms.toml", "--owner", "nort"), "north"),
    "no owner at all": (("score", "model.json", "terms.toml"), "--owner"),
    "a table without its owner": (("forecast", "terms.toml", "--inside", "north.csv"), "--owner"),
    **{
        f"{option} of own rows": (
            ("forecast", "terms.toml", "--inside", "north.csv", "--owner", "north", *option.split()),
            "not allowed with --inside",
        )
        for option in ("--report own.html", "--plot own.png", "--track runs", "--details", "--plan")
    },
    "an owner whom the terms do not know": (
        ("owner", "accept", "terms.toml", "--owner", "away/owner.toml", "--yes"),
        "nord",
    ),
    "settings that are not there": (("owner", "accept", "terms.toml", "--owner", "owner.toml", "--yes"), "owner.toml"),
    "addresses that are not there": (
        ("learner", "run", "terms.toml", "--owners", "addresses.toml", "--force"),
        "addresses.toml",
    ),
    # the wrong number
    "a negative budget": ((*PUBLIC, "--epsilon", "-1"), "epsilon"),
    "no budget": ((*PUBLIC, "--epsilon", "0"), "epsilon"),
    "a delta above one": ((*PUBLIC, "--delta", "2"), "delta"),
    "a delta of nothing, and nothing public": ((*INIT, "--delta", "0", "--kind", "softmax-regression"), "--delta"),
    "a share above one": ((*PUBLIC, "--holdout", "1.5"), "holdout"),
    "one end of a range": ((*INIT, "--bounds", "age=0"), "COLUMN=LOW,HIGH"),
    "the ends of a range swapped": ((*PUBLIC, "--bounds", "age=90,0"), "age"),
    "one host": ((*PUBLIC, "--hosts", "north"), "three"),
    "hosts that cannot check each other": ((*PUBLIC, "--hosts", "north,south", "--hosts-may-cheat"), "three names"),
    "answers that nobody can check": ((*PUBLIC, "--check-answers"), "--check-answers: expected --hosts with three"),
    "one host twice": ((*PUBLIC, "--hosts", "north,south,north"), "north"),
    "an epsilon of nothing in the terms": (("train", "zero.toml"), "epsilon"),
    "a negative epsilon in the terms": (("train", "negative.toml"), "epsilon"),
    "a delta above one in the terms": (("train", "delta.toml"), "delta"),
    "a negative epsilon explained": (("budget", "explain", "--epsilon", "-1"), "epsilon"),
    # terms that do not fit
    "a key that is none": (("train", "typo.toml"), "horizon"),
    "TOML that is none": (("plan", "bad.toml"), "bad.toml"),
    "no hosts for one noise": (("train", "hostless.toml"), "hosts"),
    "other rows than promised": (("train", "more.toml", "--ledgers", "new", *LIFE, "--force"), "the table has 400"),
    "swapped tables": (("train", "swapped.toml", "--ledgers", "new", *LIFE, "--force"), "the table has 300"),
    "one table for two": (("train", "twice.toml", "--ledgers", "new", *LIFE, "--force"), "the same table"),
    "a column that one lacks": (("train", "lacking.toml", "--ledgers", "new", *LIFE, "--force"), "'age' is missing"),
    "a target of text": (("train", "text.toml", "--ledgers", "new", *LIFE, "--force"), "classifier"),
    "a table that went away": (("train", "lost.toml", "--ledgers", "new", *LIFE, "--force"), "no such file"),
    "no table at all": (("train", "nodata.toml", "--ledgers", "new", *LIFE, "--force"), "owners.south.data"),
    "another public sample": (("forecast", "pinned.toml"), "SHA-256"),
    "no public sample there": (("forecast", "sampleless.toml"), "publik.csv"),
    "scales that were not asked for": (("column-stats", "terms.toml"), "scale_epsilon"),
    "learning before the scales": (
        ("train", "asking.toml", "--ledgers", "new", *LIFE, "--force"),
        "parley column-stats",
    ),
    "scales that nobody could read": (("column-stats", "faint.toml", "--ledgers", "new", *LIFE), "Nobody was asked"),
    "scales for terms that need a sample": (("column-stats", "walking.toml", "--ledgers", "new", *LIFE), "start"),
    "users of a model without any": (
        ("recommend", "model.json", "terms.toml", "--owner", "north", "--user", "1"),
        None,
    ),
    "a plant that is none": (("identify", "terms.toml"), "plant"),
    # books
    "no lifetime": (("train", "terms.toml", "--ledgers", "new"), "--lifetime 1 --lifetime-delta 1e-06"),
    "no lifetime, asked for before a table is read": (
        ("train", "lost.toml", "--ledgers", "new"),
        "--lifetime-delta 1e-06",
    ),
    "no lifetime delta": (("train", "terms.toml", "--ledgers", "new", "--lifetime", "1"), "--lifetime-delta 1e-06"),
    "a lifetime too short": (
        ("train", "terms.toml", "--ledgers", "new", "--lifetime", "0.5", *LIFE[2:]),
        "--lifetime 1",
    ),
    "a negative lifetime": (("train", "terms.toml", "--ledgers", "new", "--lifetime", "-1", *LIFE[2:]), "--lifetime"),
    "a file for the ledgers": (("train", "terms.toml", "--ledgers", "north.csv", *LIFE), "folder"),
    "ledgers under a file": (
        ("train", "otherwise.toml", "--ledgers", "north.csv/books", *LIFE, "--force"),
        "north.csv",
    ),
    "a ledger that is spent": (("train", "otherwise.toml", "--ledgers", "books", "--force"), "lifetime"),
    "another lifetime for a ledger": (
        ("train", "terms.toml", "--ledgers", "books", "--lifetime", "9", *LIFE[2:]),
        "lifetime",
    ),
    "a seed for a release": (("train", "terms.toml", "--ledgers", "books", "--seed", "1"), "--seed"),
    "books in the same place": (("owner", "init", "home", "--name", "north", "--table", "north.csv", *LIFE), "home"),
    "a hash of nothing": (("owner", "close", "abc", "--owner", "home/owner.toml", "--yes"), "abc"),
}


def test_at_least_forty():
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_and_costs_nothing(desk, mistake, monkeypatch):
    words, hint = MISTAKES[mistake]
    monkeypatch.chdir(desk)
    before = on_disk(desk)
    done = typed(*words)
    assert done.code == 2, done
    assert "Traceback" not in done.said
    assert done.out == "", done.out
    if "Usage:" not in done.said:  # what the parser of options says has a frame around it
        lines = [
            line
            for line in done.err.splitlines()
            if not re.match(r"(Check [\w.]+\.|The model is not worth spending budget on|No forecast|Note:)", line)
        ]
        assert len(lines) == 1, done.err
        assert lines[0].startswith("parley: "), done.err
    assert hint is None or hint in done.said, done.said
    assert on_disk(desk) == before


def test_a_ledger_of_another_table_is_refused(desk, monkeypatch, tmp_path):
    """The same terms, the same number of rows, other people."""
    monkeypatch.chdir(desk)
    table = pd.read_csv("north.csv")
    (desk / "aside.csv").write_bytes((desk / "north.csv").read_bytes())
    try:
        table.iloc[::-1].to_csv("north.csv", index=False)
        before = on_disk(desk / "books")
        done = typed("train", "terms.toml", "--ledgers", "books", "--force")
        assert done.code == 2
        assert "table" in done.said
        assert on_disk(desk / "books") == before
    finally:
        (desk / "aside.csv").replace(desk / "north.csv")
