"""Searches for neighbouring tables that a rule of the federated family drives further apart than its noise covers.

Gradient ascent from 20,000 starts a rule, in batches: over every row of a table, the row that is replaced, where the
steps start and the learner's correction, each within what the terms allow, in several settings (clipped and bounded
records, steps at the limit and usual ones, a box that binds, a penalty; squared, logistic and softmax losses). The
ascent has derivatives of its own; what it found best is then asked of Parley's own questions, whose answers are
compared.

    python benchmarks/neighbours.py [--starts 20000] [--seed 0]
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import parley
from parley.data import Design
from parley.losses.local_update import LocalUpdate
from parley.protocol.queries import CorrectedQuery, Query, Tables, UpdateQuery
from parley.protocol.queries.update import UpdateQuestion
from parley.protocol.setup import resolve
from parley.validate import Floats

ROWS, WIDTH, CLASSES = 3, 3, 3
ROUNDS = 50  # of ascent
LONGEST = 0.9999  # of the longest step that terms may have

RULES: dict[str, dict[str, Any]] = {
    "federated-averaging": {},
    "fednova": {},
    "fedprox": {"proximal": 0.7},
    "scaffold": {},
    "scaffold, gradients": {"variates": "gradients"},
    "fedlin": {},
    "fedsplit": {"proximal": 0.7},
}
SETTINGS: list[dict[str, Any]] = [
    {"kind": "linear-regression", "clip": 0.5, "limit": True, "local_steps": 5, "radius": 5.0},
    {"kind": "linear-regression", "clip": None, "limit": False, "local_steps": 12, "radius": 0.7},
    {"kind": "logistic-regression", "clip": 0.5, "limit": True, "local_steps": 5, "radius": 5.0},
    {
        "kind": "logistic-regression",
        "clip": None,
        "limit": False,
        "local_steps": 3,
        "radius": 5.0,
        "regularisation": 0.5,
    },
    {"kind": "softmax-regression", "clip": 0.5, "limit": True, "local_steps": 4, "radius": 5.0},
]

Back = Callable[[Floats], tuple[Floats, Floats, Floats]]  # from d/dg to d/dw, d/dX, d/dy


@dataclass(frozen=True)
class Case:
    """One rule in one setting, and what Parley makes of it."""

    rule: str
    setting: dict[str, Any]
    terms: parley.Terms
    question: UpdateQuestion
    round: int

    @property
    def local(self) -> LocalUpdate:
        return self.question.local

    @property
    def steps(self) -> int:
        return self.local.steps_in(self.round)

    @property
    def targets(self) -> float:
        """The largest target of a regression; classes have none."""
        return 3.0 if self.setting["kind"] == "linear-regression" else 0.0

    def query(self, start: Floats, correction: Floats) -> Query:
        what = self.terms.hash, "learner", self.round, start
        return (
            CorrectedQuery.ask(*what, correction, self.steps)
            if self.local.reach
            else UpdateQuery.ask(*what, self.steps)
        )


def make_case(rule: str, setting: dict[str, Any], number: int) -> Case:
    kind, features = setting["kind"], [f"x{j}" for j in range(WIDTH)]
    model: dict[str, Any] = {
        "kind": kind,
        "target": "y",
        "features": features,
        "intercept": False,
        "radius": setting["radius"],
    }
    model |= {"bounds": {name: [-1, 1] for name in features}, "regularisation": setting.get("regularisation", 0.0)}
    if kind == "linear-regression":
        model["bounds"]["y"] = [-3, 3]
    if kind == "softmax-regression":
        model["categories"] = {"y": ["0", "1", "2"]}
    learning = {"algorithm": rule.split(",")[0], "horizon": 2, "local_steps": setting["local_steps"], **RULES[rule]}
    privacy = {"mechanism": "gaussian", "delta": 1e-6} | ({} if setting["clip"] is None else {"clip": setting["clip"]})
    owners = [{"name": "a", "records": ROWS, "epsilon": 1.0}]
    terms = parley.Terms.from_dict({"model": model, "learning": learning, "privacy": privacy, "owners": owners})
    if setting["limit"]:
        setup = resolve(terms)
        largest = (setup.objective.largest_curvature(setup.preparation) or 0.0) + (terms.learning.proximal or 0.0)
        terms = terms.changed(learning={"step": float(f"{2 * LONGEST / largest:.6g}")})
    question = resolve(terms).part("a").training.question
    assert isinstance(question, UpdateQuestion)
    return Case(rule, setting, terms, question, number)


@dataclass(frozen=True)
class Point:
    """Where an ascent stands: the common rows and both versions of the first one [B, ROWS + 1, p], their targets, start
    and correction."""

    X: Floats
    y: Floats
    start: Floats
    correction: Floats

    def table(self, place: int) -> tuple[Floats, Floats]:
        """One of two neighbours: their first rows are rows 0 and 1."""
        rows = [place, *range(2, ROWS + 1)]
        return self.X[:, rows], self.y[:, rows]


def draw(case: Case, many: int, rng: np.random.Generator) -> Point:
    """Starts: rows inside and at the corners, steps from anywhere in the box, corrections of all sizes."""
    X = np.where(
        rng.random((many, 1, 1)) < 0.5,
        rng.uniform(-1, 1, (many, ROWS + 1, WIDTH)),
        rng.choice([-1.0, 1.0], (many, ROWS + 1, WIDTH)),
    )
    y = rng.uniform(-3, 3, (many, ROWS + 1))
    if case.setting["kind"] == "logistic-regression":
        y = rng.choice([-1.0, 1.0], y.shape)
    if case.setting["kind"] == "softmax-regression":
        y = rng.integers(0, CLASSES, y.shape).astype(float)
    parameters, radius = case.question.parameters, case.local.radius
    start = rng.uniform(-radius, radius, (many, parameters)) * rng.choice([0.0, 0.1, 1.0], (many, 1))
    correction = case.local.reach * rng.uniform(-1, 1, start.shape) * rng.choice([0.0, 0.01, 1.0], (many, 1))
    return Point(X, y, start, correction)


def margin_gradient(case: Case, w: Floats, X: Floats, y: Floats) -> tuple[Floats, Back]:
    """The mean clipped gradient of a cost of the margin at w [B, p] on tables [B, n, p], and how it hangs on each of
    them."""
    margin = np.einsum("bnp,bp->bn", X, w)
    if case.targets:
        derivative, curvature = 2 * (margin - y), np.full_like(margin, 2.0)
    else:
        wrong = 1 / (1 + np.exp(np.clip(y * margin, -500, 500)))
        derivative, curvature = -y * wrong, wrong * (1 - wrong)
    norm = np.maximum(np.linalg.norm(X, axis=-1), 1e-12)
    limit = case.question.bound.value / norm if case.question.bound.clips else np.full_like(norm, np.inf)
    free, used = np.abs(derivative) < limit, np.clip(derivative, -limit, limit)
    n = X.shape[1]

    def back(adjoint: Floats) -> tuple[Floats, Floats, Floats]:
        through = np.einsum("bnp,bp->bn", X, adjoint) / n
        at_margin = through * free * curvature
        shrinks = -through * ~free * used / norm**2  # a clipped derivative is the limit, which falls as the row grows
        at_rows = used[..., None] * adjoint[:, None] / n + at_margin[..., None] * w[:, None] + shrinks[..., None] * X
        return np.einsum("bn,bnp->bp", at_margin, X), at_rows, -at_margin if case.targets else np.zeros_like(y)

    return np.einsum("bn,bnp->bp", used, X) / n, back


def softmax_gradient(case: Case, w: Floats, X: Floats, y: Floats) -> tuple[Floats, Back]:
    """The same of the softmax cost of shortened rows."""
    n, W = X.shape[1], w.reshape(len(w), CLASSES, WIDTH)
    norm = np.maximum(np.linalg.norm(X, axis=-1, keepdims=True), 1e-12)
    room = case.question.bound.value / (np.sqrt(2) * norm) if case.question.bound.clips else np.full_like(norm, np.inf)
    short = room < 1
    Z = X * np.minimum(1.0, room)
    score = np.einsum("bcp,bnp->bnc", W, Z)
    p = np.exp(score - score.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    residual = p - (y[..., None] == np.arange(CLASSES))

    def back(adjoint: Floats) -> tuple[Floats, Floats, Floats]:
        G = adjoint.reshape(W.shape) / n
        at_residual = np.einsum("bcp,bnp->bnc", G, Z)
        at_score = p * (at_residual - np.sum(p * at_residual, axis=-1, keepdims=True))
        at_Z = np.einsum("bcp,bnc->bnp", G, residual) + np.einsum("bcp,bnc->bnp", W, at_score)
        along = X / norm * np.sum(at_Z * X / norm, axis=-1, keepdims=True)
        at_X = np.where(short, room * (at_Z - along), at_Z)
        return np.einsum("bnc,bnp->bcp", at_score, Z).reshape(w.shape), at_X, np.zeros_like(y)

    return (np.einsum("bnc,bnp->bcp", residual, Z) / n).reshape(w.shape), back


def answer(
    case: Case, point: Point, place: int
) -> tuple[Floats, Callable[[Floats], tuple[Floats, Floats, Floats, Floats]]]:
    """An owner's answers about one of the neighbours [B, P], and the way back from them to rows, targets, starts and
    corrections."""
    X, y = point.table(place)
    local, gradient = case.local, softmax_gradient if case.setting["kind"] == "softmax-regression" else margin_gradient
    held = local.regularisation + local.proximal
    if not case.steps:
        g, back = gradient(case, point.start, X, y)

        def gradient_back(adjoint: Floats) -> tuple[Floats, Floats, Floats, Floats]:
            at_w, at_X, at_y = back(adjoint)
            return at_X, at_y, at_w + local.regularisation * adjoint, np.zeros_like(adjoint)

        return local.regularisation * point.start + g, gradient_back
    w, trail = point.start, []
    for _ in range(case.steps):
        g, back = gradient(case, w, X, y)
        unbounded = w - local.step * (held * w - local.proximal * point.start + g + point.correction)
        w = np.clip(unbounded, -local.radius, local.radius)
        trail.append((back, np.abs(unbounded) < local.radius))
    length = local.step * case.steps

    def steps_back(adjoint: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        at_w, at_start, at_c = -adjoint / length, adjoint / length, np.zeros_like(adjoint)
        at_X, at_y = np.zeros_like(X), np.zeros_like(y)
        for back, inside in reversed(trail):
            at_w = at_w * inside
            down = -local.step * at_w
            more_w, more_X, more_y = back(down)
            at_start, at_c, at_X, at_y = at_start - local.proximal * down, at_c + down, at_X + more_X, at_y + more_y
            at_w = at_w + held * down + more_w
        return at_X, at_y, at_start + at_w, at_c

    return (point.start - w) / length, steps_back


def climb(case: Case, many: int, rng: np.random.Generator) -> tuple[Point, Floats]:
    """(where ascents end, the farthest that each of them got, over the sensitivity)."""
    point, sensitivity = draw(case, many, rng), case.question.sensitivity
    best, ratio = point, np.zeros(many)
    local = case.local
    for number in range(ROUNDS + 1):
        (one, one_back), (other, other_back) = answer(case, point, 0), answer(case, point, 1)
        apart = one - other
        reached = np.linalg.norm(apart, axis=-1) / sensitivity
        better = reached > ratio
        ratio = np.where(better, reached, ratio)
        best = Point(
            *(
                np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(parts(point), parts(best), strict=True)
            )
        )
        if number == ROUNDS:
            break
        first, second = one_back(apart), other_back(-apart)
        at_X, at_y = np.zeros_like(point.X), np.zeros_like(point.y)
        for place, (rows, targets, *_) in enumerate((first, second)):
            at_X[:, [place, *range(2, ROWS + 1)]] += rows
            at_y[:, [place, *range(2, ROWS + 1)]] += targets
        rate = 0.3 * 0.92**number
        point = Point(
            np.clip(point.X + rate * unit(at_X), -1, 1),
            np.clip(point.y + rate * case.targets * unit(at_y), -case.targets, case.targets)
            if case.targets
            else point.y,
            np.clip(point.start + rate * local.radius * unit(first[2] + second[2]), -local.radius, local.radius),
            np.clip(point.correction + rate * local.reach * unit(first[3] + second[3]), -local.reach, local.reach),
        )
    return best, ratio


def parts(point: Point) -> tuple[Floats, Floats, Floats, Floats]:
    return point.X, point.y, point.start, point.correction


def unit(step: Floats) -> Floats:
    """Every ascent's step scaled so that its largest number is one."""
    size = np.abs(step).max(axis=tuple(range(1, step.ndim)), keepdims=True)
    return np.asarray(step / np.where(size > 0, size, 1.0))


def asked(case: Case, point: Point, place: int) -> float:
    """What Parley itself answers about both neighbours of one ascent: their distance over the sensitivity."""
    values = []
    for which in (0, 1):
        X, y = point.table(which)
        design = Design(X[place].copy(), y[place].copy(), np.ones(ROWS))
        query = case.query(point.start[place], point.correction[place])
        case.question.check(query, ())
        values.append(case.question.bounded(query, Tables(design, design)).value)
    return float(np.linalg.norm(values[0] - values[1]) / case.question.sensitivity)


def search(rule: str, starts: int, rng: np.random.Generator, looked: int = 100) -> tuple[float, float]:
    """(largest ratio of the ascents, the same as Parley answers the best of each setting) of one rule."""
    numbers = (1, 2) if make_case(rule, SETTINGS[0], 1).local.paired else (1,)
    cases = [make_case(rule, setting, number) for setting in SETTINGS for number in numbers]
    climbed, answered = 0.0, 0.0
    for case in cases:
        point, ratio = climb(case, -(-starts // len(cases)), rng)
        order = np.argsort(ratio)[::-1][:looked]
        found = [asked(case, point, int(place)) for place in order]
        if not np.allclose(found, ratio[order], atol=1e-9):
            raise SystemExit(f"{rule}: the search and Parley compute different answers")
        climbed, answered = max(climbed, float(ratio.max())), max(answered, *found)
    return climbed, answered


def with_mutant(case: Case, **changes: Any) -> Case:
    """The case with local steps that terms would not allow, under the sensitivity of those they do."""
    return replace(case, question=replace(case.question, local=replace(case.local, **changes)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    worst, began = 0.0, time.perf_counter()
    print(f"distance over sensitivity, the most that gradient ascent from {options.starts:,} starts a rule found")
    for rule in RULES:
        climbed, answered = search(rule, options.starts, np.random.default_rng(options.seed))
        worst = max(worst, climbed, answered)
        print(f"  {rule:24s} {climbed:.12f}   asked of Parley: {answered:.12f}")
    case = make_case("fedprox", SETTINGS[0], 1)
    mutant = with_mutant(case, proximal=30.0)
    print(
        f"  a pull that the longest step does not count: {climb(mutant, 1000, np.random.default_rng(0))[1].max():.1f}"
    )
    print(f"  {time.perf_counter() - began:.0f} s")
    if not worst <= 1:
        raise SystemExit("a pair of neighbours is further apart than the noise covers")


if __name__ == "__main__":
    main()
