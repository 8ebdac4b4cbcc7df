"""Tables of the commands at 80 and 120 columns, with few and many owners of long names: every row is one line."""

import io
from dataclasses import replace
from types import SimpleNamespace as Made
from unittest import mock

import numpy as np
import pytest
from rich.console import Console

from parley.audit.exact.enumeration import ExactVerdict
from parley.audit.exact.pair_search import Searched
from parley.decisions.games.break_even import BreakEven
from parley.decisions.outlook.outlook import Interval
from parley.learning.outcome.result import Figure, Score, Scores
from parley.learning.outcome.verdict import Estimate
from parley.report import terminal
from parley.report.words import audit, forecast, joined, ledgers, membership, negotiation, noise, outlook, training
from parley.report.words import verdict as judged
from parley.tasks.dynamics import report as dynamics
from parley.tasks.ratings import report as ratings
from parley.tasks.statistics.column_statistics import commands as columns
from parley.tasks.statistics.counts import commands as counts

HEAD_LINES = 3
SMALL, LARGE = -0.01234567, 123456.789  # numbers that are long when they are printed
GAIN = Interval(SMALL, 2 * SMALL, -2 * SMALL)
ESTIMATE = Estimate(SMALL, 2 * SMALL, -2 * SMALL)
PRIVACY = Made(unit="record", noise="each_owner")


def names(count):
    return [f"northern-credit-union-{place:02}" for place in range(count)]


def stakes(name):
    return Made(
        name=name, participates=False, epsilon=0.1234, gain=SMALL, payment=-LARGE, payoff=-LARGE, wants=0.1234,
        worth=SMALL, most=SMALL, privacy_cost=SMALL, short=LARGE,
    )  # fmt: skip


def owner(name):
    return Made(
        name=name, records=1_250_000, alone=-SMALL, together=-SMALL, personal=-SMALL, gain=GAIN, verdict="unsure",
        together_interval=GAIN, epsilon=0.1234, epsilon_spent=0.1234, answers=100, late=12, clipped_share=0.123,
        adjacency="replace-one",
    )  # fmt: skip


def run(count):
    """What the rows of a run look at."""
    owners = tuple(map(owner, names(count)))
    schedule = Made(rounds_of=lambda name: range(100))
    terms = Made(
        owners=owners,
        studied=False,
        lossy=False,
        privacy=PRIVACY,
        title="",
        promised_epsilon=lambda name: 0.1234,
        schedule=schedule,
    )
    bound = Made(one_dimensional=12.34, high=23.45, low=0.1234, adjacency="replace-one")
    return Made(
        owners=owners, terms=terms, scores=object(), replicates=20, cost=-SMALL, optimal_cost=-SMALL,
        relative_fitness={"mean": -SMALL, "q25": -SMALL, "q75": -SMALL}, relative_fitness_undefined=None,
        metrics={"mean_absolute_error": -SMALL}, optimal_metrics={"mean_absolute_error": -SMALL},
        stable_bounds={each.name: bound for each in owners}, spent={},
        intervals=[Made(outcome="Late", name="home_ownership is MORTGAGE", estimate=SMALL, low=SMALL, high=-SMALL)],
    )  # fmt: skip


def scored(count):
    figures = {name: Figure(-SMALL, -SMALL / 100) for name in ("accuracy", "recall")}
    scores = tuple(Score(name, 250_000, np.zeros((1, 1)), 1.0, figures, True) for name in names(count))
    return Scores(scores, replace(scores[0], name="all owners"))


def own_verdicts(count):
    costs = dict.fromkeys(judged.MODELS, ESTIMATE)
    metrics = {"mean_absolute_error": -SMALL, "recall_at_1_percent": -SMALL}
    return [
        Made(
            owner=name, rows=250_000, costs=costs, personal_gain=ESTIMATE, alone_model="linear and trees",
            personal_model="linear and trees", same_for_all=ESTIMATE, target_words="yes", together=metrics,
            alone=metrics, personal=metrics,
        )
        for name in names(count)
    ]  # fmt: skip


def audited(count):
    one = Made(
        owner="", like="", claimed_epsilon=0.1234, delta=1e-6, adjacency="replace-one", noise_repeats=True,
        lower_bound=0.1234, by_noise=0.1234, runs=1_000_000, holds=False,
    )  # fmt: skip
    verdicts = [Made(**{**vars(one), "owner": name, "like": name}) for name in names(count)]
    return Made(
        verdicts=verdicts, score=verdicts[0], exact=[ExactVerdict("sufficient statistics", 0.1, 0.09)],
        search=[Searched("sufficient statistics", 0.9876, 200_000, 200_000, "a pair", "without AVX512_SKX")],
    )  # fmt: skip


def chapter(count):
    owners = [
        joined.Joined(name, 20_000 + place, 0.05, GAIN, 5.0, ESTIMATE, 4.0, SMALL, SMALL)
        for place, name in enumerate(names(count))
    ]
    return joined.Chapter(Made(owners=[], terms=None), None, tuple(owners))


def proposals(count):
    return [
        {
            "title": f"Interest rates of all {name}", "terms": "ab12" * 16, "terms_hash": "ab12" * 16, "learner": name,
            "accepted": "2026-03-01T10:00:00", "received": "2026-03-01T10:00:00", "epsilon": 0.1234,
            "epsilon_spent": 0.1234, "answers": 100, "agreed_answers": 1000, "closed": True, "opened": 100,
            "rounds": 1000, "begun": False, "void": 12, "waiting": [12], "state": "open", "until": "2026-04-01",
            "reason": None, "proposed_by": [name], "owner": name,
        }
        for name in names(count)
    ]  # fmt: skip


def attacked(count):
    area = Made(value=0.5, low=0.45, high=0.55)
    found = Made(
        inferences=[Made(method=each, auc=area, hits=area, lower_bound=0.1) for each in membership.ATTACK_NAMES],
        claimed_epsilon=1.0, delta=1e-6,
    )  # fmt: skip
    spread = Made(mean=0.5, low=0.4, high=0.6)
    areas, others = dict.fromkeys(membership.ATTACK_NAMES, 0.5), dict.fromkeys(membership.ATTACK_NAMES, spread)
    return Made(membership=found, areas=areas, other_models=others, blind_area=0.5)


def kinds(count):
    one = {"gains": [0.0] * count, "share_that_gains": 0.5, "delta": 1e-6, "relative_fitness": SMALL, "together": LARGE}
    return dict.fromkeys(noise.KIND_LABELS, one)


def foreseen(count):
    owners = list(map(owner, names(count)))
    values = [Made(break_even_epsilon=0.001234) for _ in owners]
    return Made(owners=owners, values=values, terms=Made(owners=owners))


def planned(count):
    labels = ("gaussian, curvature-whitened, public start", "laplace, one release of statistics")
    spent = {"horizon": 1000, "step": SMALL, "clip": 1234.5, "relative_fitness": SMALL, "expected_cost": SMALL}
    choices = [Made(label=each, **spent) for each in labels]
    return Made(choices=choices, best=choices[0])


def deal(count):
    found = list(map(stakes, names(count)))
    return Made(owners=found, wishes=lambda: found, target=0.01)


def priced(count):
    large, joins = np.full(count, -LARGE), np.arange(count) % 2 == 0
    both = Made(members=joins, epsilon=np.full(count, 0.1234), payment=large, payoff=large)
    return Made(terms=Made(owners=list(map(owner, names(count)))), truthful=Made(deal=both, contracts=both))


def served(count):
    law = Made(lowest=0.12345, highest=0.23456, scale=0.12345, p_value=0.00012345, shaped=False)
    repeats = Made(answers=12, of_answers=30_000, numbers=345, of_numbers=30_000_000, holds=False)
    return Made(
        guesses=Made(correct=1234, made=2345), lower_bound=0.123, claimed_epsilon=0.1234, leaks=True, noise=law,
        repeats=repeats, rounds=10_000, changed=12, charged=12,
    )  # fmt: skip


def damage(count):
    rule = Made(rule="geometric median", agreed=True, shift=SMALL, outside=LARGE, price=LARGE, noise=SMALL)
    return Made(rules=[rule])


def hosts(count):
    return [Made(host=name, claimed_epsilon=0.1234, lower_bound=0.1, p_value=0.01, holds=False) for name in names(3)]


def rated(count):
    own = [Made(name=name, rmse_alone=0.98765, rmse_together=0.98765, rmse_personal=0.98765) for name in names(count)]
    return Made(terms=run(count).terms, owners=own, spent=dict.fromkeys(names(count), 0.1234))


def column(count):
    made = Made(kind="names", column="home_ownership_status_at_loan", low=None, high=None, missing=0.123)
    return [Made(**vars(made), names=[(name, 0.1) for name in names(count)])]


def standing(count):
    return {
        "adjacency": "replace-one",
        "standings": [{"name": name, "peak": 0.1234, "lowest": 0.0123, "highest": 12.34} for name in names(count)],
    }


TABLES = {
    "forecast": lambda n: outlook.gain_rows(foreseen(n)),
    "forecast --details": lambda n: forecast.owner_rows(foreseen(n)),
    "forecast --details, noise": lambda n: noise.kind_rows(kinds(n), paired=True),
    "forecast --inside": lambda n: outlook.inside_rows(
        Made(rows=1_250_000, owner=owner(names(n)[0]), alone_model="linear and trees")
    ),
    "plan": lambda n: forecast.plan_rows(planned(n)),
    "negotiate": lambda n: negotiation.owner_rows(deal(n)),
    "negotiate, nobody joins": lambda n: negotiation.wish_rows(deal(n)),
    "negotiate, one budget": lambda n: noise.preference_rows(standing(n)),
    "negotiate, truthful": lambda n: negotiation.truthful_rows(priced(n)),
    "negotiate, nothing stated": lambda n: negotiation.break_even_rows(
        [BreakEven(name, 0.1234, -SMALL, -SMALL) for name in names(n)]
    ),
    "train": lambda n: training.owner_rows(run(n)),
    "train, quality": lambda n: training.quality_rows(run(n)),
    "train, scores": lambda n: training.score_rows(scored(n)),
    "train, stable noise": lambda n: training.stable_rows(run(n)),
    "train, intervals": lambda n: training.interval_rows(run(n)),
    "peer run": lambda n: training.ring_rows(run(n)),
    "score": lambda n: judged.verdict_rows(own_verdicts(n)[0]),
    "score --all": lambda n: judged.owners_rows(own_verdicts(n)),
    "demo, forecast": lambda n: joined.forecast_rows(foreseen(n), [0.05] * n),
    "demo, outcome": lambda n: joined.outcome_rows(chapter(n), chapter(n)),
    "audit": lambda n: audit.owner_rows(audited(n)),
    "audit, exact": lambda n: audit.exact_rows(audited(n)),
    "audit, search": lambda n: audit.search_rows(audited(n)),
    "audit, hosts": lambda n: audit.host_rows(hosts(n)),
    "audit --poisoning": lambda n: audit.rule_rows(damage(n)),
    "audit --served": lambda n: audit.served_rows(served(n)),
    "audit --model": lambda n: membership.attack_rows(attacked(n).membership),
    "audit --model, this one": lambda n: membership.model_rows(attacked(n)),
    "owner ledger": lambda n: ledgers.agreement_rows({"agreements": proposals(n)}),
    "owner inbox": lambda n: ledgers.inbox_rows({"proposals": proposals(n)}),
    "host ledger": lambda n: ledgers.journal_rows({"agreements": proposals(n)}),
    "learner propose": lambda n: ledgers.proposal_rows(proposals(n)),
    "identify": lambda n: dynamics.owner_rows(run(n)),
    "forecast, a plant": lambda n: dynamics.plant_rows(
        Made(
            terms=Made(owners=[owner(name) for name in names(n)]),
            alone=dict.fromkeys(names(n), SMALL),
            together=SMALL,
            without_noise=SMALL,
        )
    ),
    "train, ratings": lambda n: ratings.items_rows(rated(n)),
    "score, ratings": lambda n: ratings.worth_rows(rated(n).owners[0]),
    "count": lambda n: counts.count_rows(
        Made(
            asked=Made(model=Made(target="home_ownership")),
            records=1_250_000,
            cells=[Made(cell=name, noisy=LARGE, low=-LARGE, high=LARGE, guess=LARGE) for name in names(n)],
        )
    ),
    "column-stats": lambda n: columns.column_rows(column(n)),
}


def lines(rows, width):
    screen = Console(width=width, record=True, file=io.StringIO())
    with mock.patch.object(terminal, "console", screen):
        screen.print(terminal.terminal_table(rows))
    return screen.export_text().splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("owners", [3, 40])
@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_one_line(name, owners, width):
    rows = TABLES[name](owners)
    shown = lines(rows, width)
    assert max(map(len, shown)) <= width
    assert len(rows) <= len(shown) <= len(rows) - 1 + HEAD_LINES, "\n".join(shown)


def test_a_wrapped_cell_is_noticed():
    wide = [["owner", "reason"], ["a", "word " * 60]]
    assert len(lines(wide, 80)) > len(wide) - 1 + HEAD_LINES


def test_every_table_of_words_is_looked_at():
    """A new function of rows has to be listed above."""
    looked_at = {name for make in TABLES.values() for name in make.__code__.co_names}
    there = {
        name
        for room in (audit, forecast, joined, ledgers, membership, negotiation, noise, outlook, training, judged)
        for name in vars(room)
        if name.endswith("_rows") and vars(room)[name].__module__ == room.__name__
    }
    elsewhere = {"remote_owner_rows", "spent_rows", "way_rows"}  # below
    assert there - looked_at == elsewhere


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("owners", [3, 40])
def test_and_those_that_take_more(owners, width):
    result = run(owners)
    with mock.patch.object(training, "make_schedule", lambda terms: terms.schedule):
        remote = training.remote_owner_rows(result, dict.fromkeys(names(owners), 1.2345), set(names(owners)))
    spent = training.spent_rows({"owners": [vars(owner(name)) for name in names(owners)]})
    ways = [Made(name=name, full=LARGE, share=0.12, loss=LARGE, gain=SMALL, error=SMALL) for name in judged.WAY_LABELS]
    for rows in (remote, spent, judged.way_rows(Made(ways=ways))):
        assert len(lines(rows, width)) <= len(rows) - 1 + HEAD_LINES, "\n".join(lines(rows, width))
