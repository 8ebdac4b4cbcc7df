"""Should we learn together? The rule that makes verdicts of draws, what draws rest on, and the same elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from samples import class_table, make_terms, regression_table

import parley
from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.sources import Stated
from parley.decisions.outlook.forecast import forecast
from parley.decisions.outlook.outlook import Outlook
from parley.decisions.outlook.owners import Owners, Seen
from parley.decisions.planning.noise_terms import shared_terms
from parley.errors import SettingError
from parley.learning.outcome.verdict import LEAST_GAIN
from parley.report.words import forecast as said
from parley.report.words.outlook import verdict_sentence

DRAWS = 100
SPREAD, NOISE = np.array([1.5, 1.0, 0.6, 0.4]), 1.0
NAMES = [f"x{j}" for j in range(4)]
SIZES = {"a": 60, "b": 120, "c": 300, "d": 120, "e": 4000}


@dataclass(frozen=True)
class Table:
    """Draws by a table: in so many of a hundred joining saves an owner enough, as these learn together."""

    gaining: Callable[[frozenset], dict]
    names: str
    members: np.ndarray
    asked: list
    draws: int = 1  # each by a law of its own

    def for_members(self, members):
        return replace(self, members=members)

    @property
    def alone(self):
        return np.ones((len(self.names), DRAWS))

    together = alone

    @property
    def personal(self):
        self.asked.append("".join(name for name, inside in zip(self.names, self.members, strict=True) if inside))
        many = self.gaining(frozenset(self.asked[-1]))
        counts = np.array([many.get(name, 0) for name in self.names])[:, None]
        return 1 - np.where(np.arange(DRAWS) < counts, 1.5 * LEAST_GAIN, 0.9 * LEAST_GAIN)

    @property
    def by_trees(self):
        return np.zeros(len(self.names), bool)


def ruled(names, gaining, sizes=None):
    terms = make_terms(*(sizes or (100 * 4**place for place in range(len(names)))))
    law = Table(gaining, names, np.ones(len(names), bool), [])
    return Outlook.from_laws(terms, [law]), law.asked


@pytest.mark.parametrize(("gaining", "verdict"), [(90, "join"), (89, "unsure"), (11, "unsure"), (10, "stay")])
def test_a_verdict_needs_a_gain_that_counts_in_nine_draws_of_ten(gaining, verdict):
    outlook, _ = ruled("ab", lambda there: {"a": gaining, "b": gaining})
    assert [owner.verdict for owner in outlook.owners] == [verdict] * 2
    assert outlook.consortium.verdict == verdict
    assert outlook.consortium.members == (() if verdict == "stay" else ("a", "b"))
    dearer = replace(outlook, prices=np.array([0.0, LEAST_GAIN]))  # beside which 1.5 times the least is too little
    assert dearer.verdicts == [verdict, "stay"]
    np.testing.assert_allclose(dearer.net[1], outlook.gain[1] - LEAST_GAIN)
    assert dearer.owners[1].gain == outlook.owners[1].gain


def test_what_one_training_happens_to_bring_counts_half_and_what_is_not_known_counts_whole():
    """70 draws of a hundred bring 1.5 times the least gain, 30 bring .9 of it. A mutant that counts each training is
    unsure of both; one that counts means alone is sure of both."""
    one, _ = ruled("ab", lambda there: {"a": 70, "b": 70})
    (law,) = one.laws
    assert replace(one, laws=(replace(law, draws=DRAWS),)).verdicts == ["join"] * 2
    assert replace(one, laws=(replace(law, draws=10),)).verdicts == ["unsure"] * 2


def test_all_that_should_stay_are_dropped_at_once_and_again_until_nobody_should():
    """A mutant that drops one at a time ends with everybody but `d`: without it `c` would gain."""

    def gaining(there):
        if "d" in there:
            return {"a": 95, "b": 95, "c": 5, "e": 50}
        return {"a": 95, "b": 95, "c": 95, "e": 95} if "c" in there else {"a": 95, "b": 95, "e": 5}

    outlook, asked = ruled("abcde", gaining)
    assert outlook.consortium.to_json() == {"verdict": "join", "members": ["a", "b"]}
    assert list(dict.fromkeys(asked)) == ["abcde", "abe", "ab"]
    assert verdict_sentence(outlook).endswith(" c, d gain too little and stay out. If c, d stay out, e stays out too.")
    one, _ = ruled("abc", lambda there: {"a": 95, "b": 50} if "c" in there else {"a": 95, "b": 89})
    assert one.consortium.to_json() == {"verdict": "unsure", "members": ["a", "b"]}


def test_nobody_is_told_to_stay_while_a_group_gains():
    """A pair among bad owners: found by dropping the worst, or by being alike; a mutant that ends where all stay finds
    neither."""

    def hidden(pair, hint):
        return lambda there: dict.fromkeys(pair, 95) if there == frozenset(pair) else dict.fromkeys(pair, hint)

    worst, _ = ruled("abcdef", hidden("be", 9))
    assert set(worst.verdicts) == {"stay"}
    assert worst.consortium.to_json() == {"verdict": "join", "members": ["b", "e"]}
    alike, _ = ruled("abcdef", hidden("be", 0), sizes=(100, 1000, 10, 5000, 1000, 40_000))
    assert alike.consortium.members == ("b", "e")
    assert ruled("abcdef", lambda there: {})[0].consortium.to_json() == {"verdict": "stay", "members": []}


# no rows, so that nobody has a public sample that would do better than all of these small owners
MANY = 12  # directions: what chance does in each of them evens out
KNOWN = Stated(np.linspace(1.0, 2.0, MANY), 1.0, start=np.linspace(0.4, -0.3, MANY))


def stated(epsilon, *sizes, differences=0.05, **more):
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": [f"x{j}" for j in range(MANY)]},
        "learning": {"algorithm": "gradient-descent", "horizon": 12, "step": 0.3, "decay": 0},
        "privacy": {"clip": 12.0, "mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": f"o{k}", "records": n, "epsilon": epsilon, **more} for k, n in enumerate(sizes)],
    }
    terms = parley.Terms.from_dict(content)
    return terms, lambda terms: forecast(terms, KNOWN, resamples=2, differences=Heterogeneity.stated(differences))


def test_elsewhere_it_is_the_outlook_made_anew_there():
    terms, known = stated(3.0, 150, 400, 150, 150)
    here = known(terms).outlook
    louder = terms.changed(owners={"o0": {"epsilon": 1.0}, "o2": {"epsilon": 9.0}})
    for found, there in (
        (here.at(epsilon=1.5), terms.changed(everyone={"epsilon": 1.5})),
        (here.at(epsilon={"o0": 1.0, "o2": 9.0}), louder),
        (here.at(noise="shared"), shared_terms(terms)),
        (
            here.at(terms=louder.changed(owners={"o1": {"records": 900}})),
            louder.changed(owners={"o1": {"records": 900}}),
        ),
        (here.at(noise="shared").at(noise="each_owner"), terms),
    ):
        made = known(there).outlook
        np.testing.assert_allclose(found.gain, made.gain, rtol=1e-6, atol=1e-9)
        assert found.to_json()["consortium"] == made.to_json()["consortium"]
        assert not np.allclose(found.gain, here.gain) or there is terms
    with pytest.raises(SettingError, match="names of owners in the terms, got nobody"):
        here.at(members=["o0", "nobody"])


def mean_and_error(draws):
    """Of an owner's draws by five worlds, which share their chance."""
    by_chance = draws.reshape(5, -1).mean(axis=0)
    return by_chance.mean(), by_chance.std(ddof=1) / len(by_chance) ** 0.5


def test_of_some_members_and_among_more_owners_it_is_what_their_own_terms_have():
    """Other draws, so within three standard errors of them; a mutant that keeps the noise of all is farther off."""
    terms, known = stated(6.0, *[150] * 4)
    outlook = known(terms).outlook
    two, many = (known(stated(6.0, *[150] * count)[0]).outlook for count in (2, 16))
    for found, made, mutant in (
        (outlook.at(members=["o0", "o1"]), two, outlook),
        (outlook.at(owners=16).louder(4 / 16), many, outlook),
    ):
        (mean, error), (there, other), (wrong, _) = (mean_and_error(each.gain[0]) for each in (found, made, mutant))
        assert abs(mean - there) < 3 * np.hypot(error, other)
        assert abs(wrong - there) > 3 * np.hypot(error, other)


def test_there_may_be_many_laws_and_each_has_numbers_of_its_own():
    first, last = (owners(world=world).alone(np.full(P, 0.03)) for world in (0, 700))
    assert not np.array_equal(first, last)


def test_some_members_and_then_all_again_is_where_it_began():
    terms, known = stated(6.0, *[150] * 4)
    outlook = known(terms).outlook
    two = outlook.at(members=["o0", "o1"])
    np.testing.assert_array_equal(two.at(members=outlook.names).gain, outlook.gain)
    assert two.at(epsilon=9.0).members.sum() == 2
    assert not np.array_equal(two.gain, outlook.gain)


def test_owners_that_are_alike_hear_the_same_and_what_they_would_pay_counts():
    terms, known = stated(40.0, 60, 60, 60, 40_000, 60, value=10.0, privacy_cost={"kind": "linear", "weight": 0.001})
    outlook = known(terms.changed(owners={"o4": {"privacy_cost": {"kind": "linear", "weight": 1.0}}})).outlook
    first, second, third, large, dear = outlook.owners
    assert replace(first, name="") == replace(second, name="") == replace(third, name="")
    assert (first.verdict, dear.verdict) == ("join", "stay")
    np.testing.assert_allclose(outlook.prices, [0.004] * 4 + [4.0])
    assert dear.gain.mean == pytest.approx(first.gain.mean, rel=0.2)
    assert large.gain.mean < first.gain.mean


P = 3


def owners(**more):
    settled = {"curvature": np.full(P, 2.0), "records": np.array([100.0, 300.0]), "scatter": np.ones(P)}
    settled |= {"bias": np.zeros(P), "noise": np.full(P, 0.01), "optimum": np.ones(P), "fit": np.full(P, 0.2)}
    return Owners(**settled, **more)


def test_what_was_seen_moves_draws_to_where_a_normal_posterior_lies(monkeypatch):
    """Best parameters b of variance d, whose estimate minus the public fit is seen: b + chance - error - elsewhere."""
    monkeypatch.setattr("parley.decisions.outlook.owners.MAX_DRAWS", 4000)
    monkeypatch.setattr("parley.decisions.outlook.owners.MAX_NUMBERS", 2**20)
    d, step = np.full(P, 0.03), np.array([0.5, -0.2, 0.0])
    apart = 2 * d + 1 / 100 + 0.2**2
    mean, variance = d / apart * step, d - d**2 / apart

    def holds(known):
        drawn = known._owners(d)
        off = np.abs(drawn.best[0].mean(axis=0) - mean) / np.sqrt(variance / 4000)
        wide = np.abs(drawn.best[0].var(axis=0) / variance - 1) / np.sqrt(2 / 4000)
        return bool((off < 3.5).all() and (wide < 3.5).all()), drawn.rows.estimate[0] - drawn.public.fit

    right, seen = holds(owners(seen=Seen(0, step, np.full(P, 0.01))))
    assert right
    np.testing.assert_allclose(seen, np.broadcast_to(step, seen.shape), atol=1e-12)
    assert not holds(owners())[0]  # the mutant that does not look
    assert owners(seen=Seen(0, step, np.full(P, 0.01))).likelihood(d) == pytest.approx(
        -0.5 * np.sum(np.log(apart) + step**2 / apart), rel=1e-12
    )
    other = owners(seen=Seen(1, step, np.full(P, 1 / 300)))._owners(d).best[0]  # nothing is seen of the other owner
    np.testing.assert_array_equal(other, owners()._owners(d).best[0])


def table(rng, rows, theta):
    X = rng.normal(size=(rows, 4)) * SPREAD
    return pd.DataFrame(X, columns=NAMES).assign(y=X @ theta + NOISE * rng.normal(size=rows))


def consortium(epsilon=20.0, **sizes):
    content = {
        "model": {"kind": "linear-regression", "target": "y", "features": NAMES},
        "learning": {"algorithm": "gradient-descent", "horizon": 12, "step": 0.4, "decay": 0},
        "privacy": {"clip": 60.0, "mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": name, "records": n, "epsilon": epsilon} for name, n in (sizes or SIZES).items()],
    }
    return parley.Terms.from_dict(content)


PUBLIC = table(np.random.default_rng(1), 20_000, np.full(4, 0.7))


@pytest.fixture(scope="module")
def expected():
    return {
        ratio: forecast(
            consortium(), PUBLIC, resamples=2, differences=None if ratio is None else Heterogeneity.stated(ratio)
        )
        for ratio in (0.0, 0.5, 2.0, None)
    }


def test_what_gains_follow_from_is_what_the_law_has(expected):
    """Curvature, the chance of own estimates, the joint model's error by the moments: `test_own_rows` has what
    follows."""
    result = expected[0.5]
    assert result.method == "exact-moments"
    law, hessian = result.outlook.laws[0].owners, np.sort(2 * SPREAD**2)
    np.testing.assert_allclose(law.curvature, hessian, rtol=0.05)
    np.testing.assert_allclose(law.scatter, 2 * NOISE**2 / hessian, rtol=0.05)
    assert 0.5 * law.curvature @ (law.bias + law.noise) == pytest.approx(result.excess_cost.mean, rel=1e-6)
    costs = np.array([[owner.together for owner in expected[ratio].owners] for ratio in (0.0, 0.5, 2.0)])
    assert (np.diff(costs, axis=0) > 0).all()


def test_what_is_not_known_is_drawn_between_what_may_be(expected):
    for owner, least in zip(expected[None].owners, expected[0.0].owners, strict=True):
        assert owner.gain.low <= owner.gain.mean <= owner.gain.high
        assert owner.alone - owner.personal == pytest.approx(owner.gain.mean, rel=1e-6, abs=1e-12)
        assert owner.together_interval.low < least.together < owner.together_interval.high
        assert owner.together_interval.mean == owner.together
    unsure, sure = (sum(o.gain.high - o.gain.low for o in expected[each].owners) for each in (None, 0.0))
    assert unsure > 1.05 * sure
    ends = expected[None].expected_cost
    assert ends.low <= ends.mean == expected[None].worth.together <= ends.high


def test_the_sentence_says_who_and_what_is_assumed(expected):
    terms, known = stated(40.0, *[60] * 12)
    joined = known(terms).outlook
    assert verdict_sentence(joined).startswith("Join: all 12 members gain for sure. Expected average gain: ")
    without = known(stated(40.0, *[60] * 12, 40_000)[0]).outlook
    assert verdict_sentence(without).startswith("Join: all 12 members gain for sure. ")
    assert verdict_sentence(without).endswith(" o12 gains too little and stays out.")
    few = known(stated(20.0, 60, 60, 60, 40_000)[0]).outlook
    assert few.verdicts == ["join"] * 3 + ["stay"]  # but without the large one it is not sure any more
    assert verdict_sentence(few).startswith("Unsure: no owner gains for sure. Expected average gain: ")
    assert verdict_sentence(few).endswith(" o3 gains too little and stays out.")
    assert verdict_sentence(known(stated(0.02, *[4000] * 3)[0]).outlook).startswith("Stay: ")
    mutant = replace(joined)  # with the other sign
    vars(mutant).update(alone=joined.personal, personal=joined.alone)
    assert set(mutant.verdicts) == {"stay"}
    assert said.assumption(expected[0.0]).startswith("All owners are assumed to follow one law")
    assert "120 rows" in said.assumption(expected[None])


def test_an_owner_by_itself_gains_nothing_and_loud_noise_helps_nobody():
    result = forecast(consortium(a=400), PUBLIC, resamples=2)
    (single,) = result.owners
    assert (single.verdict, single.gain.mean) == ("stay", 0.0)
    assert result.values[0].break_even_epsilon is None
    loud = forecast(consortium(0.01), PUBLIC, resamples=2)
    assert loud.verdict.to_json() == {"verdict": "stay", "members": []}
    assert not (loud.outlook.chances >= 0.5).any()


def test_joining_pays_from_where_half_of_the_draws_count():
    terms, known = stated(40.0, 150, 400, 150, 150)
    result = known(terms)
    for place in (0, 1):
        even = result.values[place].break_even_epsilon
        for side, pays in ((0.97, False), (1.03, True)):
            there = result.outlook.at(epsilon={f"o{place}": even * side})
            assert bool(there.chances[place] >= 0.5) == pays


def test_a_classifier_is_taken_as_quadratic_and_scaled_to_its_own_forecast(tmp_path):
    class_table(1500, seed=9).to_csv(tmp_path / "public.csv", index=False)
    content = {
        "model": {"kind": "logistic-regression", "target": "y", "public": str(tmp_path / "public.csv")},
        "learning": {"horizon": 8},
        "privacy": {"clip": 3.0, "mechanism": "gaussian", "delta": 1e-6},
        "owners": [{"name": name, "records": 100, "epsilon": 8.0} for name in "abc"],
    }
    result = forecast(parley.Terms.from_dict(content), resamples=2, differences=Heterogeneity.stated(0.0))
    assert result.method == "pilot-run"
    law = result.outlook.laws[0].owners
    assert 0.5 * law.curvature @ (law.bias + law.noise) == pytest.approx(result.excess_cost.mean, rel=1e-6)
    assert "from the cost's curvature" in said.assumption(result)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_impossible_differences_are_refused(wrong):
    with pytest.raises(SettingError, match="multiples of the within-owner variance"):
        Heterogeneity.stated(wrong)


def test_columns_that_say_nothing_change_nobodys_gain(tmp_path):
    """Flags of cells that are never missing: nothing is estimated along them, so they are no part of what owners
    differ by."""
    regression_table(600, seed=9).to_csv(tmp_path / "public.csv", index=False)
    settings = {"learning__horizon": 30, "learning__step": 0.7, "privacy__clip": 8.0}
    plain = make_terms(4000, 4000, 40, epsilon=20.0, model__public=str(tmp_path / "public.csv"), **settings)
    told = [forecast(terms, resamples=2).owners for terms in (plain, plain.changed(model={"missing": "fill"}))]
    for one, other in zip(*told, strict=True):
        assert other.alone == pytest.approx(one.alone, rel=1e-4)
        assert abs(other.gain.mean - one.gain.mean) < 0.1 * LEAST_GAIN * one.alone
        assert other.verdict == one.verdict
