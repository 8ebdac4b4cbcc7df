"""What can be asked: one file a kind of question, with everything that follows from it."""

from parley.queries.gradient import GradientQuery, GradientQuestion
from parley.queries.item_factors import ItemFactorsQuery, ItemFactorsQuestion
from parley.queries.minibatch import MinibatchQuery, MinibatchQuestion
from parley.queries.minimum import MinimumQuery, MinimumQuestion
from parley.queries.query import Answer, Query
from parley.queries.question import Context, Question, Tables
from parley.queries.scales import ScalesQuery, ScalesQuestion
from parley.queries.score import ScoreQuery, ScoreQuestion
from parley.queries.statistics import StatisticsQuery, StatisticsQuestion
from parley.queries.trajectories import TrajectoriesQuery, TrajectoriesQuestion
from parley.queries.update import CorrectedQuery, CorrectedQuestion, UpdateQuery, UpdateQuestion

__all__ = [
    "KINDS",
    "Answer",
    "Context",
    "CorrectedQuery",
    "CorrectedQuestion",
    "GradientQuery",
    "GradientQuestion",
    "ItemFactorsQuery",
    "ItemFactorsQuestion",
    "MinibatchQuery",
    "MinibatchQuestion",
    "MinimumQuery",
    "MinimumQuestion",
    "Query",
    "Question",
    "ScalesQuery",
    "ScalesQuestion",
    "ScoreQuery",
    "ScoreQuestion",
    "StatisticsQuery",
    "StatisticsQuestion",
    "Tables",
    "TrajectoriesQuery",
    "TrajectoriesQuestion",
    "UpdateQuery",
    "UpdateQuestion",
]

KINDS: dict[str, type[Question]] = {
    question.asks.kind: question
    for question in (
        GradientQuestion,
        MinibatchQuestion,
        UpdateQuestion,
        CorrectedQuestion,
        StatisticsQuestion,
        MinimumQuestion,
        ScoreQuestion,
        ScalesQuestion,
        TrajectoriesQuestion,
        ItemFactorsQuestion,
    )
}
