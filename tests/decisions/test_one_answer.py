"""Whatever command is asked, the same terms have the same answer: owners' gains and verdicts, expected cost, psi."""

import json
from dataclasses import replace

import numpy as np
import pytest
from quick import quick_studies
from samples import class_table, regression_table
from typer.testing import CliRunner

import parley
from parley.cli.app import app
from parley.decisions.games.break_even import break_even
from parley.decisions.games.negotiate import negotiate
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.outlook.forecast import forecast, what_if, worth_spending
from parley.decisions.outlook.outlook import Outlook
from parley.decisions.outlook.remedies import compare_noise
from parley.decisions.planning.noise_terms import kind_of
from parley.studio.playground import Playground
from parley.terms import write_terms
from parley.terms.catalogue import UNNAMED_HOSTS

CASES, PLANNED = 40, 2
KINDS = ("linear-regression", "logistic-regression", "linear-svm")
SHAPES = [(kind, noise, public, values) for kind in KINDS for noise in (0, 1) for public in (0, 1) for values in (0, 1)]
FIGURES = ("alone", "together", "personal", "gain", "gain_low", "gain_high")


@pytest.fixture(scope="module", autouse=True)
def quick():
    """As little work as makes a forecast."""
    with quick_studies(), pytest.MonkeyPatch.context() as patched:
        patched.setattr("parley.decisions.expectation.expectation.MAX_OPERATIONS", 1e7)
        patched.setattr("parley.decisions.expectation.expectation.RESAMPLES", 2)
        patched.setattr("parley.decisions.outlook.owners.MAX_DRAWS", 32)
        patched.setattr("parley.decisions.expectation.expectation.INVENTED_LAWS", 4)
        patched.setattr("parley.decisions.expectation.expectation.RUNS_PER_LAW", 2)
        patched.setattr("parley.learning.outcome.tree_study.ITERATIONS", (5,))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("public")
    regression_table(90, seed=9).to_csv(found / "numbers.csv", index=False)
    class_table(90, seed=9).to_csv(found / "classes.csv", index=False)
    return found


def random_terms(case, folder):
    rng, (kind, shared, public, values) = np.random.default_rng(case), SHAPES[case % len(SHAPES)]
    table = folder / ("numbers.csv" if kind == KINDS[0] else "classes.csv")
    names = ["x0", "x1", "x2"]
    ranged = [*names, "y"] if kind == KINDS[0] else names
    ranges = {"bounds": [-4.0, 4.0], "scales": 2.0, "centres": 0.0}
    known = {key: dict.fromkeys(ranged, value) for key, value in ranges.items()}
    known = {"public": str(table)} if public else known
    count = int(rng.integers(2, 4))
    stated = {"value": float(10 ** rng.uniform(0, 5)), "privacy_cost": {"kind": "linear", "weight": 0.01}}
    content = {
        "model": {"kind": kind, "target": "y", "features": names, "regularisation": 0.1, "intercept": True, **known},
        "learning": {"horizon": int(rng.integers(3, 8)), "step": "auto"},
        "privacy": {"clip": float(rng.uniform(2, 6)), "mechanism": "gaussian", "delta": 1e-6},
        "owners": [
            {
                "name": "abcd"[place],
                "records": int(10 ** rng.uniform(1.5, 4)),
                "epsilon": round(float(10 ** rng.uniform(-0.5, 0.95)), 3),
                **(stated if values else {}),
            }
            for place in range(count)
        ],
    }
    if case % 5 == 0:  # owners that are alike
        content["owners"][1]["records"] = content["owners"][0]["records"]
    if shared:
        content["privacy"]["noise"] = "shared"
        content["hosts"] = [{"name": name} for name in UNNAMED_HOSTS]
    return parley.Terms.from_dict(content)


def answers(terms, differ=None):
    """What every command says of these terms: its object of owners and of the consortium, expected cost and psi, where
    it says them."""
    result = forecast(terms, differences=differ)
    said = result.to_json()
    valued = all(part.value is not None for part in terms.owners)
    bargain = (negotiate if valued else break_even)(terms, differences=differ).to_json()
    release, moved = worth_spending(terms, differences=differ), what_if(result, terms)
    compared = compare_noise(result)
    kind, shown = compared.kinds[kind_of(terms)], compared.to_json()[kind_of(terms)]
    for owner, gain in zip(said["owners"], shown["gains"].values(), strict=True):
        assert owner["gain"] == pytest.approx(gain, rel=1e-9)
    if not valued:
        for owner in bargain["owners"]:
            expected = 1 / owner["gain"] if owner["gain"] > 0 else None
            assert owner["break_even_value"] == (None if expected is None else pytest.approx(expected, rel=1e-9))
    return {
        "forecast": (said, said["expected_cost"], said["relative_fitness"]["mean"]),
        "headline": (head := result.headline_json(), head["expected_cost"], head["relative_fitness"]),
        "bargain": (bargain, None, None),
        "release": (release.outlook.to_json(), release.together, release.fitness),
        "what if": (moved.outlook.to_json(), None, moved.relative_fitness.mean),
        "noise": (kind.outlook.to_json(), shown["together"], shown["relative_fitness"]),
    }


def unlike(found):
    """Which commands say anything else than the first, and of what."""
    (first, *cost_and_psi), wrong = next(iter(found.values())), []
    for command, (said, *theirs) in found.items():
        if said["consortium"] != first["consortium"]:
            wrong.append((command, "consortium"))
        for one, other in zip(first["owners"], said["owners"], strict=True):
            same = (one["name"], one["verdict"]) == (other["name"], other["verdict"])
            numbers = [[each[key] for key in FIGURES] for each in (one, other)]
            if not (same and np.allclose(*numbers, rtol=1e-7, atol=1e-10)):
                wrong.append((command, one["name"]))
        for what, one, other in zip(("cost", "psi"), cost_and_psi, theirs, strict=True):
            if other is not None and not np.isclose(one, other, rtol=1e-6):
                wrong.append((command, what))
    return wrong


@pytest.mark.parametrize("case", range(CASES))
def test_every_command_says_the_same(case, folder):
    assert unlike(answers(random_terms(case, folder), Heterogeneity.stated(1.0) if case % 4 == 1 else None)) == []


def elsewhere(*given, **named):
    return forecast(*given, **(named | {"differences": Heterogeneity.stated(3.0)}))


def pickier(found, /, **changed):
    """An outlook that was carried over counts only gains of half the cost."""
    return replace(found, **changed, **({"least": 0.5} if "corrected" in changed else {}))


@pytest.mark.parametrize(
    ("case", "broken", "mutant", "command"),
    [
        (2, "parley.decisions.games.break_even.forecast", elsewhere, "bargain"),
        (3, "parley.decisions.games.stakes.forecast", elsewhere, "bargain"),
        (2, "parley.decisions.outlook.forecast.forecast", elsewhere, "release"),
        (2, "parley.decisions.outlook.remedies.joint_cost", lambda expected, fitness: 1.01 * fitness, "noise"),
        (2, "parley.decisions.outlook.forecast.replace", pickier, "what if"),
    ],
)
def test_a_mutant_of_one_command_is_noticed(case, broken, mutant, command, folder, monkeypatch):
    monkeypatch.setattr(broken, mutant)
    assert {each for each, _ in unlike(answers(random_terms(case, folder)))} == {command}


def test_the_outlook_carried_elsewhere_and_back_is_the_same(folder):
    outlook = forecast(random_terms(2, folder)).outlook
    there = outlook.at(epsilon=9.0).at(terms=outlook.terms)
    assert isinstance(there, Outlook)
    assert there.to_json() == outlook.to_json()


def printed(*arguments):
    run = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert run.exit_code == 0, (run.output, run.exception)
    return json.loads(run.stdout)


@pytest.mark.parametrize("case", [2, 7])
def test_the_commands_themselves_print_it(case, folder, tmp_path):
    file, better = tmp_path / "terms.toml", tmp_path / "better.toml"
    write_terms(random_terms(case, folder), file)
    differ = () if case == PLANNED else ("--heterogeneity", "0")
    said = printed("forecast", file, *differ, "--json")
    found = {
        "forecast": (said, said["expected_cost"], said["relative_fitness"]["mean"]),
        "negotiate": (printed("negotiate", file, *differ, "--json"), None, None),
    }
    assert unlike(found) == []
    if case != PLANNED:
        return
    page = Playground()  # the studio's
    page.load(file)
    moved, whole, deal = page.at_once(), page.whole(page.require().turn), page.negotiation(page.require().turn)
    found["page, at once"] = (moved.outlook.to_json(), None, moved.relative_fitness.mean)
    found["page, whole"] = (whole.outlook.to_json(), whole.expected_cost.mean, whole.relative_fitness.mean)
    found["page, deal"] = (deal.to_json(), None, None)
    assert unlike(found) == []
    planned, again = printed("plan", file, "--json", "--write", better), printed("forecast", better, "--json")
    found = {
        "forecast": (again, again["expected_cost"], again["relative_fitness"]["mean"]),
        "plan": (planned, planned["expected_cost"], planned["relative_fitness"]),
    }
    assert unlike(found) == []


def test_terms_from_files_are_announced_as_they_are_forecast(folder, tmp_path):
    for name, rows in (("north", 300), ("south", 200)):
        regression_table(rows, seed=rows).to_csv(tmp_path / f"{name}.csv", index=False)
    file = tmp_path / "terms.toml"
    given = [tmp_path / "north.csv", tmp_path / "south.csv", "--target", "y", "--public", folder / "numbers.csv"]
    made = printed("init", *given, "--columns", "lines", "--write", file, "--yes", "--json")
    said = printed("forecast", file, "--json")
    found = {
        "forecast": (said, said["expected_cost"], said["relative_fitness"]["mean"]),
        "init": (made, made["expected_cost"], made["relative_fitness"]),
    }
    assert unlike(found) == []
