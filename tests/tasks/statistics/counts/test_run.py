"""Counts asked of owners: simulated, released and debited, with one noise, by randomised response, and as typed."""

import json
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import Refusal, SettingError
from parley.owner.acceptance_summary import acceptance_summary
from parley.protocol.setup import resolve
from parley.tasks.statistics.counts.commands import noise_words
from parley.tasks.statistics.counts.run import ask_counts, sum_law
from parley.terms import write_terms

SIZES = {"a": 400, "b": 600}
GRADES = ["A", "B", "C"]


def table(name):
    rng = np.random.default_rng(len(name) + SIZES[name])
    return pd.DataFrame({"grade": rng.choice([*GRADES, "D"], SIZES[name], p=[0.5, 0.3, 0.15, 0.05])})


def terms(kind="histogram", epsilon=1.0, **privacy):
    return parley.Terms.from_dict(
        {
            "title": "Grades",
            "model": {"kind": kind, "target": "grade", "categories": {"grade": GRADES if kind != "count" else ["A"]}},
            "privacy": {"mechanism": "geometric", **privacy},
            "owners": [{"name": name, "records": rows, "epsilon": epsilon} for name, rows in SIZES.items()],
            "hosts": [{"name": name} for name in ("a", "b", "h")] if privacy.get("noise") == "shared" else [],
        }
    )


def studied(asked, seed=0):
    return ask_counts(asked, [parley.Owner(name, table(name)) for name in SIZES], seed=seed)


@pytest.fixture(scope="module")
def truth():
    every = pd.concat([table(name) for name in SIZES])["grade"]
    return np.array([(every == grade).sum() for grade in [*GRADES, "D"]])


@pytest.mark.parametrize(
    "privacy",
    [
        {},
        {"noise": "shared", "delta": 1e-6},
        {"mechanism": "gaussian", "delta": 1e-6},
        {"mechanism": "randomised-response"},
    ],
)
def test_noise_of_every_kind_has_the_deviation_that_is_stated(privacy, truth):
    """20 runs of 4 cells: the mean square is within 4 standard errors of the stated variance; answers of records have
    less, for theirs is the largest possible."""
    asked = terms(**privacy)
    runs = [studied(asked, seed) for seed in range(20)]
    errors = np.array([[cell.noisy for cell in run.cells] for run in runs]) - truth
    seen, claimed = (errors**2).mean(), runs[0].deviation ** 2
    spread = 4 * (errors**2).std() / errors.size**0.5
    assert seen < claimed + spread
    assert seen > claimed - spread or privacy.get("mechanism") == "randomised-response"
    inside = np.mean([[c.low <= t <= c.high for c, t in zip(run.cells, truth, strict=True)] for run in runs])
    assert inside > 0.88
    whole = all(cell.noisy == round(cell.noisy) for cell in runs[0].cells)
    assert whole or privacy
    assert set(runs[0].owners) == (set() if privacy.get("noise") else {"a", "b"})


@pytest.mark.parametrize("epsilon", [1e-6, 1e3])
@pytest.mark.parametrize(
    "privacy", [{}, {"mechanism": "gaussian", "delta": 1e-6}, {"mechanism": "randomised-response"}]
)
def test_far_too_little_and_far_too_much_noise_are_counts_all_the_same(epsilon, privacy, truth):
    for cell, true in zip(studied(terms(epsilon=epsilon, **privacy), 3).cells, truth, strict=True):
        assert 0 <= cell.low <= cell.high <= 1000
        assert 0 <= cell.guess <= 1000
        assert epsilon < 1 or (cell.guess == true and cell.low <= true <= cell.high)


def test_own_noise_adds_up_and_one_noise_does_not():
    own, one = (sum_law(resolve(terms(**privacy)))[1] for privacy in ({}, {"noise": "shared", "delta": 1e-6}))
    assert own == pytest.approx(2**0.5 * one, rel=0.02)
    count = sum_law(resolve(terms("count")))[1]
    assert count < own / 1.9  # sensitivity 1, not 2


def test_the_noise_of_two_hosts_is_the_sum_of_two():
    """Its law has less in the tails than one geometric number of the same variance."""
    two = terms(noise="shared", delta=1e-6).changed(hosts=("a", "h"))
    law, deviation = sum_law(resolve(two))
    places = np.arange(-law.reach, law.reach + 1)
    moments = [law.chances @ places.astype(float) ** power for power in (2, 4)]
    assert moments[0] == pytest.approx(deviation**2, rel=0.03)
    assert moments[1] / moments[0] ** 2 == pytest.approx(4.5, rel=0.05)  # of one: 6


def test_steps_say_which_end_is_theirs():
    content = {"kind": "histogram", "target": "age", "bounds": {"age": [0, 40]}, "bins": 4}
    owners = [{"name": "a", "records": 4, "epsilon": 1.0}]
    asked = parley.Terms.from_dict({"model": content, "owners": owners})
    found = ask_counts(asked, [parley.Owner("a", pd.DataFrame({"age": [0, 10, 20, 40]}))], seed=0)
    assert "its lower end but not its upper end" in noise_words(found)
    assert "lower end" not in noise_words(studied(terms()))


def test_a_release_is_debited_once_and_asked_again_it_is_the_same(tmp_path, truth):
    asked = terms()
    owners = []
    for name in SIZES:
        owner = parley.Owner(name, table(name), ledger=parley.Ledger(tmp_path / f"{name}.ledger", 3.0))
        owner.accept(asked)
        owners.append(owner)
    first, again = ask_counts(asked, owners), ask_counts(asked, owners, rate=0.25)
    assert first.released
    assert first.spent == {"a": 1.0, "b": 1.0}
    assert [cell.noisy for cell in again.cells] == [cell.noisy for cell in first.cells]
    assert owners[0].ledger.account(asked.hash).spent == Fraction(1)
    assert sum(abs(np.array([cell.noisy for cell in first.cells]) - truth)) < 40 * first.deviation
    said = " ".join(acceptance_summary(owners[0], owners[0].agreement(asked.hash)))
    assert "how many records lie in each cell of the column grade: A, B, C, elsewhere" in said
    assert "moves the counts by at most 2 in all" in said
    with pytest.raises(SettingError, match="seed"):
        ask_counts(asked, owners, seed=1)
    other = asked.changed(owners={"a": {"epsilon": 2.5}, "b": {"epsilon": 2.5}})
    with pytest.raises(Refusal):
        owners[0].accept(other)


def test_one_noise_is_drawn_by_hosts(tmp_path):
    asked = terms("count", noise="shared", delta=1e-6)
    owners = []
    for name in SIZES:
        owner = parley.Owner(name, table(name), ledger=parley.Ledger(tmp_path / f"{name}.ledger", 3.0, 1e-5))
        owner.accept(asked)
        owners.append(owner)
    found = ask_counts(asked, owners)
    true = sum((table(name)["grade"] == "A").sum() for name in SIZES)
    assert abs(found.cells[0].noisy - true) < 25 * found.deviation
    assert found.owners == {}


@pytest.fixture
def typed_terms(tmp_path):
    asked = terms(mechanism="randomised-response")
    for name in SIZES:
        table(name).to_csv(tmp_path / f"{name}.csv", index=False)
        asked = asked.changed(owners={name: {"data": str(tmp_path / f"{name}.csv")}})
    write_terms(asked, tmp_path / "terms.toml")
    return tmp_path / "terms.toml"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_as_people_type_it(typed_terms):
    picture = typed_terms.with_name("counts.png")
    plain = run("count", typed_terms, "--seed", 1, "--plot", picture)
    assert plain.exit_code == 0, plain.output
    assert "best guess" in plain.stdout
    assert "Simulation, not a release" in plain.stdout
    assert picture.stat().st_size > 5000
    found = json.loads(run("count", typed_terms, "--seed", 1, "--rate", "0.25", "--json").stdout)
    assert [cell["cell"] for cell in found["cells"]] == [*GRADES, "elsewhere"]
    assert found["adjacency"] == "replace-one"
    assert found["rate"] == 0.25
    released = run("count", typed_terms, "--ledgers", typed_terms.parent / "books", "--lifetime", "2", "--json")
    assert json.loads(released.stdout)["spent"] == {"a": 1.0, "b": 1.0}
    said = run("count", "--help").stdout
    assert "Example" in said
    assert "model.kind" in said
    assert "bounds.grade" in said


def test_a_picture_of_no_known_kind_is_refused_before_anybody_is_asked(typed_terms):
    books = typed_terms.parent / "books"
    refused = run("count", typed_terms, "--ledgers", books, "--lifetime", "2", "--plot", typed_terms.parent / "c.doc")
    assert "choose a file name that ends in" in str(refused.exception)
    assert not books.exists()


@pytest.mark.parametrize("rate", ["1.5", "0", "nan"])
def test_a_rate_that_is_no_share_is_refused_before_anybody_is_asked(typed_terms, rate):
    books = typed_terms.parent / "books"
    refused = run("count", typed_terms, "--ledgers", books, "--lifetime", "2", "--rate", rate)
    assert "expected a number between 0 and 1" in str(refused.exception)
    assert not books.exists()
    with pytest.raises(SettingError, match="number between"):
        ask_counts(terms(), [], rate=float(rate))


def test_other_terms_and_other_commands_say_what_to_do(typed_terms):
    assert "parley count runs them" in str(run("train", typed_terms).exception)
    text = typed_terms.read_text()
    other = typed_terms.with_name("other.toml")
    other.write_text(
        '[model]\nkind = "linear-svm"\ntarget = "y"\n[privacy]\nclip = 1.0\n' + text[text.index("[[owners") :]
    )
    assert "expected 'count' or 'histogram'" in str(run("count", other).exception)
