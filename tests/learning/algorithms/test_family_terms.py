"""Terms of the federated family: what they may say, and what training by them is."""

import json

import numpy as np
import pytest
from federated import CORRECTED, EXACT, FAMILY, UNEQUAL, different_tables, family_terms, quiet_run
from samples import iris_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.errors import TermsError
from parley.protocol.setup import resolve
from parley.protocol.stages import make_schedule

TABLES = different_tables()


@pytest.mark.parametrize(
    ("name", "changes", "match"),
    [
        ("fedprox", {"learning__proximal": None}, r"learning\.proximal: expected a number"),
        ("fedsplit", {"learning__proximal": None}, r"learning\.proximal: expected a number"),
        (
            "fednova",
            {"learning__proximal": 1.0},
            r"learning\.proximal: allowed only with algorithm = 'fedprox' or 'fedsplit'",
        ),
        ("fedprox", {"learning__proximal": 0.0}, r"learning\.proximal = 0\.0: expected a number > 0"),
        ("fedprox", {"learning__proximal": float("nan")}, r"learning\.proximal = nan: expected"),
        (
            "fedprox",
            {"learning__proximal": 1e300},
            r"learning\.proximal = 1e\+300: expected a number from 1e-50 to 1e\+50",
        ),
        (
            "fedlin",
            {"learning__variates": "gradients"},
            r"learning\.variates: allowed only with algorithm = 'scaffold'",
        ),
        ("fedlin", {"learning__horizon": 5}, r"learning\.horizon: expected an even number"),
        ("scaffold, gradients", {"learning__horizon": 5}, r"learning\.horizon: expected an even number"),
        (
            "scaffold",
            {"model__kind": "linear-svm", "model__bounds": {}},
            "scaffold is not available for linear-svm",
        ),
        ("fedsplit", {"model__radius": None}, r"model\.radius: expected a number with fedsplit"),
    ],
)
def test_terms_that_make_no_sense_are_refused(name, changes, match):
    with pytest.raises(TermsError, match=match):
        family_terms(name, **changes)


def test_owners_take_local_steps_only_where_they_are_asked():
    with pytest.raises(TermsError, match=r"owners\.local_steps: allowed only"):
        family_terms("fednova").changed(learning={"algorithm": "gradient-descent", "local_steps": None}, owners=UNEQUAL)
    plain = family_terms("fedprox", own=UNEQUAL).changed(
        learning={"algorithm": "averaged-subgradient", "local_steps": None}
    )
    assert plain.learning.proximal is None
    assert not plain.uneven
    assert family_terms("fednova", own=UNEQUAL).changed(learning={"algorithm": "fedlin"}).uneven


@pytest.mark.parametrize("name", FAMILY)
def test_hosts_see_sums_so_owners_must_be_alike(name):
    shared = {"privacy": {"noise": "shared", "delta": 1e-6}, "hosts": ["a", "b", "c"]}
    if name in CORRECTED:
        with pytest.raises(TermsError, match=r"privacy\.noise: expected 'each-owner' with"):
            family_terms(name).changed(**shared)
        return
    owners = [parley.Owner(n, t) for n, t in TABLES.items()]
    plain = family_terms(name, epsilon=8.0, learning__horizon=4)
    end, _ = quiet_run(plain, TABLES)
    study = parley.train(plain.changed(**shared), owners, replicates=400, seed=0).theta
    assert (np.abs(study.mean(axis=0) - end) < 4.5 * study.std(axis=0) / 20).all()
    with pytest.raises(TermsError, match=r"a sum does not show how far each owner stepped"):
        family_terms(name, own=UNEQUAL).changed(**shared)


@pytest.mark.parametrize("name", ["fedprox", "fedsplit"])
@pytest.mark.parametrize("proximal", [1e-50, 3.0, 1e50])
def test_the_longest_step_counts_the_pull(name, proximal):
    """Whatever its weight: the automatic step is below 1/(L + mu), and one beyond 2/(L + mu) is refused by
    everybody."""
    terms = family_terms(name, learning__proximal=proximal)
    setup = resolve(terms)
    largest = setup.objective.largest_curvature(setup.preparation) + proximal
    assert 0.9999 < setup.local_update.step * largest <= 1
    if proximal < 1e50:
        longer = family_terms(name, learning__proximal=proximal, learning__step=2.001 / largest)
        with pytest.raises(TermsError, match=r"learning\.step = .*: expected at most"):
            resolve(longer).part("a")
        own = family_terms(name, learning__proximal=proximal, own={"b": {"step": 2.001 / largest}})
        with pytest.raises(TermsError, match=r"owners\.b\.step = .*: expected at most"):
            resolve(own).part("b")


def test_hashes_say_what_was_agreed():
    base = family_terms("scaffold")
    hashes = {
        base.hash,
        family_terms("fedlin").hash,
        family_terms("scaffold, gradients").hash,
        family_terms("scaffold", own={"a": {"local_steps": 2}}).hash,
        family_terms("scaffold", own={"a": {"step": 0.1}}).hash,
        family_terms("fedprox").hash,
        family_terms("fedprox", learning__proximal=0.8).hash,
    }
    assert len(hashes) == 7
    assert family_terms("scaffold", learning__variates="walks").hash == base.hash


def test_steps_of_two_rounds_ask_the_same_owners_twice():
    terms = family_terms("fedlin", learning__participation=0.7, learning__horizon=12)
    schedule = make_schedule(terms)
    for k in range(1, 13, 2):
        assert schedule.at(k) == schedule.at(k + 1)
    assert len({schedule.at(k) for k in range(1, 13)}) > 1
    strides = make_schedule(family_terms("fedlin", own={"b": {"stride": 3}}, learning__horizon=12))
    assert list(strides.rounds_of("b")) == [1, 2, 7, 8]


@pytest.mark.parametrize("name", FAMILY)
def test_several_classes_take_local_steps_too(name):
    """Iris between three experts, each of whom has mostly flowers of one kind: softmax, rows shortened instead of
    gradients clipped."""
    flowers = iris_table()
    order = flowers.sort_values("species", kind="stable").reset_index(drop=True)
    tables = {n: order.iloc[50 * i : 50 * i + 50].reset_index(drop=True) for i, n in enumerate("abc")}
    content = family_terms(name, 50, 50, 50).model_dump()
    content["model"] = {
        "kind": "softmax-regression",
        "target": "species",
        "features": ["sepal length", "sepal width", "petal length", "petal width"],
        "bounds": {
            "sepal length": [4.0, 8.0],
            "sepal width": [2.0, 4.5],
            "petal length": [1.0, 7.0],
            "petal width": [0.0, 2.5],
        },
        "categories": {"species": ["setosa", "versicolor", "virginica"]},
        "radius": 5.0,
        "regularisation": 1.0,
    }
    content["learning"] |= {"horizon": 120, "local_steps": 4}
    content["privacy"]["clip"] = None
    end, asked = quiet_run(parley.Terms.from_dict(content), tables)
    designs = [agreement.tables.train for agreement in asked.agreements.values()]
    objective = asked.agreements["a"].setup.objective
    best = objective.optimum(designs, 5.0, start=np.zeros(len(end)))
    joint, least = (float(np.mean([objective.cost(d, theta) for d in designs])) for theta in (end, best))
    assert (joint - least < 2e-4) is (name in EXACT)


@pytest.mark.parametrize("name", FAMILY)
def test_a_terms_file_says_it_and_the_command_trains_by_it(tmp_path, name):
    """Written, read back to the same hash, and run by `parley train`."""
    for owner, table in TABLES.items():
        table.to_csv(tmp_path / f"{owner}.csv", index=False)
    data = {owner: {"data": str(tmp_path / f"{owner}.csv"), **UNEQUAL[owner]} for owner in TABLES}
    terms = family_terms(name, own=data, learning__horizon=4)
    parley.terms.write_terms(terms, tmp_path / "terms.toml")
    assert parley.load_terms(tmp_path / "terms.toml").hash == terms.hash
    done = CliRunner().invoke(
        app, ["train", str(tmp_path / "terms.toml"), "--replicates", "3", "--seed", "1", "--json"]
    )
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert [owner["answers"] for owner in result["owners"]] == [4, 4, 4]
    # per update, beside the total
    assert all(0 < owner["step_epsilon"] < owner["epsilon"] == 1.0 for owner in result["owners"])


def test_owners_of_one_size_and_budget_take_their_own_steps():
    """Owners alike share what is resolved; steps of their own make them different."""
    terms = family_terms("fednova", 60, 60, 60, own={"b": {"step": 0.01}, "c": {"local_steps": 7}})
    setup = resolve(terms)
    local = {name: setup.part(name).training.question.local for name in "abc"}
    assert local["b"].step == 0.01 != local["a"].step
    assert local["c"].steps == 7 != local["a"].steps
