"""What the proofs of networks' questions need is asked of an algorithm that a program adds, too."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from rings import rings_content

import parley
from parley.errors import GuaranteeError, TermsError
from parley.protocol.aggregation.mean import pieces
from parley.protocol.aggregation.one_noise import SharedLaws
from parley.tasks.networks.terms import NetworkSGDRules
from parley.terms import rules as algorithm_rules
from parley.terms.rules import register_rules

HOSTS = [{"name": f"host-{place}"} for place in range(3)]
PERSON = {"privacy": {"person": "who", "records_per_person": 2}}


class Mixing(NetworkSGDRules):
    asks = "mixed-network-gradient"
    sampling = "partition"

    def check_learning(self, learning):
        """Nothing is refused."""


class MixingDraws(Mixing):
    sampling = "poisson"


class Fixed(Mixing):
    asks = "network-gradient"


@pytest.fixture
def added():
    for name, rules in (("mixing", Mixing()), ("mixing-draws", MixingDraws()), ("fixed", Fixed())):
        register_rules(name, rules, "networks")
    yield
    for name in ("mixing", "mixing-draws", "fixed"):
        del algorithm_rules.ALGORITHMS[name], algorithm_rules._RULES_BY_NAME[name]


@pytest.mark.parametrize(
    ("algorithm", "sections", "words"),
    [
        ("mixing", PERSON, "privacy.records_per_person: expected 1 with mixing"),
        ("mixing", {"privacy": {"noise": "shared"}, "hosts": HOSTS}, "privacy.noise: expected 'each-owner'"),
        ("mixing", {"privacy": {"mechanism": "laplace", "delta": 0.0}}, "privacy.mechanism: expected 'gaussian'"),
        ("mixing", {"learning": {"horizon": 41}}, "learning.horizon: expected epochs x batches"),
        ("mixing", {"learning": {"batches": 101}}, "learning.batches: expected at most the number of training records"),
        ("mixing-draws", {}, "learning.sampling: expected 'partition' with mixing-draws"),
        ("fixed", {}, "learning.sampling: expected 'poisson' with fixed"),
        ("fixed", PERSON, "learning.sampling: expected 'poisson' with fixed"),
    ],
)
@pytest.mark.usefixtures("added")
def test_what_a_question_is_not_proved_for_is_refused_of_an_added_algorithm(algorithm, sections, words):
    learning = {"algorithm": algorithm} | sections.get("learning", {})
    with pytest.raises(TermsError) as error:
        parley.Terms.from_dict(rings_content({"a": 100}, **{**sections, "learning": learning}))
    assert words in str(error.value)


@pytest.mark.usefixtures("added")
def test_an_added_algorithm_may_ask_what_is_proved():
    terms = parley.Terms.from_dict(rings_content({"a": 100}, learning={"algorithm": "mixing"}))
    assert terms.learning.horizon == 40


@dataclass(frozen=True)
class Joint:
    """A question of whose answers 40 have one noise."""

    together: int = 40
    disjoint: int = 1


def test_hosts_draw_no_noise_that_is_made_for_several_answers():
    with pytest.raises(GuaranteeError, match="need noise for several answers together"):
        SharedLaws(None, None, [], [[Joint()]])


@pytest.mark.parametrize(("question", "found"), [(Joint(), 3), (Joint(2), 2), (Joint(1), 1), (Joint(1, 8), 3)])
def test_a_persons_rows_are_spread_over_answers_that_have_one_noise(question, found):
    assert pieces(SimpleNamespace(privacy=SimpleNamespace(records_per_person=3)), question) == found
