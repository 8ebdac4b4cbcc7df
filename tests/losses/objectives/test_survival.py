"""Discrete-time survival: its formulas and optimum on the expanded table, and bounds that no pair of neighbours
exceeds, searched for by hill climbing over raw cells."""

import numpy as np
import pandas as pd
import pytest
from climbs import hill_climbs
from samples import make_terms, row_batch
from sklearn.linear_model import LogisticRegression

import parley
from parley.data import Design
from parley.data.design import BLOCK_ROWS
from parley.errors import DataError, TermsError
from parley.losses import RecordBound, Survival
from parley.losses.class_loss import Hazards, periods
from parley.losses.objectives import survival
from parley.protocol.queries import GradientQuery, Tables
from parley.protocol.setup import resolve

ENDS = [1.0, 2.5, 4.0]
ORDER = {"l1": 1, "l2": 2}
MECHANISM = {"l1": {}, "l2": {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}}
EXTREMES = [0.0, 5e-324, 1e-300, -1e-50, 1e50, 1.0, 2.5, -1e300, 1.7e308, -1.7e308]


def patients(n=500, seed=0):
    """Times until an event, of which some are cut off before."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    waited, watched = rng.exponential(4 * np.exp(-X @ [1.0, -0.7, 0.2])), rng.uniform(0, 8, n)
    return pd.DataFrame(X, columns=["x0", "x1", "x2"]).assign(
        y=np.minimum(waited, watched).round(3), event=(waited <= watched).astype(int)
    )


def survival_terms(n=1, clip=None, norm="l2", bound=1.0, **overrides):
    settings = {
        "model__kind": "survival",
        "model__event": "event",
        "model__periods": ENDS,
        "model__bounds": {f"x{j}": [-bound, bound] for j in range(3)},
        "privacy__clip": clip,
    }
    return make_terms(n, **settings | MECHANISM[norm] | overrides)


def prepared(table, **overrides):
    terms = survival_terms(len(table), **overrides)
    setup = resolve(terms)
    return setup, setup.preparation.designs(table, terms, "a")[0]


def expanded(table):
    """One row for each period that a subject lived to see: the period, its features, whether it happened."""
    rows = []
    for number, subject in enumerate(table.itertuples()):
        begin = 0.0
        for period, end in enumerate(ENDS):
            here = subject.event == 1 and begin < subject.y <= end
            if not here and not subject.y >= end:
                break
            rows.append((number, period, subject.x0, subject.x1, subject.x2, here))
            begin = end
            if here:
                break
    return pd.DataFrame(rows, columns=["subject", "period", "x0", "x1", "x2", "happened"])


# --- What it computes


@pytest.mark.parametrize("penalty", [0.0, 0.02])
def test_the_optimum_equals_scikit_learns_on_the_expanded_table(penalty):
    table = patients(800)
    setup, design = prepared(table, model__regularisation=penalty)
    theta = setup.risk.optimum([design])
    long = expanded(table)
    dummies = np.column_stack([np.eye(3)[long["period"]], long[["x0", "x1", "x2"]]])
    strength = 1 / (penalty * len(table)) if penalty else np.inf
    oracle = LogisticRegression(C=strength, fit_intercept=False, tol=1e-12, max_iter=10_000)
    np.testing.assert_allclose(theta, oracle.fit(dummies, long["happened"]).coef_[0], rtol=2e-4, atol=1e-5)
    raw = dummies @ theta
    losses = np.logaddexp(0, np.where(long["happened"], -raw, raw))
    by_subject = np.bincount(long["subject"], losses, minlength=len(table))
    np.testing.assert_allclose(setup.risk.record_losses(design, theta), by_subject, rtol=1e-10, atol=1e-12)
    assert setup.risk.cost(design, theta) == pytest.approx(by_subject.mean() + penalty / 2 * theta @ theta)


def test_a_table_in_blocks_has_the_gradient_and_the_curvature_of_its_cost():
    setup, design = prepared(patients(BLOCK_ROWS + 50), model__regularisation=0.1)
    theta, h = np.random.default_rng(1).normal(size=(2, 6)), 1e-6
    for t in theta:
        gradient = setup.risk.mean_gradient(design, t) + setup.risk.penalty_gradient(t)
        numeric = [(setup.risk.cost(design, t + e) - setup.risk.cost(design, t - e)) / (2 * h) for e in h * np.eye(6)]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-7)
        bent = [
            (setup.risk.mean_gradient(design, t + e) - setup.risk.mean_gradient(design, t - e)) / (2 * h)
            for e in h * np.eye(6)
        ]
        hessian = setup.risk.hessian(design, t)
        np.testing.assert_allclose(hessian - 0.1 * np.eye(6), bent, rtol=1e-4, atol=1e-7)
        largest = np.linalg.eigvalsh(hessian)[-1]
        assert largest <= setup.risk.curvature(design) <= setup.risk.largest_curvature(setup.preparation)
    both = setup.risk.mean_gradient(design, theta)
    np.testing.assert_allclose(both[1], setup.risk.mean_gradient(design, theta[1]), rtol=1e-12, atol=1e-15)


def test_the_loss_has_the_derivatives_it_says():
    rng, h, loss = np.random.default_rng(0), 1e-6, Hazards()
    raw, y = rng.normal(size=(4, 60)), rng.integers(0, 9, 60).astype(float)
    hessian = {place: curve for place, _, curve in loss.hessian(raw, y)}
    for place in range(4):
        away = h * (np.arange(4) == place)[:, None]
        numeric = (loss.loss(raw + away, y) - loss.loss(raw - away, y)) / (2 * h)
        np.testing.assert_allclose(loss.gradient(raw.copy(), y)[place], numeric, atol=1e-6)
        bent = (loss.gradient(raw + away, y) - loss.gradient(raw - away, y)) / (2 * h)
        np.testing.assert_allclose(hessian[place], bent[place], atol=1e-6)
    counts, happened = periods(np.array([0.0, 1.0, 2.0, 5.0, 8.0]), 4)
    assert counts.sum(axis=0).tolist() == [0, 1, 1, 3, 4]
    assert happened.argmax(axis=0)[[1, 3]].tolist() == [0, 2]


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_clipping_equals_the_per_subject_definition(norm):
    """All periods of a subject are summed, then scaled down as one, and divided by the number of subjects."""
    table = patients(300)
    setup, design = prepared(table)
    theta, clip = np.random.default_rng(5).normal(size=6) * 2, 1.0
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    long = expanded(table)
    raw = theta[:3][long["period"]] + long[["x0", "x1", "x2"]].to_numpy() @ theta[3:]
    derivative = 1 / (1 + np.exp(-raw)) - long["happened"]
    literal = np.zeros((300, 6))
    for subject, period, d in zip(long["subject"], long["period"], derivative, strict=True):
        literal[subject, period] += d
        literal[subject, 3:] += d * design.X[subject]
    np.testing.assert_allclose(setup.risk.record_gradients(design, theta), literal, rtol=1e-10, atol=1e-13)
    size = np.linalg.norm(literal, order, axis=1)
    np.testing.assert_allclose(setup.risk.record_norms(design, theta, norm), size, rtol=1e-10)
    assert 0.05 < (size > clip).mean() < 0.95
    clipped = literal * np.minimum(1, clip / np.maximum(size, 1e-9))[:, None]
    got = setup.risk.mean_gradient(design, theta, RecordBound(clip, norm, clips=True))
    np.testing.assert_allclose(got, clipped.sum(axis=0) / 300, rtol=1e-10, atol=1e-13)


def test_of_subjects_drawn_in_secret_each_is_computed_on_its_own():
    rng, objective = np.random.default_rng(2), Survival()
    rows = Design(rng.normal(size=(37, 5)), rng.integers(0, 7, 37).astype(float), np.ones(37), secret=True)
    theta, bound = rng.normal(size=8) * 30, RecordBound(0.5, "l2", clips=True)
    one = [objective.mean_gradient(rows.cut(slice(i, i + 1)), theta, bound) for i in range(37)]
    together = objective._residuals(rows, theta[None])
    for place in range(37):
        alone = objective._residuals(rows.cut(slice(place, place + 1)), theta[None])
        np.testing.assert_array_equal(together[0][..., place], alone[0][..., 0])
        np.testing.assert_array_equal(together[1][..., place], alone[1][..., 0])
    assert max(np.linalg.norm(each) for each in one) <= 0.5


def test_labels_follow_the_ends_of_the_periods():
    """An end belongs to its period; who is lost within one tells nothing about it, and after the last nothing is
    seen."""
    table = patients(11).assign(
        y=[1.0, 1.0, 1.7, 1.7, 4.0, 4.0, 9.0, 9.0, -3.0, 0.2, np.nan], event=[1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
    )
    _, design = prepared(table)
    assert design.y.tolist() == [1, 2, 3, 2, 5, 6, 6, 6, 1, 0, 0]
    assert design.weight.tolist() == [1] * 10 + [0]
    _, design = prepared(patients(3).assign(event=[1.0, np.nan, 0.0]))
    assert (design.untargeted, design.weight.tolist()) == (1, [1, 0, 1])
    with pytest.raises(DataError, match=r"'event', row 2: the value is not an event; expected 1 \(the event"):
        prepared(patients(3).assign(event=[1.0, 2.0, 0.0]))


# --- How far one subject moves it


def farthest(terms, norm, subjects=3, tries=400, enough=np.inf):
    """The largest distance between answers about two tables that differ in one subject, over the sensitivity; raw cells
    of any size, and whether it happened. It is not looked for a larger one than `enough`."""
    setup = resolve(terms)
    question, cells = setup.part("a").training.question, 4 * (subjects + 1)

    def ratios(candidates):
        numbers, happened = (np.array(each) for each in zip(*candidates, strict=True))
        raw = np.column_stack([numbers[:, :cells].reshape(-1, 4), happened.ravel()])
        rows = setup.preparation.design(row_batch(raw, ["x0", "x1", "x2", "y", "event"]), "a")
        return [ratio(rows, place * (subjects + 1), v[cells:]) for place, v in enumerate(numbers)]

    def ratio(rows, first, theta):
        rest = list(range(first + 2, first + subjects + 1))
        tables = [rows.where(np.array([one, *rest])) for one in (first, first + 1)]
        asked = GradientQuery.ask("t", "l", 1, 5 * np.tanh(theta))
        values = [question.bounded(asked, Tables(table, table)).value for table in tables]
        return float(np.linalg.norm(values[0] - values[1], ord=ORDER[norm])) / question.sensitivity

    def begin(rng):
        return 2 * rng.normal(size=cells + 6), rng.integers(0, 2, subjects + 1)

    def move(rng, at, length):
        here, happened = at
        moved = here + length * rng.normal(size=len(here)) * (rng.random(len(here)) < 0.4)
        if rng.random() < 0.08:
            moved[rng.integers(cells)] = rng.choice(EXTREMES)
        return moved, np.where(rng.random(subjects + 1) < 0.15, 1 - happened, happened)

    return hill_climbs(ratios, begin, move, range(4), tries, enough)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize(
    ("clip", "bound"), [(0.5, 30.0), (0.5, 1e50), (1e-50, 1e-50), (None, 1.0)], ids=["clip", "wide", "tiny", "bounds"]
)
def test_no_neighbours_move_the_mean_gradient_further_than_claimed(norm, clip, bound):
    found = farthest(survival_terms(3, clip=clip, norm=norm, bound=bound), norm)
    assert found <= 1
    assert found > (0.9 if bound == 30 else 0.3)  # the search does look where it hurts


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_search_finds_periods_that_are_clipped_one_by_one(norm, monkeypatch):
    """The mutant: every period's own gradient is scaled down to Xi, and then they are summed."""

    def mutant(self, design, theta, bound=None):
        def part(block, flat):
            residual, _ = self._residuals(block, flat)
            row = np.linalg.norm(np.column_stack([block.X, np.ones(len(block))]), ORDER[norm], axis=1)
            residual *= np.minimum(1.0, bound.value / np.maximum(np.abs(residual) * row, 1e-300))
            return np.concatenate([residual.sum(axis=-1), residual.sum(axis=1) @ block.X], axis=-1)

        return survival.batched(part, design, theta) / len(design)

    monkeypatch.setattr(Survival, "mean_gradient", mutant)
    assert farthest(survival_terms(3, clip=0.5, norm=norm, bound=30.0), norm, enough=1.5) > 1.5


def test_the_search_finds_a_mean_over_periods(monkeypatch):
    """The mutant: divided by how many periods the subjects lived to see, which is private."""
    true = Survival.mean_gradient

    def mutant(self, design, theta, bound=None):
        seen = max(int(periods(design.y, 3)[0].sum()), 1)
        return true(self, design, theta, bound) * len(design) / seen

    monkeypatch.setattr(Survival, "mean_gradient", mutant)
    assert farthest(survival_terms(3, clip=0.5, bound=30.0), "l2", enough=1.05) > 1.05


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_bound_that_follows_from_the_bounds_is_reached(norm):
    setup = resolve(survival_terms(norm=norm))
    corner = Design(np.ones((1, 3)), np.array([6.0]), np.ones(1))  # survived all of what was certain to happen
    reached = float(setup.risk.record_norms(corner, np.full(6, 9.0), norm)[0])
    assert 0.999 * setup.record_bound.value < reached <= setup.record_bound.value
    assert setup.record_bound.value == pytest.approx({"l1": 3 + 3 * 3, "l2": (3 + 9 * 3) ** 0.5}[norm], rel=1e-9)


def test_several_records_of_a_person_count_as_several():
    one, two = (
        resolve(survival_terms(10, clip=1.0, **more)).part("a").training.question.sensitivity
        for more in ({}, {"privacy__person": "who", "privacy__records_per_person": 2})
    )
    assert two == pytest.approx(2 * one, rel=1e-6)


# --- Terms


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model__event": None}, r"model.event: missing; expected the column that says whether the event happened"),
        ({"model__periods": None}, r"model.periods: missing; expected the ends of the periods"),
        ({"model__periods": [3.0, 3.0]}, r"model.periods: expected the ends of the periods in increasing order"),
        ({"model__intercept": True}, r"model.intercept: not allowed with kind = 'survival'"),
        (
            {"model__bounds": {"y": [0, 3]}},
            r"model.bounds.y: not allowed for survival, because the periods define the times",
        ),
        ({"model__features": ["x0", "event"]}, r"model.features.event: expected a feature"),
        ({"model__event": "y"}, r"model.event: expected a column other than the target"),
        ({"model__class_weight": {"1": 2.0}}, r"model.class_weight: allowed only for a model that predicts classes"),
        (
            {"privacy__score_epsilon": 0.1, "model__holdout": 0.5},
            r"privacy.score_epsilon: not allowed with kind = 'survival'",
        ),
        (
            {"learning__algorithm": "federated-averaging", "learning__local_steps": 2, "learning__step": "auto"},
            r"federated-averaging is not available for survival, because no bound is known on the effect",
        ),
        (
            {"learning__algorithm": "sufficient-statistics", "learning__horizon": 1, "learning__step": None},
            "second moments suffice only for",
        ),
        ({"model__kind": "logistic-regression"}, r"model.event: allowed only with kind = 'survival'"),
        ({"model__exposure": "x2"}, r"model.exposure: allowed only with kind = 'poisson-regression'"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(changes, said):
    with pytest.raises(TermsError, match=said):
        survival_terms(100, **{"clip": 1.0, **changes})


def test_a_subject_is_a_row_so_subjects_are_held_out(tmp_path):
    table = patients(200)
    terms = survival_terms(200, clip=1.0, model__holdout=0.25, learning__horizon=5)
    result = parley.train(terms, [parley.Owner("a", table)], replicates=2, seed=0)
    assert set(result.metrics) == {"concordance", "log_loss"}
    assert result.model.baseline_.shape == (3,)
    assert (terms.train_rows("a"), terms.held_out_rows("a")) == (150, 50)
    hazard, alive = result.model.predict_hazard(table), result.model.predict_survival(table)
    np.testing.assert_allclose(alive, np.cumprod(1 - hazard, axis=1))
    result.model.save(tmp_path / "model.json")
    again = parley.load_model(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(table), result.model.predict(table))
    assert again.predict(table).max() <= ENDS[-1]
