import json

import pytest
from mutants import half_the_noise
from newcomer import typed
from samples import make_terms, regression_table

from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.terms import write_terms

WRITTEN = ("--report", "a.html", "--plot", "a.png")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_terms(make_terms(100, 80, learning__horizon=1), tmp_path / "terms.toml")
    return tmp_path


def test_an_audit_is_printed_drawn_and_written(folder):
    run = typed("audit", "terms.toml", "--runs", "4000", "--seed", "1", "--tries", "4", *WRITTEN)
    assert run.code == 0
    assert "No attack revealed more than the terms allow." in run.out
    assert "search for pairs" in run.out
    assert "Which pair of tables comes closest" in (folder / "a.html").read_text(encoding="utf-8")
    assert "<svg" in (folder / "a.html").read_text(encoding="utf-8")
    assert (folder / "a.png").stat().st_size > 10_000


def test_the_object_has_the_fields_that_programs_rely_on(folder):
    run = typed("audit", "terms.toml", "--runs", "4000", "--seed", "1", "--tries", "4", "--json")
    content = json.loads(run.out)
    assert content["inside"] is False
    assert [owner["name"] for owner in content["owners"]] == ["a", "b"]
    owner = content["owners"][0]
    assert 0.7 < owner["lower_bound"] <= owner["claimed_epsilon"] == 1
    assert owner["runs"] == 4000
    assert content["exact"][0]["kind"] == "gradient"
    assert 0.9 < content["exact"][0]["epsilon"] <= 1
    assert [(each["kind"], each["tried"], each["holds"]) for each in content["search"]] == [("gradient", 4, True)]
    assert content["hosts"] == []
    assert content["mutants"] == {"noise for 2 times the budget": True}


def test_a_broken_promise_ends_with_another_exit_code(folder):
    with half_the_noise():
        run = typed("audit", "terms.toml", "--runs", "4000", "--seed", "1", "--tries", "0")
    assert run.code == 1
    assert "Broken: the answers of a, b reveal more than the terms allow." in run.out


def test_mistakes_are_a_sentence(folder):
    run = typed("audit", "terms.toml", "--runs", "5")
    assert run.code == 2
    assert "runs = 5: expected a whole number >= 100" in run.err


@pytest.fixture
def model(folder):
    """A model beside its terms and its owner's table."""
    regression_table(100, seed=1).to_csv("a.csv", index=False)
    terms = make_terms(100, learning__horizon=2, model__holdout=0.5)
    write_terms(terms.changed(owners={"a": {"data": str(folder / "a.csv")}}), folder / "own.toml")
    assert typed("train", "own.toml", "--seed", "1", "--save", "model.json").code == 0
    return folder


def test_an_owner_audits_a_model_with_its_own_rows(model):
    few = ("--models", "8", "--seed", "1")
    run = typed("audit", "model.json", "--terms", "own.toml", *few, "--report", "a.html", "--plot", "a.svg")
    assert run.code == 0
    assert "Keep the findings on the owner's own machine" in " ".join(run.out.split())
    assert "signature" in (model / "a.html").read_text(encoding="utf-8")
    drawn = (model / "a.svg").read_text(encoding="utf-8")  # letters are drawn, the words are beside them
    assert f"For a alone. {KEEP_INSIDE_NOTE}" in drawn
    content = json.loads(typed("audit", "model.json", "--terms", "own.toml", *few, "--json").out)
    assert content["inside"] is True
    assert content["owner"] == "a"
    assert content["membership"]["claimed_epsilon"] == 1
    regression_table(60, seed=2).to_csv("others.csv", index=False)
    asked = ("--data", "a.csv", "--population", "others.csv", "--largest", "80", *few)
    content = json.loads(typed("audit", "model.json", *asked, "--json").out)
    assert content["membership"]["claimed_epsilon"] is None
    assert (content["records"], content["shadow_records"]) == (100, 80)


def test_what_belongs_to_a_model_is_asked_of_one(model):
    for words, said in (
        (("model.json",), "--population with other rows"),
        (("own.toml", "--data", "a.csv"), "allowed only when auditing a model"),
        (("own.toml", "--models", "9"), "allowed only when auditing a model"),
        (("own.toml", "--largest", "500"), "allowed only when auditing a model"),
        (("nothing.json", "--terms", "own.toml"), "no such file"),
        (("model.json", "--terms", "terms.toml"), "required for terms with several owners"),
        (("model.json", "--terms", "terms.toml", "--owner", "a", "--data", "a.csv"), "trained under other terms"),
    ):
        run = typed("audit", *words)
        assert run.code == 2
        assert said in run.said


@pytest.mark.parametrize(
    "words",
    [
        ("--runs", "200"),
        ("--poison",),
        ("--served", "new"),
        ("--tables", "2"),
        ("--program", "parley"),
        ("--at", "h:1"),
    ],
)
def test_what_belongs_to_terms_is_asked_of_them(words, tmp_path):
    (tmp_path / "model.json").touch()
    run = typed("audit", str(tmp_path / "model.json"), *words)
    assert run.code == 2
    assert f"{words[0]}: allowed only when auditing terms, not a model" in run.said


def test_what_liars_can_do_is_printed(folder):
    write_terms(make_terms(100, 80, 90, learning__horizon=1, model__features=["x0"]), folder / "terms.toml")
    run = typed("audit", "terms.toml", "--poison", "--report", "p.html")
    assert run.code == 0
    page = (folder / "p.html").read_text(encoding="utf-8")
    assert "Some lies cannot be detected" in page
    assert "mean (agreed)" in page
    assert "mean (agreed)" in run.out
    assert "Some lies cannot be detected" in run.out
    content = json.loads(typed("audit", "terms.toml", "--poison", "--json").out)
    assert content["inside"] is False
    assert {"mean", "median", "trimmed-mean", "geometric-median"} == {rule["rule"] for rule in content["rules"]}
    assert content["undetectable"] > 0


@pytest.mark.parametrize("option", [("--plot", "p.png"), ("--served", "there")])
def test_options_that_would_do_nothing_beside_lies_are_refused(folder, option):
    run = typed("audit", "terms.toml", "--poison", *option)
    assert run.code == 2
    assert "--poison: not allowed with --served or --plot" in run.said
    assert not (folder / option[1]).exists()
