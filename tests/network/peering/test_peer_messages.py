"""Words between peers: bytes from anybody are read, refused or contradicted, and nothing else."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.errors import ContradictionError, Malformed, OutOfOrder, Refusal, Unavailable, UnknownTerms
from parley.network.exchange import peer_pb2 as wire
from parley.network.peering import service as messages
from parley.network.peering.neighbourhood import Run

RUN = Run("ab" * 32, 0.25)
SHAPE = (2, 3)
WORDS = np.array([[1.0, -2.0, 1e-300], [0.1, -0.0, 3.5]])


def read(content):
    return messages.read_words(content, RUN, "a", (4, 1), SHAPE)


def test_words_come_back_to_the_bit():
    sent = messages.write_words(RUN, "a", (4, 1), WORDS)
    assert read(sent).tobytes() == WORDS.tobytes()
    assert read(messages.write_reply(later=True)) is None
    assert messages.read_question(messages.write_question(RUN.terms_hash, (4, 1))) == (RUN.terms_hash, (4, 1))
    assert messages.read_words(
        messages.write_words(RUN, "a", (9, 0), np.empty((0, 1))), RUN, "a", (9, 0), (0, 1)
    ).shape == (0, 1)


@pytest.mark.parametrize("terms", ["", "ab", "AB" * 32, "ab" * 33, "../" * 21 + "a"])
def test_a_question_needs_a_hash(terms):
    with pytest.raises(Malformed, match="expected the hash of the terms"):
        messages.read_question(messages.write_question(terms, (1, 0)))


@pytest.mark.parametrize("place", [(0, 0), (1 << 31, 0), (1, 1 << 16)])
def test_a_question_needs_a_place(place):
    with pytest.raises(Malformed, match="a round from 1 and a step of the round"):
        messages.read_question(messages.write_question(RUN.terms_hash, place))


@pytest.mark.parametrize("refusal", [UnknownTerms("no"), OutOfOrder("over"), Unavailable("soon"), Malformed("what")])
def test_refusals_keep_their_kind(refusal):
    with pytest.raises(type(refusal), match=f"a: {refusal}"):
        read(messages.write_refusal(refusal))


def test_something_else_is_a_contradiction():
    for other in (messages.write_reply(alive="a"), wire.PeerReply().SerializeToString()):
        with pytest.raises(ContradictionError, match="a: expected the message of"):
            read(other)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content):
    with contextlib.suppress(Refusal):
        terms, place = messages.read_question(content)
        assert len(terms) == 64
        assert place[0] >= 1
    with contextlib.suppress(Refusal, ContradictionError):
        words = read(content)
        assert words is None or words.shape == SHAPE


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 500), st.integers(0, 255))
def test_a_changed_byte_never_brings_numbers_of_another_place(at, byte):
    sent = bytearray(messages.write_words(RUN, "a", (4, 1), WORDS))
    sent[at % len(sent)] = byte
    try:
        words = read(bytes(sent))
    except (Refusal, ContradictionError):
        return
    assert words is None or (words.shape == SHAPE and np.isfinite(words).all())
