"""Batches: who is in them, how far one person moves their gradients in each norm, and what a mutant of the rules would
allow."""

import hashlib
import itertools
from fractions import Fraction

import numpy as np
import pytest

import parley
from parley.data import Design
from parley.data.split import batch, draw_places, largest_batch, shuffled
from parley.errors import GuaranteeError, Malformed, OutsideBox
from parley.losses import RecordBound
from parley.protocol.queries import GradientQuery, MinibatchQuery, Tables
from parley.protocol.queries.gradient import MinibatchQuestion
from parley.protocol.setup import resolve

CLASSES = ["p", "q", "r"]
BOUNDS = {f"x{j}": [-3.0, 3.0] for j in range(4)}


def batch_terms(
    kind="softmax-regression", records=40, mechanism="gaussian", learning=None, privacy=None, owners="a", **model
):
    delta = {"delta": 1e-5} if mechanism == "gaussian" else {}
    target = {"target": "y", "features": [*BOUNDS]} | (
        {"categories": {"y": CLASSES}} if kind != "logistic-regression" else {}
    )
    return parley.Terms.from_dict(
        {
            "model": {"kind": kind, "intercept": False, "radius": 20.0, **target, **model},
            "learning": {"algorithm": "private-sgd", "batches": 5, "epochs": 3, "step": 0.1, **(learning or {})},
            "privacy": {"mechanism": mechanism, "clip": 1.0, **delta, **(privacy or {})},
            "owners": [{"name": name, "records": records, "epsilon": 1.0} for name in owners],
        }
    )


def question(terms, name="a"):
    return resolve(terms).part(name).training.question


def rows(kind, n, rng, scale=3.0):
    y = rng.integers(0, 3, n).astype(float) if kind != "logistic-regression" else rng.choice([-1.0, 1.0], n)
    return Design(scale * rng.uniform(-1, 1, (n, 4)), y, np.ones(n))


def answer(asked, design, theta, number, seed=b""):
    query = MinibatchQuery.ask("ab12", "learner", number, theta)
    return asked.bounded(query, Tables(design, design.empty()), (), seed)


def measure(v, norm):
    return {"l1": np.abs(v).sum(), "l2": np.sqrt(v @ v)}[norm]


@pytest.mark.parametrize(("n", "batches"), [(10, 3), (7, 7), (1000, 13), (12, 1)])
def test_batches_of_an_epoch_are_disjoint_cover_everybody_and_differ_in_size_by_one(n, batches):
    for epoch in range(3):
        parts = [batch(shuffled(n, 5, "a", epoch), batches, b) for b in range(batches)]
        assert sorted(np.concatenate(parts).tolist()) == list(range(n))
        sizes = {len(part) for part in parts}
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) == largest_batch(n, batches)


def test_epochs_owners_and_seeds_shuffle_anew_and_alike_on_every_machine():
    orders = [shuffled(50, *key).tolist() for key in ((0, "a", 0), (0, "a", 1), (0, "b", 0), (1, "a", 0))]
    assert all(left != right for left, right in itertools.combinations(orders, 2))
    stream = hashlib.shake_256(b"\x05" + bytes(7) + b"0/a/3" + bytes(8)).digest(8 * 50)  # by the words of the document
    words = [int.from_bytes(stream[8 * i : 8 * i + 8], "little") for i in range(50)]
    assert shuffled(50, 0, "a", 3).tolist() == sorted(range(50), key=words.__getitem__)


def test_rows_are_drawn_independently_at_their_rate():
    n, rate, draws = 400, 0.25, 500
    picked = np.zeros((draws, n), dtype=bool)
    for k in range(draws):
        picked[k, draw_places(n, k.to_bytes(32, "little"), rate)] = True
    assert abs(picked.mean() - rate) < 4 * np.sqrt(rate * (1 - rate) / picked.size)
    sizes = picked.sum(axis=1)
    variance = n * rate * (1 - rate)
    assert abs(sizes.var() / variance - 1) < 4 * np.sqrt(2 / draws)
    pairs = (picked[:, :-1] & picked[:, 1:]).mean()
    assert abs(pairs - rate**2) < 5 * np.sqrt(rate**2 / picked.size)


@pytest.mark.parametrize("share", [0.5, 1.5])
def test_rates_that_16_digits_do_not_hold_are_drawn_by_further_ones(share):
    """Of rows whose first digits tie, the further digits draw half: none or all would be eight deviations off."""
    n = 2**23
    expected = share * n / 2**16
    assert abs(len(draw_places(n, bytes(32), share * 2.0**-16)) - expected) < 5 * np.sqrt(expected)
    other = draw_places(n, b"\1" * 32, share * 2.0**-16)
    assert not np.array_equal(draw_places(n, bytes(32), share * 2.0**-16), other)


CASES = [
    (kind, norm, mechanism)
    for kind in ("softmax-regression", "one-vs-all", "logistic-regression")
    for norm in ("l1", "l2", "linf")
    for mechanism in ("laplace", "gaussian")
]


@pytest.mark.parametrize(("kind", "norm", "mechanism"), CASES)
def test_nobody_moves_an_epoch_further_than_its_sensitivity_in_any_norm(kind, norm, mechanism):
    """Adversarial rows: far out along axes and diagonals, of any class, at parameters that are sure and wrong."""
    rng = np.random.default_rng(3)
    asked = question(batch_terms(kind, mechanism=mechanism, privacy={"clip": 0.7, "clip_norm": norm}))
    assert asked.bound.norm == norm
    base, worst = rows(kind, 40, rng), 0.0
    extremes = [
        1e3 * np.array(v) for v in ((1, 1, 1, 1), (1, -1, 1, -1), (1, 0, 0, 0), (-1, -1, -1, -1), (1e-3, 1e-3, 0, 0))
    ]
    for _ in range(40):
        theta = rng.choice([0.0, 0.05, 5.0]) * rng.normal(size=asked.parameters)
        place = rng.integers(40)
        before, after = (_with_row(base, place, extremes[rng.integers(5)], kind, rng) for _ in range(2))
        moved = [answer(asked, after, theta, k).value - answer(asked, before, theta, k).value for k in range(1, 6)]
        assert sum(bool(v.any()) for v in moved) <= 1  # no other batch changes by a bit
        worst = max(worst, max(measure(v, asked.norm) for v in moved))
    assert worst <= asked.sensitivity
    if norm == asked.norm:
        assert worst > 0.55 * asked.sensitivity  # softmax: two residuals of three classes cannot point apart entirely


def _with_row(design, place, x, kind, rng):
    X, y = design.X.copy(), design.y.copy()
    X[place] = x
    y[place] = rng.choice([-1.0, 1.0]) if kind == "logistic-regression" else rng.integers(3)
    return Design(X, y, design.weight)


def test_a_linf_clip_is_reached_in_every_coordinate_so_that_less_noise_would_not_do():
    """The whole of d C: half of it, as if the clip were in the mechanism's norm, is exceeded."""
    asked = question(
        batch_terms("logistic-regression", mechanism="laplace", privacy={"clip": 0.5, "clip_norm": "linf"})
    )
    design = rows("logistic-regression", 40, np.random.default_rng(0))
    far = {sign: Design(*_filled(design, 7, sign * 100.0)) for sign in (1.0, -1.0)}
    moved = max(
        measure(answer(asked, far[1.0], np.zeros(4), k).value - answer(asked, far[-1.0], np.zeros(4), k).value, "l1")
        for k in range(1, 6)
    )
    assert moved == pytest.approx(2 * 4 * 0.5 * 5 / 40, rel=1e-9)
    assert moved <= asked.sensitivity < 1.0000001 * moved
    assert moved > 2 * 0.5 * 5 / 40 * 1.5  # the mutant that forgets d


def test_bounds_in_another_norm_are_rounded_up():
    down = [(v, d) for v in (0.1, 0.7, 1e-40 / 3) for d in range(1, 200) if Fraction(v * d) < Fraction(v) * d]
    assert down  # products that floats round down
    assert all(Fraction(RecordBound(v, "linf", clips=True).within("l1", d)) >= Fraction(v) * d for v, d in down)
    for norms in (("linf", "l2"), ("l2", "l1")):
        for v, d in down:
            assert Fraction(RecordBound(v, norms[0], clips=True).within(norms[1], d)) ** 2 >= Fraction(v) ** 2 * d


def _filled(design, place, x):
    X, y = design.X.copy(), design.y.copy()
    X[place], y[place] = x, 1.0
    return X, y, design.weight


@pytest.mark.parametrize("sampled", [False, True])
def test_a_record_enters_one_class_only_where_a_batch_is_split(sampled):
    learning = {"sampling": "poisson", "batches": 2} if sampled else {"batches": 2}
    asked = question(batch_terms("one-vs-all", records=30, learning={**learning, "epochs": 2}))
    rng = np.random.default_rng(1)
    base, seed = rows("one-vs-all", 30, rng), b"s" * 32
    touched = set()
    for place in range(30):
        other = _with_row(base, place, rng.normal(size=4), "one-vs-all", rng)
        theta = rng.normal(size=12)
        changes = [
            (answer(asked, other, theta, k, seed).value - answer(asked, base, theta, k, seed).value) for k in (1, 2)
        ]
        blocks = [np.flatnonzero(v.reshape(3, 4).any(axis=1)) for v in changes]
        assert all(len(found) <= 1 for found in blocks)
        touched |= {int(b) for found in blocks for b in found}
    assert touched == {0, 1, 2}


@pytest.mark.parametrize("sampled", [False, True])
def test_which_class_a_record_is_for_does_not_depend_on_who_else_is_drawn(sampled):
    """The mutant that deals a batch out in turn would move everybody after a row that is not drawn to another class."""
    learning = {"sampling": "poisson"} if sampled else {}
    asked = question(batch_terms("one-vs-all", records=30, learning=learning))
    places = np.arange(0, 30, 2)
    labels = {int(place): part for part, some in enumerate(asked._split(places, 30, 0)) for place in some}
    assert {*labels} == {*places.tolist()}
    for gone in range(len(places)):
        rest = np.delete(places, gone)
        assert all(labels[int(place)] == part for part, some in enumerate(asked._split(rest, 30, 0)) for place in some)


def test_a_split_batch_is_an_unbiased_mean_of_every_classs_gradient():
    terms = batch_terms("one-vs-all", records=90, learning={"batches": 1, "epochs": 400}, privacy={"clip": 1e3})
    asked = question(terms)
    rng = np.random.default_rng(2)
    design, theta = rows("one-vs-all", 90, rng), rng.normal(size=12)
    answers = np.array([3 * answer(asked, design, theta, k).value for k in range(1, 401)])
    exact = asked.objective.mean_gradient(design, theta)
    assert np.all(np.abs(answers.mean(axis=0) - exact) < 5 * answers.std(axis=0) / 20 + 1e-12)


def test_over_an_epoch_the_batches_add_up_to_the_gradient_of_all_records():
    asked = question(batch_terms(records=41))
    rng = np.random.default_rng(4)
    design, theta = rows("softmax-regression", 41, rng), rng.normal(size=12)
    total = sum(answer(asked, design, theta, k).value for k in range(6, 11)) / 5  # the second epoch; sizes 8 and 9
    assert total == pytest.approx(asked.objective.mean_gradient(design, theta, asked.bound), rel=1e-12)


def test_people_with_several_rows_pay_once_an_epoch():
    """A person's rows may be in several batches: what these move adds up to no more than one release's sensitivity."""
    table = {"person": "who", "records_per_person": 3}
    asked = question(batch_terms(privacy={**table, "clip": 1.0}, mechanism="laplace"))
    rng = np.random.default_rng(6)
    base = rows("softmax-regression", 40, rng)
    worst, spread = 0.0, 0
    for _ in range(60):
        before = after = base
        for place in rng.choice(40, 3, replace=False):
            before, after = (
                _with_row(d, place, 1e3 * rng.choice([-1.0, 1.0], 4), "softmax-regression", rng)
                for d in (before, after)
            )
        theta = np.zeros(12)
        moved = [answer(asked, after, theta, k).value - answer(asked, before, theta, k).value for k in range(1, 6)]
        worst, spread = max(worst, sum(measure(v, "l1") for v in moved)), max(spread, sum(bool(v.any()) for v in moved))
    assert spread == 3
    assert 0.5 * asked.sensitivity < worst <= asked.sensitivity
    series = resolve(batch_terms(privacy={**table, "clip": 1.0}, mechanism="laplace")).part("a").training.series
    assert series.mechanism.sensitivity >= asked.sensitivity


def test_a_drawn_row_moves_the_answer_by_half_the_sensitivity_at_most():
    asked = question(batch_terms(learning={"sampling": "poisson"}))
    rng = np.random.default_rng(8)
    design, worst = rows("softmax-regression", 40, rng, scale=50.0), 0.0
    for k in range(60):
        seed, theta = k.to_bytes(32, "little"), rng.normal(size=12)
        with_row = answer(asked, design, theta, 1, seed).value
        gone = Design(design.X.copy(), design.y, design.weight)
        gone.X[k % 40] = 0.0  # a row of zeros has no gradient, as if it had not been drawn
        worst = max(worst, measure(with_row - answer(asked, gone, theta, 1, seed).value, "l2"))
    assert 0.9 * asked.sensitivity / 2 < worst <= asked.sensitivity / 2


def test_poisson_answers_need_a_secret_and_repeat_with_it():
    asked = question(batch_terms(learning={"sampling": "poisson"}))
    design = rows("softmax-regression", 40, np.random.default_rng(0))
    theta = np.ones(12)
    with pytest.raises(GuaranteeError, match="seed"):
        answer(asked, design, theta, 1)
    query = MinibatchQuery.ask("ab12", "learner", 1, theta)
    with pytest.raises(GuaranteeError, match="secret"):
        asked.exact(query, Tables(design, design.empty()))
    once, again, other = (answer(asked, design, theta, 1, seed).value for seed in (b"1" * 32, b"1" * 32, b"2" * 32))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


def test_other_questions_and_places_outside_the_box_are_refused():
    asked = question(batch_terms())
    with pytest.raises(Malformed, match="minibatch"):
        asked.check(GradientQuery.ask("ab12", "learner", 1, np.zeros(12)), ())
    with pytest.raises(OutsideBox):
        asked.check(MinibatchQuery.ask("ab12", "learner", 1, np.full(12, 21.0)), ())
    assert isinstance(asked, MinibatchQuestion)


def test_rows_keep_their_norms_in_every_batch_and_piece_and_all_of_them_are_not_copied():
    design = rows("softmax-regression", 9_000, np.random.default_rng(2))
    sizes = {norm: design.row_norms(norm) for norm in ("l1", "l2", "linf")}
    some = np.sort(np.random.default_rng(3).permutation(9_000)[:5_000])
    for places in (some, np.arange(9_000)):
        part = design.batch(places)
        np.testing.assert_array_equal(part.X, design.X[places])
        for norm, size in sizes.items():
            np.testing.assert_array_equal(
                np.concatenate([piece.row_norms(norm) for piece in part.pieces]), size[places]
            )
            assert all(np.shares_memory(piece.row_norms(norm), part.row_norms(norm)) for piece in part.pieces)
    assert np.shares_memory(design.batch(np.arange(9_000)).X, design.X)
    assert not np.shares_memory(design.batch(np.arange(9_000)[::-1].copy()).X, design.X)  # the mutant that only counts
    np.testing.assert_array_equal(design.batch(np.arange(9_000)[::-1].copy()).y, design.y[::-1])
