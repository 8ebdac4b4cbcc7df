"""What an algorithm says of its terms: one file of rules, one of what it does, and a line in the catalogue."""

from importlib import import_module

import pytest
from samples import make_terms

from parley.errors import SettingError, TermsError
from parley.learning.algorithms.algorithm import Descent
from parley.learning.algorithms.catalogue import ALGORITHMS as DONE
from parley.learning.algorithms.catalogue import register
from parley.protocol.queries import QUESTION_KINDS
from parley.terms import Learning, OwnerTerms, Privacy
from parley.terms.algorithms import RULES
from parley.terms.catalogue import ALGORITHMS, PREDICTION, AlgorithmFacts
from parley.terms.rules import KEYS_ONLY_SOME_READ, AlgorithmRules, algorithm_rules, algorithms_reading

SECTIONS = {"learning": Learning, "owners": OwnerTerms, "privacy": Privacy}
OF_PREDICTION = [name for name, facts in ALGORITHMS.items() if facts.task == PREDICTION]


@pytest.mark.parametrize("name", OF_PREDICTION)
def test_an_algorithm_with_rules_has_a_file_of_its_name(name):
    assert name in RULES
    done = import_module(f"parley.learning.algorithms.{name.replace('-', '_')}")
    assert DONE[name].__module__ == done.__name__


@pytest.mark.parametrize("name", ALGORITHMS)
def test_rules_name_keys_that_there_are_and_a_question_that_somebody_answers(name):
    rules = algorithm_rules(name)
    for key in rules.keys:
        section, _, field = key.partition(".")
        assert field in SECTIONS[section].model_fields
        assert field in KEYS_ONLY_SOME_READ.get(section, ("clip_norm",))
    assert rules.asks in QUESTION_KINDS or ALGORITHMS[name].task != PREDICTION
    assert rules.rounds >= 1


@pytest.mark.parametrize("section", KEYS_ONLY_SOME_READ)
def test_every_key_of_some_has_a_reader(section):
    assert all(algorithms_reading(f"{section}.{key}") for key in KEYS_ONLY_SOME_READ[section])


def test_a_key_that_the_algorithm_does_not_read_is_refused_with_those_that_do():
    with pytest.raises(
        TermsError, match=r"learning\.decay: allowed only with algorithm = 'gradient-descent': steps shrink"
    ):
        make_terms(100, learning__decay=0.5)
    with pytest.raises(TermsError, match=r"owners\.trust: allowed only with algorithm = 'fedinfer'"):
        make_terms(100).changed(everyone={"trust": 0.5})


class RulesOfOne(AlgorithmRules):
    keys = {"learning.momentum": "the share of the last step"}  # noqa: RUF012

    def check_learning(self, learning):
        if learning.momentum is None:
            raise ValueError("momentum|expected a number with one-of-mine")

    def check(self, terms):
        if len(terms.owners) > 2:
            raise ValueError("owners|expected two at most with one-of-mine")


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr("parley.terms.rules._RULES_BY_NAME", {})
    register("one-of-mine", RulesOfOne(), Descent)
    yield
    del ALGORITHMS["one-of-mine"], DONE["one-of-mine"]


@pytest.mark.usefixtures("registered")
def test_an_algorithm_of_a_programs_own_brings_its_rules():
    mine = {"learning__algorithm": "one-of-mine", "learning__momentum": 0.5}
    assert make_terms(100, 100, **mine).learning.momentum == 0.5
    with pytest.raises(TermsError, match=r"learning\.momentum: expected a number with one-of-mine"):
        make_terms(100, learning__algorithm="one-of-mine")
    with pytest.raises(TermsError, match="owners: expected two at most with one-of-mine"):
        make_terms(100, 100, 100, **mine)
    with pytest.raises(TermsError, match="allowed only with algorithm = 'gradient-descent' or 'one-of-mine'"):
        make_terms(100, learning__momentum=0.5)


def test_a_home_without_rules_is_a_mistake_of_the_catalogue(monkeypatch):
    monkeypatch.setitem(ALGORITHMS, "lost", AlgorithmFacts("parley.terms.topology"))
    with pytest.raises(AttributeError, match="RULES"):
        algorithm_rules("lost")


@pytest.mark.parametrize(
    ("asks", "changed", "refusal"),
    [
        ("minibatch", {"privacy__records_per_person": 3, "privacy__person": "who"}, "learning.sampling"),
        ("minibatch", {"learning__batches": 1}, "learning.batches"),
        ("statistics", {"model__kind": "logistic-regression"}, "learning.algorithm"),
        ("update", {"model__radius": None}, "model.radius"),
    ],
)
def test_what_a_question_is_proved_for_holds_whichever_algorithm_asks_it(monkeypatch, asks, changed, refusal):
    keys = ("batches", "epochs", "sampling", "optimiser", "batch_seed", "local_steps")
    rules = type("RulesOfAnother", (AlgorithmRules,), {"asks": asks, "keys": {f"learning.{key}": "" for key in keys}})
    monkeypatch.setattr("parley.terms.rules._RULES_BY_NAME", {})
    register("another-of-mine", rules(), Descent)
    drawn = {"learning__batches": 4, "learning__sampling": "poisson"} if asks == "minibatch" else {}
    content = {"learning__algorithm": "another-of-mine", **drawn, **changed}
    try:
        with pytest.raises(TermsError, match=refusal.replace(".", r"\.")):
            make_terms(100, 100, **content)
    finally:
        del ALGORITHMS["another-of-mine"], DONE["another-of-mine"]


def test_a_name_that_is_taken_is_not_registered_again():
    with pytest.raises(SettingError, match="an algorithm of this name already exists"):
        register("gossip", AlgorithmRules(), Descent)
