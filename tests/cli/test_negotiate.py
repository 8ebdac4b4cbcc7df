import json

import pytest
from samples import make_terms, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.terms import load_terms, write_terms

TERMS = """
title = 'Two "small" shops'
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
public = "public.csv"
bounds = { "x0" = [-1.0, 1.0] }
holdout = 0.2
[learning]
horizon = 60
step = 0.5
quorum = 3
[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 20.0
[[owners]]
name = "a"
records = 300
epsilon = 1.0
value = 1000.0
privacy_cost = { kind = "linear", weight = 0.01 }
data = "a.csv"
[[owners]]
name = "b"
records = 200
epsilon = 1.0
value = 1000.0
privacy_cost = { kind = "posterior", weight = 0.02 }
data = "b.csv"
[[owners]]
name = "shy"
records = 200
epsilon = 1.0
value = 1.0
privacy_cost = { kind = "exponential", weight = 1e7 }
data = "shy.csv"
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "terms.toml").write_text(TERMS)
    regression_table(40, seed=9).to_csv(tmp_path / "public.csv", index=False)  # more would leave nothing to gain
    for seed, (name, rows) in enumerate({"a": 300, "b": 200, "shy": 200}.items()):
        regression_table(rows, seed=seed).to_csv(tmp_path / f"{name}.csv", index=False)
    return tmp_path


def test_budgets_payments_and_a_terms_file_that_trains(folder):
    (folder / "out").mkdir()
    arguments = [
        "negotiate",
        str(folder / "terms.toml"),
        "--target",
        "1.0",
        "--json",
        "--write",
        str(folder / "out" / "agreed.toml"),
    ]
    run = CliRunner().invoke(app, [*arguments, "--plot", str(folder / "n.png")])
    assert run.exit_code == 0, run.output
    content = json.loads(run.stdout)
    assert content["adjacency"] == "replace-one"
    assert content["relative_fitness"] <= 1.0 * (1 + 1e-9)
    assert content["largest_gain"] < 1e-6
    joined = {owner["name"]: owner for owner in content["owners"] if owner["participates"]}
    assert set(joined) == {"a", "b"}
    agreed = parley.load_terms(folder / "out" / "agreed.toml")
    assert [part.name for part in agreed.owners] == ["a", "b"]
    for part in agreed.owners:
        assert part.epsilon == pytest.approx(joined[part.name]["epsilon"], rel=1e-5)
    assert agreed.learning.quorum == 2
    assert agreed.title == 'Two "small" shops'
    trained = CliRunner().invoke(
        app, ["train", str(folder / "out" / "agreed.toml"), "--replicates", "60", "--seed", "1", "--json"]
    )
    assert trained.exit_code == 0, trained.output
    assert json.loads(trained.stdout)["relative_fitness"]["mean"] == pytest.approx(content["relative_fitness"], rel=0.5)
    assert (folder / "n.png").stat().st_size > 10_000


def test_the_table_says_who_stays_out_and_that_it_was_checked(folder):
    run = CliRunner().invoke(app, ["negotiate", str(folder / "terms.toml"), "--target", "1.0"])
    assert run.exit_code == 0, run.output
    assert "stays out" in run.output
    assert "Parley checked" in run.output
    assert "state their values truthfully" in " ".join(run.output.split())


def test_with_one_noise_the_table_says_where_each_owner_stands(folder):
    shared = TERMS.replace("clip = 20.0", 'clip = 20.0\nnoise = "shared"') + "".join(
        f'[[hosts]]\nname = "{n}"\n' for n in ("a", "b", "x")
    )
    (folder / "shared.toml").write_text(shared.replace("quorum = 3\n", ""))
    drawn = ["--plot", str(folder / "s.png"), "--plot-owners", str(folder / "o.png")]
    options = ["negotiate", str(folder / "shared.toml"), "--target", "1.0"]
    run = CliRunner().invoke(app, [*options, "--write", str(folder / "agreed.toml"), *drawn])
    assert run.exit_code == 0, run.output
    words = " ".join(run.output.split())
    assert "Common ε that each owner prefers and accepts" in words
    assert "the test cost is lowest" in words
    assert all((folder / name).stat().st_size > 10_000 for name in ("s.png", "o.png"))
    agreed = parley.load_terms(folder / "agreed.toml")
    assert agreed.noise.summed
    assert len({part.epsilon for part in agreed.owners}) == 1
    content = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    assert content["common_epsilon"] == pytest.approx(agreed.owners[0].epsilon, rel=1e-5)
    assert {"equilibria", "standings", "best_coalition"} <= set(content)


def test_mistakes_are_sentences(folder):
    (folder / "poor.toml").write_text(TERMS.replace("value = 1.0\n", ""))
    run = CliRunner().invoke(app, ["negotiate", str(folder / "poor.toml")])
    assert "owners.shy: value is missing" in str(run.exception)
    assert "Joining is worthwhile for an owner if" in " ".join(run.output.split())
    options = ("--value", "1", "--privacy-cost", "9")
    run = CliRunner().invoke(app, ["negotiate", str(folder / "poor.toml"), *options])
    assert run.exit_code == 0
    run = CliRunner().invoke(app, ["negotiate", str(folder / "terms.toml"), "--balanced"])
    assert "only with --target" in str(run.exception)
    run = CliRunner().invoke(app, ["negotiate", str(folder / "terms.toml"), "--target", "1e-9"])
    assert "best relative fitness is" in str(run.exception)
    run = CliRunner().invoke(app, ["negotiate", str(folder / "terms.toml"), "--write", str(folder / "none" / "x.toml")])
    assert "folder of this file does not exist" in str(run.exception)
    (folder / "dear.toml").write_text(TERMS.replace("weight = 0.0", "weight = 1000.0"))
    run = CliRunner().invoke(app, ["negotiate", str(folder / "dear.toml"), "--write", str(folder / "x.toml")])
    assert "no owner joins" in str(run.exception)
    assert "in its best coalition" in run.output
    assert not (folder / "x.toml").exists()


def test_where_nobody_joins_the_page_says_what_each_wanted_and_what_would_move_them(folder):
    """What an owner lacks is what brings it in: paid a little more than that it would do better than alone; a little
    less, worse."""
    dear = TERMS.replace("epsilon = 1.0", "epsilon = 5.0").replace("weight = 0.0", "weight = 200.0")
    (folder / "dear.toml").write_text(dear)
    run = CliRunner().invoke(app, ["negotiate", str(folder / "dear.toml")])
    words = " ".join(run.output.split())
    assert words.startswith("No owner joins: no coalition exists in which every member does better than alone.")
    assert "in its best coalition, with the budget that it prefers" in words
    assert "parley negotiate TERMS --target 0.01" in words
    content = json.loads(CliRunner().invoke(app, ["negotiate", str(folder / "dear.toml"), "--json"]).stdout)
    found = {wish["name"]: wish for wish in content["wishes"]}
    assert set(found) == {"a", "b", "shy"}
    for wish in found.values():
        assert wish["short"] == pytest.approx(max(wish["privacy_cost"] - wish["worth"], 0.0))
        assert wish["worth"] <= wish["most"] * (1 + 1e-9)
        assert f"{wish['name']} " in words
    assert found["a"]["most"] > 0
    assert "can gain only if its total privacy cost is below" in words or "is nearest to joining" in words
    joined = json.loads(
        CliRunner().invoke(app, ["negotiate", str(folder / "terms.toml"), "--target", "1.0", "--json"]).stdout
    )
    assert joined["wishes"] is None


def test_help_teaches():
    assert "Example" in CliRunner().invoke(app, ["negotiate", "--help"]).output


def test_written_terms_are_read_back_the_same(folder):
    terms = parley.load_terms(folder / "terms.toml")
    write_terms(terms, folder / "again.toml")
    assert parley.load_terms(folder / "again.toml") == terms
    assert parley.load_terms(folder / "again.toml").hash == terms.hash


def test_terms_written_keep_every_character(tmp_path):
    """Names and titles in any script survive the way to a file and back."""
    terms = make_terms(10).changed(title='😀 Größe\x7f "quoted" \\ 合意')
    write_terms(terms, tmp_path / "terms.toml")
    assert load_terms(tmp_path / "terms.toml").title == terms.title


def test_truthful_payments_stand_beside_contracts(folder):
    """The JSON's spends are sums of its payments, what is written are the truthful budgets, and one that overstates
    its cost is not better off; by a contract it is."""
    options = ["negotiate", str(folder / "terms.toml"), "--target", "1.0", "--truthful", "--max-price", "5"]
    run = CliRunner().invoke(app, [*options, "--write", str(folder / "agreed.toml")])
    assert run.exit_code == 0, run.output
    words = " ".join(run.output.split())
    assert "Contracts (c) and truthful payments (t)" in words
    assert "no owner gains by stating a false cost" in words
    content = json.loads(CliRunner().invoke(app, [*options, "--json"]).stdout)
    truthful = content["truthful"]
    assert truthful["relative_fitness"] <= 1.0
    for deal in (truthful, truthful["contracts"]):
        assert deal["spend"] == pytest.approx(sum(owner["payment"] for owner in deal["owners"]))
        assert all(owner["payoff"] >= 0 for owner in deal["owners"])
    assert truthful["contracts"]["spend"] == pytest.approx(content["spend"])
    budgets = {owner["name"]: owner["epsilon"] for owner in truthful["owners"] if owner["participates"]}
    agreed = parley.load_terms(folder / "agreed.toml")
    assert {part.name: part.epsilon for part in agreed.owners} == pytest.approx(budgets, rel=1e-5)
    (folder / "false.toml").write_text(TERMS.replace("weight = 0.01", "weight = 0.03"))
    false = json.loads(CliRunner().invoke(app, [options[0], str(folder / "false.toml"), *options[2:], "--json"]).stdout)
    profits = []
    for told in (false["truthful"], false["truthful"]["contracts"]):
        liar = told["owners"][0]  # its payoff is by the stated cost; by the true one it keeps the difference, too
        true = content["truthful"] if told is false["truthful"] else content["truthful"]["contracts"]
        profits.append(liar["payoff"] + 0.02 * liar["epsilon"] - true["owners"][0]["payoff"])
    assert profits[0] <= 1e-9
    assert profits[1] > 0.01


def test_truthful_payments_are_refused_where_they_do_not_exist(folder):
    terms = str(folder / "terms.toml")
    assert "allowed only with --truthful" in str(
        CliRunner().invoke(app, ["negotiate", terms, "--max-price", "5"]).exception
    )
    run = CliRunner().invoke(app, ["negotiate", terms, "--truthful", "--target", "1.0", "--balanced"])
    assert "not allowed with --balanced" in str(run.exception)
    run = CliRunner().invoke(app, ["negotiate", terms, "--truthful", "--target", "0.5"])
    assert run.exit_code == 0 or "could ask for any price" in str(run.exception)
    shared = TERMS.replace("clip = 20.0", 'clip = 20.0\nnoise = "shared"').replace("quorum = 3\n", "")
    (folder / "shared.toml").write_text(shared + "".join(f'[[hosts]]\nname = "{n}"\n' for n in ("a", "b", "x")))
    run = CliRunner().invoke(app, ["negotiate", str(folder / "shared.toml"), "--truthful"])
    assert "truthful payments need a separate" in str(run.exception)
