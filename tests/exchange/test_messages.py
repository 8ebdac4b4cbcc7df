from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.account import Head
from parley.errors import ExchangeError, Malformed, OutOfOrder, ParleyError, Refusal, Unavailable
from parley.exchange import messages
from parley.exchange import wire_pb2 as wire
from parley.queries import Answer, GradientQuery, ScoreQuery, StatisticsQuery, UpdateQuery

HASH = "ab" * 32
ODD = np.array([-0.0, 5e-324, -1.7976931348623157e308, 0.1, np.nextafter(1, 2)])
STANDING = messages.Standing(Fraction(1), Fraction(3, 10), 3, 10, Head(12, "cd" * 32), "ef" * 32)


def question(theta=ODD, **changes):
    message = wire.Query.FromString(messages.write_query(GradientQuery.ask(HASH, "learner", 3, np.asarray(theta))))
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def test_a_query_arrives_as_it_left_to_the_bit():
    asked = GradientQuery.ask(HASH, "learner", 3, ODD)
    got = messages.read_query(messages.write_query(asked))
    assert isinstance(got, GradientQuery)
    assert got.theta.tobytes() == ODD.tobytes()
    assert (got.id, got.content) == (asked.id, asked.content)
    walked = UpdateQuery.ask(HASH, "learner", 3, ODD, 7)
    got = messages.read_query(messages.write_query(walked))
    assert isinstance(got, UpdateQuery)
    assert (got.start.tobytes(), got.steps) == (ODD.tobytes(), 7)
    assert (got.id, got.content) == (walked.id, walked.content)
    score = ScoreQuery.ask(HASH, "learner", 11, ODD)
    back = messages.read_query(messages.write_query(score))
    assert isinstance(back, ScoreQuery)
    assert (back.id, back.content, back.theta.tobytes()) == (score.id, score.content, ODD.tobytes())
    plain = StatisticsQuery.ask(HASH, "learner", 1)
    assert (
        messages.read_query(messages.write_query(plain)) == plain or messages.read_query(messages.write_query(plain)).id == plain.id
    )


def test_an_answer_arrives_as_it_left_to_the_bit():
    asked = GradientQuery.ask(HASH, "learner", 3, ODD)
    told = messages.read_answer(messages.write_answer(Answer(asked.id, "a", 80, ODD), STANDING), asked, "a", 80, 5)
    assert told.answer.value.tobytes() == ODD.tobytes()
    assert told.standing == STANDING
    assert told.standing.left == Fraction(7, 10)


def broken(**changes):
    return question(**changes).SerializeToString()


def with_shape(shape, data):
    message = question()
    message.gradient.theta.CopyFrom(wire.Numbers(shape=shape, data=data))
    return message.SerializeToString()


def update(**changes):
    agreement = wire.Agreement(terms=HASH, learner="l")
    return wire.Query(id="x", round=1, agreement=agreement, update=wire.Update(**changes)).SerializeToString()


def score_with_shape(shape, data):
    message = wire.Query.FromString(messages.write_query(ScoreQuery.ask(HASH, "learner", 11, ODD)))
    message.score.theta.CopyFrom(wire.Numbers(shape=shape, data=data))
    return message.SerializeToString()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 40,
        broken(id=""),
        broken(id="x" * 201),
        broken(round=0),
        broken(round=2**31),
        with_shape([], b""),
        with_shape([2, 2], bytes(32)),
        with_shape([4_000_000_000], bytes(16)),
        with_shape([3], bytes(16)),
        with_shape([0], b""),
        with_shape([1], bytes(7)),
        update(),
        update(steps=5),
        update(start=wire.Numbers(shape=[2], data=bytes(8)), steps=5),
        update(start=wire.Numbers(shape=[1, 2], data=bytes(16)), steps=5),
        score_with_shape([], b""),
        score_with_shape([2, 2], bytes(32)),
        score_with_shape([4_000_000_000], bytes(16)),
        score_with_shape([1], bytes(7)),
        wire.Query(id="x", round=1, agreement=wire.Agreement(terms=HASH, learner="l"), score=wire.Score()).SerializeToString(),
        wire.Query(id="x", round=1, agreement=wire.Agreement(terms=HASH, learner="l")).SerializeToString(),
        wire.Query(id="x", round=1, agreement=wire.Agreement(terms="../../etc", learner="l")).SerializeToString(),
        b"\x00" * (messages.LARGEST_MESSAGE + 1),
    ],
)
def test_whatever_is_not_a_query_is_refused_as_malformed(content):
    with pytest.raises(Malformed):
        messages.read_query(content)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
@example(b"\n" * 100)
@example(messages.write_query(ScoreQuery.ask(HASH, "learner", 11, ODD))[:-3])
def test_no_bytes_bring_anything_but_a_refusal_or_a_query(content):
    for read in (messages.read_query, messages.read_agreement):
        try:
            read(content)
        except Malformed:
            continue
    try:
        messages.read_answer(content, GradientQuery.ask(HASH, "l", 1, ODD), "a", 80, 5)
    except ParleyError:
        return
    raise AssertionError


def test_a_learner_does_not_believe_everything():
    asked = GradientQuery.ask(HASH, "learner", 3, ODD)

    def read(answer, standing=STANDING, size=5):
        return messages.read_answer(messages.write_answer(answer, standing), asked, "a", 80, size)

    for wrong in (
        Answer("other", "a", 80, ODD),
        Answer(asked.id, "b", 80, ODD),
        Answer(asked.id, "a", 81, ODD),
        Answer(asked.id, "a", 80, ODD[:4]),
        Answer(asked.id, "a", 80, np.full(5, np.nan)),
    ):
        with pytest.raises(ExchangeError):
            read(wrong)
    damaged = messages.write_answer(Answer(asked.id, "a", 80, ODD), STANDING)[:-3]
    with pytest.raises(Unavailable, match="damaged"):
        messages.read_answer(damaged, asked, "a", 80, 5)
    for text in ("1/0", "-1", "9" * 101, "x"):
        message = wire.Reply.FromString(messages.write_standing("a", STANDING))
        message.standing.spent = text
        with pytest.raises(ExchangeError):
            messages.read_standing(message.SerializeToString(), "a")


def test_a_refusal_is_the_same_kind_on_the_other_side_and_cannot_paint_a_terminal():
    with pytest.raises(OutOfOrder, match="a: round 3 was asked"):
        messages.read_standing(messages.write_refusal(OutOfOrder("round 3 was asked: expected round 1 of 10")), "a")
    strange = wire.Reply(refusal=wire.Refusal(code="new", sentence="\x1b[31mred\n")).SerializeToString()
    with pytest.raises(Refusal, match=r"^a:  \[31mred $"):
        messages.read_standing(strange, "a")


def test_the_generated_code_is_that_of_the_proto_file(tmp_path):
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    from pathlib import Path

    import parley

    package = Path(parley.__file__).parent
    source = package / "exchange" / "wire.proto"
    assert protoc.main(["", f"-I{package.parent}", f"--python_out={tmp_path}", str(source)]) == 0
    made = (tmp_path / "parley" / "exchange" / "wire_pb2.py").read_text()
    assert made.split("DESCRIPTOR =")[1] == (package / "exchange" / "wire_pb2.py").read_text().split("DESCRIPTOR =")[1]
