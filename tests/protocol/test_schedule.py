"""Who is asked when: by strides or dealt from a pack, public, the same for every party."""

import hashlib
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import make_terms

from parley.errors import TermsError
from parley.protocol.stages import Schedule, Stage, agreed_answers, all_releases, make_schedule
from parley.terms import Terms


def turns(*names, horizon=10, strides=None, **learning):
    """Terms of owners with these names; `strides` as far as they go."""
    strides = [*(strides or [])] + [None] * len(names)
    owners = [{"name": n, "records": 10, "epsilon": 1.0, "stride": s} for n, s in zip(names, strides, strict=False)]
    return Terms.from_dict(
        {
            "model": {"kind": "linear-svm", "target": "y", "features": ["x"]},
            "learning": {"horizon": horizon, **learning},
            "privacy": {"clip": 1.0},
            "owners": owners,
        }
    )


def test_without_a_word_everybody_is_asked_in_every_round():
    schedule = make_schedule(turns("a", "b", horizon=7))
    assert schedule.everybody
    assert all(schedule.at(k) == ("a", "b") for k in range(1, 9))
    assert [*schedule.rounds_of("b")] == [1, 2, 3, 4, 5, 6, 7]
    assert make_schedule(turns("a", "b", horizon=7, strides=[1, 1])).everybody


def test_a_stride_is_the_number_of_rounds_from_one_turn_to_the_next():
    schedule = make_schedule(turns("a", "b", "c", "d", horizon=20, strides=[1, 2, 5, 10]))
    assert not schedule.everybody
    expected = {"a": range(1, 21), "b": range(1, 21, 2), "c": (1, 6, 11, 16), "d": (1, 11)}
    for name, rounds in expected.items():
        assert [*schedule.rounds_of(name)] == [*rounds]
        for k in range(1, 21):
            assert (name in schedule.at(k)) is (k in rounds)
    assert schedule.at(1) == ("a", "b", "c", "d")
    assert schedule.at(2) == ("a",)
    assert schedule.at(21) == ("a", "b", "c", "d")  # after the last round, for a score: everybody


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 12), st.integers(1, 60), st.floats(0.01, 1.0), st.integers(0, 2**63 - 1))
def test_a_share_of_the_owners_is_asked_and_all_have_their_turn_equally_often(owners, horizon, share, seed):
    """Give or take one, after any number of rounds, not only the last: nobody is early twice."""
    names = [f"o{i}" for i in range(owners)]
    many = max(1, round(share * owners))
    if many * horizon < owners:
        with pytest.raises(TermsError, match="asked at least once"):
            turns(*names, horizon=horizon, participation=share, participation_seed=seed)
        return
    schedule = make_schedule(turns(*names, horizon=horizon, participation=share, participation_seed=seed))
    asked = Counter(dict.fromkeys(names, 0))
    for k in range(1, horizon + 1):
        hand = schedule.at(k)
        assert len(hand) == len({*hand}) == many
        assert [*hand] == [name for name in names if name in hand]  # in the order of the terms
        asked.update(hand)
        assert max(asked.values()) - min(asked.values()) <= 1
    assert {name: len(schedule.rounds_of(name)) for name in names} == asked


def test_packs_are_shuffled_by_hashes_and_dealt_from_the_end():
    """Four owners, two a round: every pack makes two rounds. Written out by the rule, and as it must come out for
    ever."""
    schedule = make_schedule(turns("a", "b", "c", "d", horizon=6, participation=0.5, participation_seed=7))
    for pack in range(3):
        cards = sorted("abcd", key=lambda name: hashlib.sha256(f"7/{pack}/{name}".encode()).digest())
        assert {*schedule.at(2 * pack + 1)} == {*cards[2:]}
        assert {*schedule.at(2 * pack + 2)} == {*cards[:2]}
    assert schedule.turns == (("a", "c"), ("b", "d"), ("a", "d"), ("b", "c"), ("b", "c"), ("a", "d"))


def test_a_pack_that_does_not_come_out_even_is_used_up_first():
    """Three owners, two a round: the one that is left over is in the next hand, beside the first other one of a new
    pack."""
    schedule = make_schedule(turns("a", "b", "c", horizon=40, participation=0.6, participation_seed=1))
    for k in range(1, 40, 3):  # six turns of two packs in three rounds
        three = [schedule.at(k + j) for j in range(3) if k + j <= 40]
        (left,) = {"a", "b", "c"} - {*three[0]}
        assert len(three) < 2 or left in three[1]
        if len(three) == 3:
            assert Counter(name for hand in three for name in hand) == dict.fromkeys("abc", 2)


def test_the_draw_is_the_same_for_everybody_and_another_for_another_seed():
    terms = turns(*"abcdef", horizon=30, participation=0.5)
    assert make_schedule(terms) == make_schedule(Terms.from_dict(terms.model_dump()))
    explicit = turns(*"abcdef", horizon=30, participation=0.5, participation_seed=0)
    assert make_schedule(explicit) == make_schedule(terms)
    other = make_schedule(turns(*"abcdef", horizon=30, participation=0.5, participation_seed=1))
    assert other != make_schedule(terms)
    assert len({*other.turns}) > 5  # no pattern that repeats


def test_everybody_is_asked_where_the_share_is_whole():
    schedule = make_schedule(turns("a", "b", "c", horizon=4, participation=1.0))
    assert {schedule.at(k) for k in range(1, 5)} == {("a", "b", "c")}


@pytest.mark.parametrize(
    ("strides", "learning", "match"),
    [
        ([2, 2], {}, "every round must ask an owner"),
        ([1, 11], {}, r"owners\.stride: expected at most learning\.horizon"),
        ([1, 0], {}, r"stride = 0: expected a number >= 1"),
        ([1, 2], {"participation": 0.5}, "either participation or strides"),
        ([1, 2], {"quorum": 1, "straggler": "skip"}, r"learning\.straggler: expected 'wait' or 'stop'"),
        ([], {"participation": 0.0}, r"learning\.participation = 0\.0: expected a number > 0"),
        ([], {"participation": 1.5}, r"learning\.participation = 1\.5: expected a number <= 1"),
        ([], {"participation_seed": 3}, "allowed only with participation"),
        ([], {"participation": 0.5, "participation_seed": -3}, "participation_seed = -3"),
        ([], {"participation": 0.5, "horizon": 1}, "every owner is asked at least once"),
        (
            [],
            {"participation": 0.5, "quorum": 2, "straggler": "skip"},
            "at most the number of owners asked in a round, 1",
        ),
        ([1, 2], {"algorithm": "sufficient-statistics", "horizon": 1}, "second moments|asks every owner once"),
    ],
)
def test_turns_that_make_no_sense_are_refused(strides, learning, match):
    with pytest.raises(TermsError, match=match):
        turns("a", "b", strides=strides, **{"horizon": 10} | learning)


def test_a_schedule_without_turns_is_everybody():
    assert Schedule(("a",), 3).everybody
    assert not Schedule(("a", "b"), 1, (("a",),)).everybody


def test_an_owner_is_agreed_to_answer_in_its_turns_and_for_the_score():
    terms = make_terms(
        60, 40, model__holdout=0.5, model__bounds={"y": [-3, 3]}, privacy__score_epsilon=0.1, learning__horizon=20
    )
    turned = terms.changed(owners={"b": {"stride": 3}})
    assert [agreed_answers(turned, name) for name in "ab"] == [21, 8]


class OfSeveralReleases:
    """A question whose answers are made of several noisy values; the rest of a question is not looked at."""

    disjoint = 1

    def __init__(self, even, odd):
        self.releases_by_parity, self.most_releases = (even, odd), max(even, odd)

    def releases(self, number):
        return self.releases_by_parity[number % 2]


ROUNDS = st.one_of(
    st.builds(lambda start, count, step: range(start, start + count * step, step), *[st.integers(1, 9)] * 3),
    st.sets(st.integers(1, 40), min_size=1).map(lambda numbers: tuple(sorted(numbers))),
)


@given(ROUNDS, st.integers(1, 5), st.integers(2, 5), st.integers(0, 45), st.integers(0, 12), st.booleans())
@settings(deadline=None, max_examples=300)
def test_answers_of_several_releases_are_counted_as_if_the_costliest_rounds_had_been_answered(
    rounds, few, many, number, answers, swapped
):
    question = OfSeveralReleases(*((many, few) if swapped else (few, many)))
    assert all_releases(SimpleNamespace(batches=None), question, rounds) == sum(map(question.releases, rounds))
    costs = sorted((question.releases(k) for k in rounds if k <= number), reverse=True)
    costs += [max(few, many)] * answers  # more answers than rounds: each costs as much as the costliest
    counted = Stage(question, rounds, series=None).uses(number, answers)
    assert counted == sum(costs[:answers])
