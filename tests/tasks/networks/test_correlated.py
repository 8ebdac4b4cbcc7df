"""Noise correlated across steps: how far a record moves all answers together, what the first one costs, and that sums
of answers carry less noise."""

import io
import os
import subprocess
import sys
import time
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from rings import rings

torch = pytest.importorskip("torch", reason="torch is not installed; pip install 'parley-dp[torch]'")

from torch import nn  # noqa: E402

import parley  # noqa: E402
from parley.errors import GuaranteeError, LedgerError, Malformed, SettingError  # noqa: E402
from parley.privacy.accounting.series import JointSeries  # noqa: E402
from parley.privacy.mechanisms.banded import Band, best_band  # noqa: E402
from parley.privacy.mechanisms.gaussian import gaussian_delta  # noqa: E402
from parley.protocol.queries import Tables  # noqa: E402
from parley.tasks.networks.architectures import cross_entropy, squared  # noqa: E402
from parley.tasks.networks.clipping import RecordGradients  # noqa: E402
from parley.tasks.networks.correlated import MixedGradientQuery, MixedGradientQuestion  # noqa: E402
from parley.tasks.networks.question import NetworkRows  # noqa: E402
from parley.tasks.networks.training import NetworkPlan, _agreement_hash, train_network  # noqa: E402
from parley.tasks.networks.training_checkpoint import FORMAT, TrainingCheckpoint  # noqa: E402

torch.set_num_threads(1)
ROWS, BATCHES, EPOCHS, PARAMETERS = 6, 3, 3, 4
EXTREMES = np.array([0.0, 1e-38, -1e-30, 1.0, -1.0, 1e10, -1e19, 3e38, -3e38, np.inf, np.nan])
PLAN = NetworkPlan(8.0, 1e-5, 1.0, batches=5, epochs=4, step=0.5, noise="correlated")


@pytest.fixture(scope="module")
def gradients():
    return RecordGradients(nn.Linear(3, 1), squared, (3,), 1.0, "l2", ROWS / BATCHES)


def question(gradients, epochs=EPOCHS, width=BATCHES):
    return MixedGradientQuestion.from_gradients(gradients, ROWS, BATCHES, Band.root(width, 0.9), epochs)


def answers(asked, rows, thetas):
    """The exact answers of all rounds to questions at thetas [rounds, width, P]."""
    tables = Tables(rows, rows)
    asking = (MixedGradientQuery.ask("h", "l", place + 1, theta) for place, theta in enumerate(thetas))
    return np.array([asked.exact(query, tables) for query in asking])


def replaced(rows, place, x, y):
    X, targets = rows.X.copy(), rows.y.copy()
    X[place], targets[place] = x, y
    return NetworkRows(X, targets, np.isfinite(targets))


def farthest(asked, seed=0, tries=40):
    """The farthest that replacing a record was found to move all answers together, by climbing over both records, their
    place and all parameters, which differ from question to question."""
    rng, best = np.random.default_rng(seed), 0.0
    rounds, width = BATCHES * EPOCHS, asked.band.width

    def drawn():
        table = NetworkRows(rng.normal(size=(ROWS, 3)).astype(np.float32), rng.normal(size=ROWS), np.ones(ROWS, bool))
        x = rng.normal(size=3)
        records = [np.append(x, side * 1e3) for side in (1, -1)]
        return SimpleNamespace(
            table=table, records=records, place=0, thetas=rng.normal(size=(rounds, width, PARAMETERS))
        )

    def changed(pair):
        new = SimpleNamespace(**{**vars(pair), "records": [each.copy() for each in pair.records]})
        match rng.integers(4):
            case 0:
                new.place = int(rng.integers(ROWS))
            case 1:
                new.thetas = pair.thetas * rng.choice([1e-3, 1.0, 1e3]) + rng.normal(size=pair.thetas.shape)
            case _:
                number = rng.choice([rng.choice(EXTREMES), rng.normal() * 10.0 ** rng.integers(-5, 6)])
                new.records[rng.integers(2)][rng.integers(4)] = number
        return new

    pair = drawn()
    for _ in range(tries):
        new = changed(pair)
        with np.errstate(over="ignore"):
            first, second = (
                answers(asked, replaced(new.table, new.place, each[:3], each[3]), new.thetas) for each in new.records
            )
        if (moved := float(np.linalg.norm(first - second))) > best:
            pair, best = new, moved
    return best


def test_no_record_found_moves_all_answers_farther_than_the_noise_was_made_for(gradients):
    asked = question(gradients)
    best = farthest(asked)
    assert 0.95 * asked.reach < best <= asked.reach
    assert asked.reach < 2 * BATCHES / ROWS * np.sqrt(EPOCHS) * np.linalg.norm(asked.band.numbers) * (1 + 1e-7)


def test_noise_for_a_record_that_is_asked_about_once_is_found_too_small(gradients):
    """The mutant: several epochs, accounted for as one."""
    assert farthest(question(gradients), tries=10) > question(gradients, epochs=1).reach


def test_replicates_are_answered_each_by_itself_and_other_shapes_are_refused(gradients):
    rng = np.random.default_rng(0)
    rows = NetworkRows(rng.normal(size=(ROWS, 3)).astype(np.float32), rng.normal(size=ROWS), np.ones(ROWS, bool))
    asked, thetas = question(gradients), rng.normal(size=(2, BATCHES, PARAMETERS))
    query = MixedGradientQuery.ask("h", "l", 4, thetas)
    asked.check(query, (2,))
    found = asked.bounded(query, Tables(rows, rows), (2,)).value
    for place, theta in enumerate(thetas):
        alone = question(gradients).exact(MixedGradientQuery.ask("h", "l", 4, theta), Tables(rows, rows))
        assert np.array_equal(found[place], alone)
    for replicates, shape in (((), (2, BATCHES, PARAMETERS)), ((), (BATCHES - 1, PARAMETERS)), ((2,), (2, PARAMETERS))):
        with pytest.raises(Malformed):
            asked.check(MixedGradientQuery.ask("h", "l", 1, np.zeros(shape)), replicates)


BANDS = """
from parley.privacy.mechanisms.banded import Band
print([Band.root(width, 0.9).numbers for width in (8, 20, 64)])
"""


def test_the_numbers_of_a_band_which_parties_agree_on_are_the_same_under_every_kernel():
    exact = Fraction(3, 8) + Fraction(9, 40) + Fraction(3, 8) * Fraction(81, 100)
    assert Band.root(3, 0.9).numbers == (1.0, 0.95, float(exact))
    oldest = "ARMV8" if os.uname().machine in ("aarch64", "arm64") else "Nehalem"
    run = [sys.executable, "-c", BANDS]
    other = subprocess.check_output(run, env=os.environ | {"OPENBLAS_CORETYPE": oldest}, text=True)
    assert other == f"{[Band.root(width, 0.9).numbers for width in (8, 20, 64)]}\n"


def test_a_band_is_looked_for_once():
    assert PLAN.band is PLAN.band


def test_a_band_for_a_hundred_thousand_steps_is_found_at_once_and_for_too_many_none_is_looked_for():
    best_band(7, 3)  # loads what is needed
    began = time.process_time()
    assert best_band(1000, 100, 0.9).width == 64
    assert time.process_time() - began < 2  # a loop over steps takes several times as long
    with pytest.raises(SettingError, match="at most 1,000,000"):
        best_band(1001, 1000)
    with pytest.raises(SettingError, match="at most 1,000,000 steps"):
        NetworkPlan(**(vars(PLAN) | {"batches": 1000, "epochs": 1001}))


@pytest.mark.parametrize("width", [1, 2, 7])
def test_the_noise_of_sums_is_what_a_loop_over_steps_finds(width):
    band, steps = Band.root(width, 0.9), 30
    weights = np.cumsum(0.9 ** np.arange(steps))
    for place in range(steps):
        for back in range(1, min(width, place + 1)):
            weights[place] -= band.numbers[back] * weights[place - back]
    spread = 3 * np.mean(np.cumsum(weights**2)) * np.sum(np.square(band.numbers))
    assert band.deviation(steps, 3, 0.9) == pytest.approx(np.sqrt(spread), rel=1e-12)


def test_a_band_in_which_a_record_counts_twice_is_refused(gradients):
    with pytest.raises(GuaranteeError, match="a record counts twice"):
        question(gradients, width=BATCHES + 1)


def test_an_answer_is_the_same_whether_earlier_sums_are_remembered_or_not(gradients):
    rng = np.random.default_rng(0)
    rows = NetworkRows(rng.normal(size=(ROWS, 3)).astype(np.float32), rng.normal(size=ROWS), np.ones(ROWS, bool))
    thetas = rng.normal(size=(6, BATCHES, PARAMETERS))
    thetas[5, :-1] = [thetas[place, -1] for place in (3, 4)]
    remembering = answers(question(gradients), rows, thetas)[5]
    afresh = question(gradients).exact(MixedGradientQuery.ask("h", "l", 6, thetas[5]), Tables(rows, rows))
    assert np.array_equal(remembering, afresh)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_answers_are_solved_for_what_they_mix(momentum):
    band, x = Band.root(5, momentum), np.random.default_rng(0).normal(size=(12, 3))
    solved: list[np.ndarray] = []
    for place in range(len(x)):
        row = band.mixed(x[max(place - 4, 0) : place + 1])
        solved.append(band.solved(row, np.array(solved[-4:]).reshape(-1, 3)))
    assert np.allclose(solved, x, atol=1e-12)


def test_the_deviation_of_sums_is_that_of_drawn_noise():
    """2,000 runs of 40 steps: a deviation is known to 1/sqrt(2 * 2000), 1.6 %, at least; 4 of these are allowed."""
    steps, band = 40, Band.root(8, 0.9)
    z = np.random.default_rng(1).normal(size=(steps, 2000))
    solved, walked, velocity = [], [], np.zeros(2000)
    for place in range(steps):
        solved.append(band.solved(z[place], np.array(solved[-7:]).reshape(-1, 2000)))
        velocity = 0.9 * velocity + solved[-1]
        walked.append((walked[-1] if walked else 0) + velocity)
    seen = np.sqrt(np.mean(np.square(walked))) * np.linalg.norm(band.numbers) * np.sqrt(2)
    assert band.deviation(steps, 2, 0.9) == pytest.approx(seen, rel=4 / np.sqrt(2 * 2000))
    best = best_band(20, 2, 0.9)
    assert best.deviation(steps, 2, 0.9) < band.deviation(steps, 2, 0.9) < Band((1.0,)).deviation(steps, 2, 0.9) / 2


def test_all_answers_together_cost_the_budget_and_the_first_spends_it():
    series = JointSeries.from_budget(Fraction(2), Fraction("1e-5"), 12, 3.0)
    assert [series.spent_after(k) for k in (0, 1, 7, 12)] == [0, 2, 2, 2]
    assert gaussian_delta(2.0, 3.0 / series.mechanism.noise_scale) <= 1e-5
    assert gaussian_delta(2.0, 3.0 / (series.mechanism.noise_scale * 0.999)) > 1e-5
    shared = JointSeries.from_budget(
        Fraction(2), Fraction("1e-5"), 12, 3.0, shared_records=2
    )  # half of it for each copy
    assert shared.mechanism == JointSeries.from_budget(Fraction(1), Fraction("5e-6"), 12, 3.0).mechanism
    assert gaussian_delta(2.0, 3.0 * 2**0.5 / shared.mechanism.noise_scale) <= 1e-5
    assert (shared.spent_after(1), shared.spent_after(12)) == (2, 2)


NOISES = ("correlated", "independent")


def test_a_budget_held_as_zcdp_takes_the_rho_of_all_answers_together(tmp_path):
    series = JointSeries.from_budget(Fraction(2), Fraction("1e-5"), 12, 3.0)
    shift = Fraction(3) / Fraction(series.mechanism.sigma)
    assert (
        shift**2 / 2 <= series.rho(series.epsilon, series.delta, series.count) <= shift**2 / 2 * (1 + Fraction("2e-9"))
    )
    books = parley.Ledger(tmp_path / "a.ledger", lifetime=9.0, lifetime_delta="1e-5", rule="zcdp")
    correlated, independent = (NetworkPlan(**(vars(PLAN) | {"epochs": 1, "noise": each})) for each in NOISES)
    train_network(network(), *points(60), correlated, ledger=books)
    with pytest.raises(LedgerError, match="zCDP cost of these terms is not known"):
        train_network(network(), *points(60), independent, ledger=books)
    most, reserved = books.rho
    assert 0 < reserved <= most
    books.close()


def points(rows, seed=0):
    frame = rings(rows, seed)
    return frame[["u", "v"]].to_numpy() / 4, frame["ring"].map({"inner": 0, "middle": 1, "outer": 2}).to_numpy()


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))


class StoppedError(Exception):
    """As a crash is, after an answer was given and before it is in the checkpoint."""


def test_a_run_that_stopped_goes_on_with_its_books_exact_and_nothing_of_the_budget_left(tmp_path, monkeypatch):
    told, save = [], TrainingCheckpoint.save

    def run():
        books = parley.Ledger(tmp_path / "a.ledger", lifetime=8.0, lifetime_delta="1e-5")
        where = {"ledger": books, "checkpoint": tmp_path / "state", "progress": told.append}
        return train_network(network(), *points(600), PLAN, **where)

    def crash(held, path):
        if held.state.round == 8:
            raise StoppedError
        save(held, path)

    with monkeypatch.context() as patched:
        patched.setattr(TrainingCheckpoint, "save", crash)
        with pytest.raises(StoppedError):
            run()
    assert [each.epsilon_spent for each in told] == [8.0] * 6  # all of it, from the first step on
    trained = run()
    assert [each.step for each in told] == list(range(1, PLAN.steps + 1))
    assert (trained.epsilon_spent, trained.released) == (8.0, True)
    books = parley.Ledger(tmp_path / "a.ledger")
    assert [each["kind"] for each in books.entries()].count("answer") == PLAN.steps  # the seventh was drawn once
    with np.load(_content(tmp_path / "state")) as held:
        assert set(held) == {"round", "theta", "memory/velocity", "memory/asked", "memory/solved"}


def _content(path):
    """The numbers of a checkpoint, which are made of answers alone."""
    return io.BytesIO(path.read_bytes()[len(FORMAT) + 32 + 64 :])


def test_plans_without_correlated_noise_are_agreed_on_as_before_and_laplace_noise_is_refused():
    plain = NetworkPlan(8.0, 1e-5, 1.0, batches=5, epochs=4, step=0.5)
    agreed = _agreement_hash(_flat(), cross_entropy, plain, "owner", 100)
    assert agreed == "4ed5c0d43d95862fea374aec648e4768e0bf3b79641f28d0cba815490df8242f"  # before there was a choice
    assert agreed != _agreement_hash(_flat(), cross_entropy, PLAN, "owner", 100)
    with pytest.raises(SettingError, match="needs mechanism = 'gaussian'"):
        NetworkPlan(1.0, 0.0, 1.0, 5, 4, 0.5, mechanism="laplace", noise="correlated")
    with pytest.raises(SettingError, match="'independent' or 'correlated'"):
        NetworkPlan(1.0, 1e-5, 1.0, 5, 4, 0.5, noise="pink")


def _flat():
    """A layer of known numbers."""
    made = nn.Linear(2, 3)
    for parameter in made.parameters():
        nn.init.constant_(parameter, 0.5)
    return made
