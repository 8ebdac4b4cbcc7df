"""Trees that owners on this machine fill: how good they are, what they cost, saved, predicted with and scored."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from grove import COLOURS, grove, grove_content, grove_terms
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import TermsError
from parley.learning.outcome import load_model
from parley.learning.outcome.model import make_model
from parley.owner.acceptance_summary import acceptance_summary
from parley.owner.warnings import find_warnings, target_words
from parley.report.figures.shape_functions import shape_functions
from parley.tasks.trees.model import BoostedClassifier, BoostedRegressor, compared
from parley.terms import write_terms


def owners_of(sizes, classes=True):
    return [parley.Owner(name, grove(rows, seed, classes)) for seed, (name, rows) in enumerate(sizes.items())]


def log_loss(model, frame):
    p = model.predict_proba(frame)[np.arange(len(frame)), frame["y"].astype(int)]
    return -float(np.log(p).mean())


def best(frame):
    """The loss of the probabilities that the targets were drawn with, and of their mean alone."""
    age = frame["age"].fillna(1e9)
    score = 2 * np.exp(-(((age - 40) / 15) ** 2)) - 1 + frame["colour"].map({"red": 1.0, "blue": -1.0}).fillna(0.0)
    p = 1 / (1 + np.exp(-score))
    q = frame["y"].mean()
    return (
        float(-np.log(np.where(frame["y"] > 0, p, 1 - p)).mean()),
        float(-(q * math.log(q) + (1 - q) * math.log(1 - q))),
    )


def test_planted_shapes_are_found_at_a_small_epsilon():
    """Most of what can be known is, in each of four runs; what adds nothing is left flat."""
    terms, fresh = grove_terms({"a": 20000}, 0.5), grove(20000, 99)
    result = parley.train(terms, owners_of({"a": 20000}), replicates=4, seed=0)
    least, most = best(fresh)
    for theta in result.theta:
        model = make_model(result.model.preparation_, theta, "", False)
        assert (log_loss(model, fresh) - least) / (most - least) < 0.15
        shapes = {shape.column: shape for shape in model.shapes()}
        assert 25 < shapes["age"].cuts[np.argmax(shapes["age"].steps)] < 50
        assert np.ptp(shapes["idle"].steps) < 0.3 * np.ptp(shapes["age"].steps)
        by_name = dict(zip(shapes["colour"].names, shapes["colour"].of_names, strict=True))
        assert by_name["red"] > by_name["others"] > by_name["blue"]
    assert result.quality is not None
    assert result.relative_fitness is None


def test_noise_of_a_smaller_epsilon_costs_more():
    """The mutant of the one above: at a hundredth of the budget nothing is left."""
    fresh = grove(20000, 99)
    least, most = best(fresh)
    result = parley.train(grove_terms({"a": 20000}, 0.005), owners_of({"a": 20000}), seed=0)
    assert (log_loss(result.model, fresh) - least) / (most - least) > 0.5


def test_numbers_are_predicted_in_their_own_units():
    terms, fresh = grove_terms({"a": 20000}, 1.0, classes=False, model={"holdout": 0.2}), grove(5000, 99, False)
    result = parley.train(terms, owners_of({"a": 20000}, classes=False), seed=0)
    assert isinstance(result.model, BoostedRegressor)
    error = fresh["y"] - result.model.predict(fresh)
    assert np.sqrt(np.mean(error**2)) < 0.6  # 0.5 is noise, and without trees it is 1.1
    assert result.metrics["r2"] == pytest.approx(1 - np.var(error) / np.var(fresh["y"]), abs=0.05)


def test_one_noise_for_all_is_that_of_one_owner():
    """Three owners of 4,000 rows: with one noise they come close to one owner of 12,000, each alone with its own noise
    does not."""
    fresh, sizes = grove(10000, 99), dict.fromkeys("abc", 4000)
    losses = {}
    for noise in ("shared", "each-owner"):
        result = parley.train(grove_terms(sizes, 0.5, noise=noise), owners_of(sizes), replicates=4, seed=1)
        made = [make_model(result.model.preparation_, t, "", False) for t in result.theta]
        losses[noise] = np.mean([log_loss(model, fresh) for model in made])
    assert losses["shared"] < losses["each-owner"]


def test_pairs_find_what_columns_alone_do_not():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (20000, 2))
    frame = pd.DataFrame({"u": x[:, 0], "v": x[:, 1], "y": (x[:, 0] * x[:, 1] > 0) ^ (rng.random(20000) < 0.1)})
    content = grove_content({"a": 20000}, 4.0, learning={"horizon": 41})
    content["model"] = {"kind": "boosted-classification", "target": "y", "bounds": {"u": [-1, 1], "v": [-1, 1]}}
    right = {}
    for depth in (1, 2):
        content["model"]["depth"] = depth
        model = parley.train(parley.Terms.from_dict(content), [parley.Owner("a", frame)], seed=0).model
        right[depth] = (model.predict(frame) == frame["y"]).mean()
    assert right[1] < 0.6
    assert right[2] > 0.75


def test_saved_read_and_asked_by_place_it_is_the_same_model(tmp_path):
    frame = grove(2000, 0)
    model = parley.train(grove_terms({"a": 2000}, 5.0), [parley.Owner("a", frame)], seed=0).model
    model.save(tmp_path / "model.json")
    again = load_model(tmp_path / "model.json")
    assert isinstance(again, BoostedClassifier)
    assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))
    codes = frame["colour"].map({name: k for k, name in enumerate(COLOURS)}).fillna(len(COLOURS))
    raw = np.column_stack([frame["age"], frame["idle"], codes])
    assert np.array_equal(again.predict_proba(raw), model.predict_proba(frame))
    assert again.intercept_ == model.theta_[0]


def test_rows_without_a_target_count_and_say_nothing():
    frame = grove(3000, 0)
    some = frame.assign(y=frame["y"].where(np.arange(3000) % 3 > 0))
    terms = grove_terms({"a": 3000}, 1e6, learning={"horizon": 4})
    found = parley.train(terms, [parley.Owner("a", some)], seed=0).theta[0]
    kept = grove_terms({"a": 2000}, 1e6, learning={"horizon": 4})
    wanted = parley.train(kept, [parley.Owner("a", some.dropna(subset="y"))], seed=0).theta[0]
    # the level counts all records, so that it is shrunk; the leaves make up for it but for their priors
    assert found[0] + found[1:].mean() == pytest.approx(wanted[0] + wanted[1:].mean(), abs=0.3)
    assert np.corrcoef(found[1:], wanted[1:])[0, 1] > 0.98


def test_a_folder_that_is_streamed_is_placed_alike(tmp_path):
    frame = grove(500, 0)
    (tmp_path / "parts").mkdir()
    for place in range(5):
        frame.iloc[100 * place : 100 * place + 100].to_parquet(tmp_path / "parts" / f"{place}.parquet")
    terms = grove_terms({"a": 500}, model={"holdout": 0.2})
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=5.0, lifetime_delta="1e-5")
    streamed = parley.Owner("a", tmp_path / "parts", ledger=ledger).prepare(terms).tables
    whole = parley.Owner("a", frame).prepare(terms).tables
    for part in ("train", "held_out"):
        for key in ("X", "y", "present"):
            assert np.array_equal(getattr(getattr(streamed, part), key), getattr(getattr(whole, part), key))
    ledger.close()


def test_acceptance_says_what_a_tree_is_and_what_a_person_moves(tmp_path):
    terms = grove_terms({"a": 200}, classes=False)
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=5.0, lifetime_delta="1e-5")
    owner = parley.Owner("a", grove(200, 0, False), ledger=ledger)
    said = " ".join(acceptance_summary(owner, owner.prepare(terms)))
    for words in (
        "boosted-regression from the columns age, idle, colour, y",
        "A round is one tree, with a leaf for each of 10 equal steps",
        "no row influences them",
        "the sums of errors and curvatures over 200 records in the leaves of one tree",
        "An error counts at most 2",
        "at most 0.01001 in L2",
        "A missing cell of age, idle, colour has a leaf of its own",
    ):
        assert words in said, said
    ledger.close()


def test_ranges_and_names_that_do_not_fit_the_table_are_doubted(tmp_path):
    ledger = parley.Ledger(tmp_path / "a.ledger", lifetime=99.0, lifetime_delta="1e-5")
    owner = parley.Owner("a", grove(200, 0), ledger=ledger)
    assert find_warnings(owner, owner.prepare(grove_terms({"a": 200}))) == []
    model = {"bounds": {"age": [0.0, 0.01], "idle": [-3.0, 3.0]}, "categories": {"colour": ["mauve", "teal"]}}
    said = [each.about for each in find_warnings(owner, owner.prepare(grove_terms({"a": 200}, 50.0, model=model)))]
    assert said == ["model.bounds.age", "owners.a.epsilon", "model.categories.colour"]
    ledger.close()


@pytest.fixture
def folder(tmp_path):
    for seed, name in enumerate("ab"):
        grove(600, seed).to_csv(tmp_path / f"{name}.csv", index=False)
    terms = grove_terms({"a": 600, "b": 600}, 4.0, model={"holdout": 0.25})
    write_terms(
        terms.changed(owners={name: {"data": str(tmp_path / f"{name}.csv")} for name in "ab"}), tmp_path / "terms.toml"
    )
    return tmp_path


def asked(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def test_commands_train_score_and_predict(folder):
    told = json.loads(asked("train", folder / "terms.toml", "--seed", 1, "--save", folder / "m.json", "--json"))
    assert 0.55 < told["metrics"]["auc"] <= 1
    assert [owner["epsilon_spent"] for owner in told["owners"]] == [4.0, 4.0]
    assert "training cost" in asked("train", folder / "terms.toml", "--seed", 1)
    scored = json.loads(asked("score", folder / "m.json", folder / "terms.toml", "--all", "--json"))
    assert [owner["rows"] for owner in scored["owners"]] == [150, 150]
    assert scored["owners"][0]["alone"]["auc"] > 0.5
    assert "Better for a's own rows: " in asked("score", folder / "m.json", folder / "terms.toml", "--owner", "a")
    asked("predict", folder / "m.json", folder / "a.csv", "--out", folder / "out.csv")
    made = pd.read_csv(folder / "out.csv")
    assert made["probability_1"].between(0, 1).all()
    assert set(made["predicted_y"]) <= {0, 1}


def test_commands_release_with_ledgers_and_go_on_for_free(folder):
    words = ["train", folder / "terms.toml", "--ledgers", folder, "--json"]
    told = json.loads(asked(*words, "--lifetime", 5, "--lifetime-delta", 1e-5, "--save", folder / "m.json"))
    assert told["released"]
    assert told["metrics"] == {}
    assert json.loads(asked(*words))["theta"] == told["theta"]
    assert load_model(folder / "m.json").released_


@pytest.mark.parametrize(
    "words", [("forecast",), ("plan",), ("negotiate",), ("refine", "MODEL", "--owner", "a", "--save", "own.json")]
)
def test_what_trees_cannot_do_yet_is_refused_in_a_sentence(folder, words):
    asked("train", folder / "terms.toml", "--seed", 1, "--save", folder / "m.json")
    command, *rest = words
    rest = [str(folder / "m.json") if word == "MODEL" else word for word in rest]
    before, after = (rest[:1], rest[1:]) if command == "refine" else ([], rest)
    done = CliRunner().invoke(app, [command, *before, str(folder / "terms.toml"), *after])
    assert done.exit_code != 0
    said = done.output + str(done.exception)
    assert "boosted trees" in " ".join(said.split()), said


def test_the_sentence_of_python_is_the_same():
    with pytest.raises(TermsError, match="boosted trees cannot be forecast"):
        parley.forecast(grove_terms({"a": 100}))


def test_hosts_release_one_noise_for_all(tmp_path):
    """Three hosts in this process add up shares of exact sums, and draw one noise: debited, and the same when it is
    asked for again."""
    terms = grove_terms(dict.fromkeys("abc", 60), 2.0, noise="shared", learning={"horizon": 4})
    frames = {name: grove(60, seed) for seed, name in enumerate("abc")}
    ledgers = {n: parley.Ledger(tmp_path / f"{n}.ledger", lifetime=3.0, lifetime_delta="1e-5") for n in "abc"}
    owners = [parley.Owner(name, frames[name], ledger=ledgers[name]) for name in "abc"]
    for owner in owners:
        owner.accept(terms)
    result = parley.train(terms, owners)
    assert result.released
    assert [owner.epsilon_spent for owner in result.owners] == [2.0] * 3
    for ledger in ledgers.values():
        ledger.close()


def test_a_figure_has_a_panel_for_each_column(folder):
    asked("train", folder / "terms.toml", "--seed", 1, "--plot", folder / "shapes.png")
    assert (folder / "shapes.png").stat().st_size > 10_000
    model = parley.train(parley.load_terms(folder / "terms.toml"), owners_of({"a": 600, "b": 600}), seed=0).model
    titles = [panel.get_title(loc="left") for panel in shape_functions(model).axes]
    assert sorted(titles) == ["age", "colour", "idle"]


@pytest.mark.parametrize("by_person", [False, True])
def test_rows_without_a_target_are_counted_once(by_person):
    """People who are held out are on both sides: their rows have a target on one of them."""
    table = grove(60, 1).assign(who=np.arange(60) // 2)
    terms = grove_terms(
        {"a": 60},
        model={"features": ["age", "idle", "colour"], "holdout": 0.25}
        | ({"holdout_by": "person"} if by_person else {}),
        privacy={"person": "who", "records_per_person": 2},
    )
    full = parley.Owner("a", table)
    assert target_words(full, full.prepare(terms)) is None
    table.loc[[3, 10, 11], "y"] = np.nan
    owner = parley.Owner("a", table)
    assert target_words(owner, owner.prepare(terms)).startswith("In your table 3 of 60 rows have no target")


@pytest.mark.parametrize("keys", [{"hosts_may_cheat": True, "check_answers": True}, {"draw": "together"}])
def test_a_model_of_hosts_is_compared_with_trees_of_ones_own(keys):
    """Terms of the owner alone have no hosts, and nothing that only hosts can do."""
    terms = grove_terms({"a": 200, "b": 200}, 2.0, noise="shared", model={"holdout": 0.3}, learning={"horizon": 5})
    terms = terms.changed(privacy=keys, hosts=("h0", "h1") if "draw" in keys else ("h0", "h1", "h2"))
    owners = owners_of({"a": 200, "b": 200})
    model = parley.train(terms, owners, seed=0).model
    rows, metrics = compared(terms, owners[0], model)
    assert rows > 0
    assert set(metrics) == {"together", "alone"}
