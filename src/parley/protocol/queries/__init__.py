"""What can be asked: one file a kind of question, with everything that follows from it."""

from parley.protocol.queries.asked_once import (
    MinimumQuery,
    MinimumQuestion,
    ScoreQuery,
    ScoreQuestion,
    StatisticsQuery,
    StatisticsQuestion,
)
from parley.protocol.queries.gradient import GradientQuery, GradientQuestion, MinibatchQuery, MinibatchQuestion
from parley.protocol.queries.query import Answer, Query
from parley.protocol.queries.question import Context, Question, ReleasePlan, Tables
from parley.protocol.queries.update import CorrectedQuery, CorrectedQuestion, UpdateQuery, UpdateQuestion

__all__ = [
    "QUESTION_KINDS",
    "Answer",
    "Context",
    "CorrectedQuery",
    "CorrectedQuestion",
    "GradientQuery",
    "GradientQuestion",
    "MinibatchQuery",
    "MinibatchQuestion",
    "MinimumQuery",
    "MinimumQuestion",
    "Query",
    "Question",
    "ReleasePlan",
    "ScoreQuery",
    "ScoreQuestion",
    "StatisticsQuery",
    "StatisticsQuestion",
    "Tables",
    "UpdateQuery",
    "UpdateQuestion",
]

QUESTION_KINDS: dict[str, type[Question]] = {
    question.asks.kind: question
    for question in (
        GradientQuestion,
        MinibatchQuestion,
        UpdateQuestion,
        CorrectedQuestion,
        StatisticsQuestion,
        MinimumQuestion,
        ScoreQuestion,
    )
}
