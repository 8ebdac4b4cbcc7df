"""Every kind that can be released is audited, by the search and by whole runs; a kind that is added without a line in
`AUDITED` fails here, and so does a mutant that nobody notices."""

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from bank_and_shop import joined_terms
from every_kind import AUDITED, registered_kinds
from mutants import half_the_noise
from samples import make_terms, regression_table

from parley.audit.agreement import audit_terms
from parley.audit.attacker import Rates, RunTables, epsilon_by_size
from parley.audit.exact.enumeration import size_verdicts
from parley.audit.exact.pair_search import PairSearch
from parley.audit.exact.trial import StageQuestions
from parley.audit.runs import LEAST_RUNS, audit_owner
from parley.errors import TermsError
from parley.privacy.mechanisms import Gaussian
from parley.protocol.setup import resolve
from parley.protocol.task import task_named
from parley.report.words.audit import learned, owner_rows
from parley.terms.catalogue import ALGORITHMS, MECHANISMS, MODELS, NOISES, RESPONSE_MECHANISMS, TASKS
from parley.workflows.audit import agreements_in

TORCH = find_spec("torch") is not None
# (epsilon, runs) at which half of the noise is told from all of it: of pure noise few runs prove large numbers
HALVED = {
    **dict.fromkeys(("trajectories", "state-moments", "item-factors", "scales"), (6.0, 300)),
    **dict.fromkeys(("owner", "survival", "randomised response"), (6.0, 300)),
    **dict.fromkeys(("counts", "score", "boosted-regression"), (2.0, 1000)),
    **(dict.fromkeys(("network-gradient", "mixed-network-gradient"), (6.0, 150)) if TORCH else {}),
}


# tasks with an audit of their own, as no owner alone answers: tests/tasks/joined/test_audit.py runs it
OTHERWISE = ("joined",)


def here(task):
    return task not in OTHERWISE and (task != "networks" or TORCH)


def test_the_tasks_with_an_audit_of_their_own_have_it_and_no_owner_alone_is_audited():
    loaded = [task for task in TASKS if TORCH or task != "networks"]
    assert tuple(task for task in loaded if "audit" in task_named(task).commands) == OTHERWISE
    assert callable(task_named("joined").command("audit"))
    for attack in (audit_terms, lambda terms, runs: audit_owner(terms, "bank", runs)):
        with pytest.raises(TermsError, match="no owner answers alone"):
            attack(joined_terms(), LEAST_RUNS)


def test_every_kind_of_the_catalogue_is_audited():
    every = list(AUDITED.values())
    assert {t.model.kind for t in every} == {kind for kind, facts in MODELS.items() if here(facts.task)}
    assert {t.learning.algorithm for t in every} == {name for name, facts in ALGORITHMS.items() if here(facts.task)}
    assert {t.privacy.mechanism for t in every} == {*MECHANISMS, *RESPONSE_MECHANISMS}
    assert {t.task for t in every} == {task for task in TASKS if here(task)}
    assert {t.privacy.noise for t in every} == {*NOISES}
    assert {t.privacy.unit for t in every} == {"record", "owner"}
    asked = {plan.kind for t in every for plan in resolve(t).plans(t.owners[0].name)}
    assert asked == registered_kinds()


@pytest.mark.parametrize("case", AUDITED)
def test_whole_runs_of_every_kind_are_attacked(case):
    terms = AUDITED[case]
    stages = range(len(list(resolve(terms).plans("a"))))
    for stage in stages:
        verdict = audit_owner(terms, "a", LEAST_RUNS, seed=1, stage=stage)
        assert verdict.holds
        assert not verdict.noise_repeats


@pytest.mark.parametrize("case", HALVED)
def test_half_the_noise_is_caught_in_runs_of_kinds_that_predict_no_column(case):
    (epsilon, runs), stage = HALVED[case], int(case == "score")
    promised = {part.name: {"epsilon": epsilon * (1 + stage)} for part in AUDITED[case].owners}
    terms = AUDITED[case].changed(owners=promised, privacy={"score_epsilon": epsilon} if stage else {})
    with half_the_noise():
        assert not audit_owner(terms, "a", runs, seed=1, stage=stage).holds


@pytest.mark.parametrize("case", [case for case in HALVED if case not in ("mixed-network-gradient", "survival")])
def test_half_the_sensitivity_is_found_by_the_search(case, monkeypatch):
    of_size = StageQuestions.of_size

    def halved(self, records, batches):
        asked = of_size(self, records, batches)
        return replace(asked, question=replace(asked.question, sensitivity=asked.question.sensitivity / 2))

    setup = resolve(AUDITED[case])
    search = PairSearch(setup, "a", len(list(setup.plans("a"))) - 1)
    monkeypatch.setattr(StageQuestions, "of_size", halved)
    assert not search.climb(40, 1).holds


def test_a_quarter_of_the_noise_by_its_calibration_is_seen_by_its_size(monkeypatch):
    stage = resolve(AUDITED["trajectories"]).part("a").training
    assert all(verdict.holds for verdict in size_verdicts([stage]))
    quiet = replace(stage.series, mechanism=Gaussian(stage.series.mechanism.sigma / 4, stage.question.sensitivity))
    assert not any(verdict.holds for verdict in size_verdicts([replace(stage, series=quiet)]))


def test_the_bound_by_the_size_of_the_noise_covers_the_truth():
    """Draws of two normal laws, as far apart as is claimed: of 200 bounds at 90 % no more than 20 and three standard
    errors exceed the claim; twice as far apart, all do."""
    series = resolve(AUDITED["trajectories"]).part("a").training.series
    shift, rng = 1 / series.event.multiplier, np.random.default_rng(0)

    def bound(apart):
        pilot, counted = ((rng.normal(0, 1, 4000), rng.normal(apart, 1, 4000)) for _ in range(2))
        return epsilon_by_size(Rates.from_runs(pilot, counted, 0.9), series, 1.0, 1e-6)

    assert sum(bound(shift) > 1 for _ in range(200)) <= 20 + 3 * 18**0.5
    assert all(bound(2 * shift) > 1 for _ in range(20))


def test_tables_are_small_and_differ_in_one_record():
    found = RunTables.find(AUDITED["trajectories"], "a")
    a, b = (owner.table.gathered() for owner in found.own)
    assert found.setup.terms.owner("a").records == 2
    assert len(a) == len(b) == 2 * AUDITED["trajectories"].model.samples


def test_what_is_asked_before_learning_is_audited_and_the_power_is_said(tmp_path):
    terms = make_terms(40, privacy__scale_epsilon=0.5)
    assert [each.learning.algorithm for each in agreements_in(terms)] == ["scales"]
    regression_table(60).to_csv(tmp_path / "public.csv", index=False)
    differs = make_terms(40, 40).changed(
        model={"public": str(tmp_path / "public.csv")}, privacy={"difference_epsilon": 0.5}
    )
    first, last = (audit_terms(each, LEAST_RUNS, seed=1) for each in agreements_in(differs))
    audit = replace(last, before=(first,))
    assert [each.verdicts[0].claimed_epsilon for each in (first, last)] == [0.5, 0.5]
    assert audit.holds
    assert audit.to_json()["before"][0]["holds"]
    assert any("unnoticed" in sentence for sentence in learned(audit))


def test_a_score_has_a_line_and_as_many_runs_as_take_a_minute_are_found(monkeypatch):
    monkeypatch.setattr("parley.audit.runs.USUAL_SECONDS", 0.2)
    monkeypatch.setattr("parley.audit.runs.MAX_RUNS", 400)
    audit = audit_terms(AUDITED["score"].changed(learning={"horizon": 1}), None, seed=1)
    assert LEAST_RUNS <= audit.verdicts[0].runs <= 400
    assert [row[0] for row in owner_rows(audit)] == ["owner", "a", "a (score)"]


@pytest.mark.parametrize("refitted", [2, 0])
def test_trees_that_a_public_sample_grew_are_audited(tmp_path, refitted):
    regression_table(200).to_csv(tmp_path / "public.csv", index=False)
    trees = {"count": 3, "leaves": 3, "refitted": refitted}
    sample = str(tmp_path / "public.csv")
    terms = make_terms(40, learning__horizon=1, model__columns="trees", model__public=sample, model__radius=None)
    terms = terms.changed(model={"trees": trees})
    assert audit_owner(terms, "a", LEAST_RUNS, seed=1).holds
    assert PairSearch(resolve(terms), "a").climb(20, 1).holds
