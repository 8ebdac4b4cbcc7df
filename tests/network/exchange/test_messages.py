from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import make_terms

from parley.errors import ExchangeError, Malformed, OutOfOrder, ParleyError, Refusal, Unavailable
from parley.network.exchange import messages
from parley.network.exchange import wire_pb2 as wire
from parley.owner.ledger.account import Head
from parley.protocol.queries import Answer, GradientQuery, ScoreQuery, StatisticsQuery, UpdateQuery

HASH = "ab" * 32
ODD = np.array([-0.0, 5e-324, -1.7976931348623157e308, 0.1, np.nextafter(1, 2)])
STATEMENT = messages.AccountStatement(Fraction(1), Fraction(3, 10), 3, 10, Head(12, "cd" * 32), "ef" * 32)


def question(theta=ODD, **changes):
    message = wire.Query.FromString(messages.write_query(GradientQuery.ask(HASH, "learner", 3, np.asarray(theta))))
    for name, value in changes.items():
        setattr(message, name, value)
    return message


def test_a_query_arrives_as_it_left_to_the_bit():
    query = GradientQuery.ask(HASH, "learner", 3, ODD)
    got = messages.read_query(messages.write_query(query))
    assert isinstance(got, GradientQuery)
    assert got.theta.tobytes() == ODD.tobytes()
    assert (got.id, got.content) == (query.id, query.content)
    update = UpdateQuery.ask(HASH, "learner", 3, ODD, 7)
    got = messages.read_query(messages.write_query(update))
    assert isinstance(got, UpdateQuery)
    assert (got.start.tobytes(), got.steps) == (ODD.tobytes(), 7)
    assert (got.id, got.content) == (update.id, update.content)
    score = ScoreQuery.ask(HASH, "learner", 11, ODD)
    back = messages.read_query(messages.write_query(score))
    assert isinstance(back, ScoreQuery)
    assert (back.id, back.content, back.theta.tobytes()) == (score.id, score.content, ODD.tobytes())
    plain = StatisticsQuery.ask(HASH, "learner", 1)
    got = messages.read_query(messages.write_query(plain))
    assert isinstance(got, StatisticsQuery)
    assert (got.id, got.content) == (plain.id, plain.content)


def test_an_answer_arrives_as_it_left_to_the_bit():
    query = GradientQuery.ask(HASH, "learner", 3, ODD)
    told = messages.read_answer(messages.write_answer(Answer(query.id, "a", 80, ODD), STATEMENT), query, "a", 80, 5)
    assert told.answer.value.tobytes() == ODD.tobytes()
    assert told.statement == STATEMENT
    assert told.statement.left == Fraction(7, 10)


def broken(**changes):
    return question(**changes).SerializeToString()


def with_shape(shape, data):
    message = question()
    message.arrays["theta"].CopyFrom(wire.Numbers(shape=shape, data=data))
    return message.SerializeToString()


def asked(kind, arrays=None, counts=None):
    """A question of this kind with these fields, whatever they are."""
    agreement = wire.Agreement(terms=HASH, learner="l")
    query = wire.Query(id="x", round=1, agreement=agreement, kind=kind, arrays=arrays, counts=counts)
    return query.SerializeToString(deterministic=True)  # tests are named after it, by several workers


def numbers(*shape, size=None):
    return wire.Numbers(shape=shape, data=bytes(8 * (shape[0] if size is None else size)))


def test_a_question_has_the_fields_of_its_kind_and_no_others():
    """The right ones, by hand: what is refused below is refused for what is wrong with it."""
    for content, kind in (
        (asked("gradient", {"theta": numbers(2)}), GradientQuery),
        (asked("update", {"start": numbers(2)}, {"steps": 5}), UpdateQuery),
        (asked("score", {"theta": numbers(2)}), ScoreQuery),
        (asked("statistics"), StatisticsQuery),
    ):
        assert type(messages.read_query(content)) is kind
    with pytest.raises(Malformed, match=r"expected start as numbers and steps as a whole number"):
        messages.read_query(asked("update", {"steps": numbers(1)}, {"start": 5}))


def score_with_shape(shape, data):
    message = wire.Query.FromString(messages.write_query(ScoreQuery.ask(HASH, "learner", 11, ODD)))
    message.arrays["theta"].CopyFrom(wire.Numbers(shape=shape, data=data))
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
        asked("update"),
        asked("update", {}, {"steps": 5}),
        asked("update", {"start": numbers(2)}),
        asked("update", {"start": numbers(2, size=1)}, {"steps": 5}),
        asked("update", {"start": numbers(1, 2, size=2)}, {"steps": 5}),
        asked("update", {"steps": numbers(2)}, {"start": 5}),  # each in the other's place
        asked("update", {"start": numbers(2), "steps": numbers(1)}),
        asked("update", {}, {"start": 5, "steps": 5}),
        asked("update", {"start": numbers(2), "steps": numbers(1)}, {"steps": 5}),
        asked("update", {"start": numbers(2)}, {"steps": 5, "more": 5}),
        asked("gradient", {"start": numbers(2)}),
        asked("gradient", {"theta": numbers(2)}, {"steps": 5}),
        asked("gradient", {"theta": numbers(2), **{f"more{j}": numbers(1) for j in range(200)}}),
        asked("statistics", {"theta": numbers(2)}),
        asked("median"),
        asked("", {"theta": numbers(2)}),
        score_with_shape([], b""),
        score_with_shape([2, 2], bytes(32)),
        score_with_shape([4_000_000_000], bytes(16)),
        score_with_shape([1], bytes(7)),
        asked("score"),
        wire.Query(id="x", round=1, agreement=wire.Agreement(terms=HASH, learner="l")).SerializeToString(),
        wire.Query(
            id="x", round=1, agreement=wire.Agreement(terms="../../etc", learner="l"), kind="statistics"
        ).SerializeToString(),
        b"\x00" * (messages.MAX_MESSAGE_BYTES + 1),
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
    query = GradientQuery.ask(HASH, "learner", 3, ODD)

    def read(answer, statement=STATEMENT, size=5):
        return messages.read_answer(messages.write_answer(answer, statement), query, "a", 80, size)

    for wrong in (
        Answer("other", "a", 80, ODD),
        Answer(query.id, "b", 80, ODD),
        Answer(query.id, "a", 81, ODD),
        Answer(query.id, "a", 80, ODD[:4]),
        Answer(query.id, "a", 80, np.full(5, np.nan)),
    ):
        with pytest.raises(ExchangeError):
            read(wrong)
    damaged = messages.write_answer(Answer(query.id, "a", 80, ODD), STATEMENT)[:-3]
    with pytest.raises(Unavailable, match="damaged"):
        messages.read_answer(damaged, query, "a", 80, 5)
    for text in ("1/0", "-1", "9" * 101, "x"):
        message = wire.Reply.FromString(messages.write_statement("a", STATEMENT))
        message.statement.spent = text
        with pytest.raises(ExchangeError):
            messages.read_statement(message.SerializeToString(), "a")


def test_a_refusal_is_the_same_kind_on_the_other_side_and_cannot_paint_a_terminal():
    with pytest.raises(OutOfOrder, match="a: round 3 was asked"):
        messages.read_statement(messages.write_refusal(OutOfOrder("round 3 was asked: expected round 1 of 10")), "a")
    strange = wire.Reply(refusal=wire.Refusal(code="new", sentence="\x1b[31mred\n")).SerializeToString()
    with pytest.raises(Refusal, match=r"^a:  \[31mred $"):
        messages.read_statement(strange, "a")


def test_the_generated_code_is_that_of_the_proto_file(tmp_path):
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    from pathlib import Path

    import parley

    package = Path(parley.__file__).parent
    source = package / "network" / "exchange" / "wire.proto"
    assert protoc.main(["", f"-I{package.parent}", f"--python_out={tmp_path}", str(source)]) == 0
    made = (tmp_path / "parley" / "network" / "exchange" / "wire_pb2.py").read_text()
    assert (
        made.split("DESCRIPTOR =")[1]
        == (package / "network" / "exchange" / "wire_pb2.py").read_text().split("DESCRIPTOR =")[1]
    )


WRITTEN_BEFORE = {  # by the version that called them Standing and Alive: names do not travel, numbers of fields do
    "answer": "0ab8010a0171120161185022150a01021210000000000000e03f00000000000000c02a",
    "statement": "12",
    "account": "96010a01611201311a04332f31302003280a300c3a40" + "6364" * 32 + "4240" + "6566" * 32,
    "health": "1a060a0161120131",
}


def test_what_travels_is_what_travelled_before_to_the_byte():
    answer = Answer("q", "a", 80, np.array([0.5, -2.0]))
    assert messages.write_answer(answer, STATEMENT).hex() == WRITTEN_BEFORE["answer"] + WRITTEN_BEFORE["account"]
    assert messages.write_statement("a", STATEMENT).hex() == WRITTEN_BEFORE["statement"] + WRITTEN_BEFORE["account"]
    assert messages.write_health("a", "1").hex() == WRITTEN_BEFORE["health"]
    methods = [method.name for method in wire.DESCRIPTOR.services_by_name["Owner"].methods]
    assert methods == ["Ask", "Stand", "Health", "Propose"]


def test_an_owner_that_lies_ends_the_run():
    terms = make_terms(60, 40)
    lies = messages.write_answer(
        Answer("q", "b", 10**9, np.zeros(3)), messages.AccountStatement(Fraction(1), Fraction(0), 0, 8)
    )
    with pytest.raises(ExchangeError, match=r"received another reply|does not fit the question"):
        messages.read_answer(lies, GradientQuery.ask(terms.hash, "learner", 1, np.zeros(3)), "b", 40, 3)
