"""Neighbouring tables over the whole range of doubles: does any pair of answers differ by more than the sensitivity
that the noise is for?

A setting is a set of hostile terms (magnitudes over the whole allowed range, or far outside it, which must be refused),
with or without a hostile public sample, for each kind of query and both kinds of noise. In a setting one row of the
table is replaced by several others, and any two of these tables are neighbours: one case each, at one parameter. The
worst pair is then climbed from: rows, other rows and parameters are changed in exponent, mantissa and sign, and what
moves the answer further is kept. Random pairs alone would prove nothing. Distances are taken in extended precision.

    python benchmarks/magnitudes.py [--cases 1000000] [--seed 0] [--jobs 2]
"""

import argparse
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd

import parley
from parley.data import Design, Preparation
from parley.data.encoding import OneHot
from parley.errors import ParleyError
from parley.owner.owner import Agreement
from parley.privacy.mechanisms import SafeNoise
from parley.privacy.mechanisms.mechanism import MAX_MAGNITUDE, Bounded
from parley.protocol.queries import CorrectedQuery, GradientQuery, Query, ScoreQuery, StatisticsQuery, UpdateQuery
from parley.validate import LARGEST, SMALLEST, Floats

KINDS = ("linear-regression", "linear-svm", "logistic-regression", "softmax-regression")
QUERIES = [
    *((asked, kind) for asked in ("gradient", "score") for kind in KINDS),
    *((asked, kind) for asked in ("update", "corrected") for kind in KINDS if kind != "linear-svm"),
    ("statistics", "linear-regression"),
]
LOCAL: dict[str, list[dict[str, Any]]] = {
    "update": [
        {"algorithm": "federated-averaging"},
        {"algorithm": "fednova"},
        {"algorithm": "fedprox", "proximal": 1.0},
    ],
    "corrected": [
        {"algorithm": "scaffold"},
        {"algorithm": "scaffold", "variates": "gradients", "horizon": 2},
        {"algorithm": "fedlin", "horizon": 2},
        {"algorithm": "fedsplit", "proximal": 1.0},
    ],
}
VARIANTS, PARAMETERS, GENERATIONS = 10, 2, 4


@dataclass(frozen=True)
class Findings:
    """What some settings brought."""

    cases: int = 0
    settings: int = 0
    refused: int = 0
    ratio: float = 0.0  # the largest distance of two neighbours' answers over the sensitivity
    unbounded: int = 0  # values that were not finite, before or after the noise
    worst: str = ""
    kinds: tuple[tuple[str, float], ...] = ()

    def __add__(self, other: "Findings") -> "Findings":
        kinds = dict(self.kinds)
        for kind, ratio in other.kinds:
            kinds[kind] = max(kinds.get(kind, 0.0), ratio)
        return Findings(
            self.cases + other.cases,
            self.settings + other.settings,
            self.refused + other.refused,
            max(self.ratio, other.ratio),
            self.unbounded + other.unbounded,
            self.worst if self.ratio >= other.ratio else other.worst,
            tuple(sorted(kinds.items())),
        )


@dataclass(frozen=True)
class Magnitudes:
    """Numbers of any size. `wild`: over all doubles, else over what terms may hold. A setting has a favourite exponent,
    whose multiples are frequent: what one number makes vanish another brings back, as whoever writes terms against an
    owner would choose them."""

    rng: np.random.Generator
    wild: bool
    favourite: float

    def sizes(self, shape: Any = ()) -> Floats:
        rng, ends = self.rng, (5e-324, 1.79e308) if self.wild else (SMALLEST, LARGEST)
        low, high = np.log10(ends[0]), np.log10(ends[1])
        multiple = rng.choice([-2, -1, -1, -0.5, 0.5, 1, 1, 2], shape) * self.favourite
        exponent = np.select(
            [(where := rng.random(shape)) < 0.45, where < 0.65, where < 0.8],
            [multiple + rng.uniform(-2, 2, shape), rng.uniform(low, high, shape), rng.uniform(-3, 3, shape)],
            rng.choice([low, high, 0.0, np.log10(SMALLEST), np.log10(LARGEST), -161.8, -154.0, 154.0], shape),
        )
        return np.clip(10 ** np.clip(exponent, low, high), *ends)

    def size(self) -> float:
        return float(self.sizes())

    def signed(self, shape: Any) -> Floats:
        """The same with signs, and some zeros."""
        return np.asarray(self.sizes(shape) * self.rng.choice([-1.0, 1.0, 1.0, -1.0, 0.0], shape))


def draw_terms(numbers: Magnitudes, asked: str, kind: str, folder: Path) -> dict[str, Any]:
    """Hostile terms for one owner."""
    rng = numbers.rng
    p, rows = int(rng.choice([1, 1, 2, 3, 5, 12])), int(rng.choice([1, 2, 3, 6]))
    columns = [f"x{j}" for j in range(p)]
    regression, gaussian = kind == "linear-regression", bool(rng.random() < 0.5)
    model: dict[str, Any] = {"kind": kind, "target": "y", "features": columns, "intercept": bool(rng.random() < 0.4)}
    bounded = [*columns, "y"] if regression else columns
    local = asked in LOCAL
    declare = 1.0 if local else rng.choice([0.0, 0.7, 1.0])
    model["bounds"] = {c: sorted(map(float, numbers.signed(2))) for c in bounded if rng.random() < declare}
    if rng.random() < 0.3:  # one size for all: sums of many squares
        size = numbers.size()
        model["bounds"] = {c: [-size, size] for c in bounded}
    if kind == "softmax-regression":
        model["categories"] = {"y": ["0", "1", "2"]}
    if not regression and rng.random() < 0.7:
        model["class_weight"] = {"1": numbers.size()} | ({"0": numbers.size()} if rng.random() < 0.5 else {})
    if local or rng.random() < 0.7:
        model["radius"] = numbers.size()
    if rng.random() < 0.5:
        model["regularisation"] = numbers.size()
    privacy: dict[str, Any] = {"mechanism": "gaussian", "delta": 1e-6} if gaussian else {}
    if rng.random() < 0.7:
        privacy["clip"] = numbers.size()
        # of the size of a gradient: else the rounding of the steps hides what a record does
        if local and rng.random() < 0.7:
            reach = max((abs(end) for ends in model["bounds"].values() for end in ends), default=1.0)
            privacy["clip"] = float(
                np.clip(model["radius"] * min(reach, 1e100) ** 2 * 10 ** rng.uniform(-9, 1), SMALLEST, LARGEST)
            )
    learning: dict[str, Any] = {"horizon": 1}
    if asked == "statistics":
        learning["algorithm"] = "sufficient-statistics"
    elif local:
        learning |= LOCAL[asked][rng.integers(len(LOCAL[asked]))] | {"local_steps": int(rng.choice([1, 2, 7]))}
        if "proximal" in learning:
            learning["proximal"] = numbers.size()
        if rng.random() < 0.3:
            learning["step"] = numbers.size()
    if asked == "score":
        model["holdout"], privacy["score_epsilon"], rows = 0.5, 0.5, 2 * rows
    if rng.random() < 0.5:
        draw_columns(rng, model, columns)
    if rng.random() < 0.5:
        model["public"] = str(draw_public(numbers, columns, regression, folder, model.get("categories", {})))
        if rng.random() < 0.4:
            model["components"] = int(rng.integers(1, p + 1))
    elif rng.random() < 0.6:  # centres and scales that somebody wrote
        scaled = [*columns, *(["y"] if regression and model["intercept"] else [])]
        numeric = [c for c in scaled if c not in model.get("categories", {}) or model.get("coding") == "integer"]
        model["centres"] = {c: float(numbers.signed(())) for c in numeric if rng.random() < 0.7}
        model["scales"] = {c: numbers.size() for c in numeric if rng.random() < 0.7}
    owners = [{"name": "a", "records": rows, "epsilon": float(10 ** rng.uniform(-2, 2)) + (asked == "score")}]
    return {"model": model, "learning": learning, "privacy": privacy, "owners": owners}


def draw_columns(rng: np.random.Generator, model: dict[str, Any], columns: list[str]) -> None:
    """Names in some columns, one-hot or not; transforms, and gaps that are filled, in others."""
    model["coding"] = str(rng.choice(["integer", "one-hot", "one-hot"]))
    named = [c for c in columns if rng.random() < 0.4]
    model["categories"] = model.get("categories", {}) | {c: ["0", "1", "2"][: rng.integers(1, 4)] for c in named}
    model["bounds"] = {c: ends for c, ends in model["bounds"].items() if c not in named}
    least = {c: (model["bounds"][c][0] if c in model["bounds"] else -1.0) for c in columns if c not in named}
    takes = {
        c: ["signed-log1p"] + ["log1p"] * (low > -1) + ["sqrt"] * (low >= 0) + ["log"] * (low > 0)
        for c, low in least.items()
    }
    model["transforms"] = {c: str(rng.choice(known)) for c, known in takes.items() if rng.random() < 0.4}
    model["missing"] = {c: "fill" for c in columns if rng.random() < 0.4} or "refuse"


def draw_public(
    numbers: Magnitudes, columns: list[str], regression: bool, folder: Path, named: Collection[str] = frozenset()
) -> Path:
    """A public sample: each column around its own centre with its own spread, or of any doubles at all."""
    rng = numbers.rng
    rows = int(rng.integers(12, 20))
    table = {}
    for column in [*columns, "y"] if regression else columns:
        centre, spread = numbers.signed(()), numbers.size()
        with np.errstate(over="ignore"):
            values = centre + spread * rng.normal(size=rows) if rng.random() < 0.8 else numbers.signed(rows)
        table[column] = rng.integers(0, 4, rows) if column in named else np.nan_to_num(values)
    if not regression:
        table["y"] = rng.integers(0, 2, rows)
    path = folder / f"{rng.integers(1 << 62)}.parquet"
    pd.DataFrame(table).to_parquet(path)
    return path


def draw_rows(numbers: Magnitudes, agreement: Agreement, rows: int) -> pd.DataFrame:
    """Records over all doubles, in the range alone, at the ends of their bounds, and where the public sample has its
    centre."""
    rng = numbers.rng
    numbers = replace(numbers, wild=numbers.wild or bool(rng.random() < 0.4))
    p = agreement.setup.preparation
    table = {}
    first = np.cumsum([0, *(len(e.labels) for e in p.encodings)])[:-1]
    ends = [(c, *p.ranges[c], p.centre[i], p.scale[i]) for c, i in zip(p.features, first, strict=True)]
    target = (p.model.target, *p.target_bounds, p.target_centre, p.target_scale)
    for column, low, high, centre, scale in [*ends, *([] if p.model.classifies else [target])]:
        far = numbers.signed(rows)
        with np.errstate(over="ignore"):
            near = np.nan_to_num(centre + scale * numbers.signed(rows))
        bound = np.nan_to_num(rng.choice([low, high, centre], rows))
        where = rng.random(rows)
        table[column] = np.select([where < 0.3, where < 0.5, where < 0.8], [far, near, bound], 0.0)
    lone = np.where(rng.random(rows) < 0.4, rng.integers(0, len(p.features), rows), -1)  # rows with one feature alone
    whole = np.where(rng.random(rows) < 0.4, 10 ** rng.uniform(-60, 0, rows), 1.0)  # rows small as a whole
    for j, column in enumerate(p.features):
        table[column] = np.where((lone >= 0) & (lone != j), 0.0, table[column] * whole)
    if p.model.classifies:
        table[p.model.target] = rng.integers(0, 3 if p.model.predicts == "classes" else 2, rows)
    return without_targets(rng, with_names_and_gaps(rng, pd.DataFrame(table), p, 1.0))


def with_names_and_gaps(
    rng: np.random.Generator, frame: pd.DataFrame, preparation: Preparation, share: float
) -> pd.DataFrame:
    """Some cells of columns of names drawn anew, listed or not; gaps in columns where they are filled."""
    for e in preparation.encodings:
        if e.column in preparation.categories:
            frame[e.column] = np.where(rng.random(len(frame)) < share, rng.integers(0, 5, len(frame)), frame[e.column])
        if e.fills:
            frame[e.column] = np.where(rng.random(len(frame)) < 0.3 * share, np.nan, frame[e.column])
    return frame


def changed_rows(rng: np.random.Generator, frame: pd.DataFrame, classes: int, preparation: Preparation) -> pd.DataFrame:
    """Rows a step away: another exponent, mantissa or sign in some cells, another name, a gap, or a zero."""
    values = frame.to_numpy(dtype=np.float64)
    with np.errstate(over="ignore"):
        moved = np.select(
            [(kind := rng.integers(0, 6, values.shape)) == 0, kind == 1, kind == 2, kind == 3],
            [
                -values,
                values * 10 ** (rng.normal(0, 1, values.shape) * rng.choice([0.1, 3, 60])),
                values * rng.uniform(0.5, 2, values.shape),
                np.zeros_like(values),
            ],
            np.nextafter(values, rng.choice([-np.inf, np.inf], values.shape)),
        )
        moved = np.where(rng.random(values.shape) < 0.4, moved, values)
        whole = np.where(rng.random(len(values)) < 0.3, 10 ** rng.normal(0, 10, len(values)), 1.0)
        moved[:, :-1] *= whole[:, None]  # all features, not the target
    moved = np.nan_to_num(moved)
    other = pd.DataFrame(moved, columns=frame.columns)
    for e in preparation.encodings:
        if e.column in preparation.categories:
            other[e.column] = frame[e.column].to_numpy()
    other = with_names_and_gaps(rng, other, preparation, 0.4)
    if classes:
        known = frame["y"].fillna(0).astype(int)
        other["y"] = np.where(rng.random(len(frame)) < 0.3, (known + 1) % classes, known)
    return without_targets(rng, other)


def without_targets(rng: np.random.Generator, frame: pd.DataFrame) -> pd.DataFrame:
    """Some rows without a target: they contribute nothing, and are neighbours of those with one."""
    return frame.assign(y=np.where(rng.random(len(frame)) < 0.15, np.nan, frame["y"]))


def draw_parameters(numbers: Magnitudes, agreement: Agreement) -> Floats:
    """Parameters in the box: its corners, the middle, any size."""
    rng, numbers = numbers.rng, replace(numbers, wild=bool(numbers.rng.random() < 0.3))
    limit = box(agreement)[1]
    shape = (PARAMETERS, agreement.setup.parameters)
    some = np.clip(numbers.signed(shape), -limit, limit)
    return np.where(rng.random((PARAMETERS, 1)) < 0.4, rng.choice([-limit, limit], shape), some)


def ask(agreement: Agreement, asked: str, theta: Floats) -> Query:
    if asked == "gradient":
        return GradientQuery.ask(agreement.hash, "learner", 1, theta)
    if asked == "score":
        return ScoreQuery.ask(agreement.hash, "learner", 2, theta)
    if asked == "update":
        return UpdateQuery.ask(agreement.hash, "learner", 1, theta, agreement.setup.terms.learning.local_steps or 1)
    if asked == "corrected":
        rng = np.random.default_rng(list(theta.tobytes()))  # the same for all neighbours
        number, local = int(rng.integers(1, agreement.setup.terms.learning.horizon + 1)), agreement.setup.local_update
        sizes = local.reach * rng.choice([0.0, 1.0, 1e-3, 1e-12], theta.shape) * rng.choice([-1.0, 1.0], theta.shape)
        return CorrectedQuery.ask(agreement.hash, "learner", number, theta, sizes, local.steps_in(number))
    return StatisticsQuery.ask(agreement.hash, "learner", 1)


def answers(
    agreement: Agreement, asked: str, part: str, rows: Design, place: int, parameters: Floats
) -> list[list[Bounded]]:
    """For each parameter the bounded values of all tables that have one of `rows` at `place`."""
    base: Design = getattr(agreement.tables, part)
    found: list[list[Bounded]] = [[] for _ in parameters]
    for v in range(len(rows)):
        table = Design(base.X.copy(), base.y.copy(), base.weight.copy())
        table.X[place], table.y[place], table.weight[place] = rows.X[v], rows.y[v], rows.weight[v]
        tables = replace(agreement.tables, **{part: table})
        for q, theta in enumerate(parameters):
            query = ask(agreement, asked, theta)
            found[q].append(agreement.part.check(query, ()).question.bounded(query, tables))
    return found


def distances(values: Floats, norm: str) -> Floats:
    """Between any two of the answers [V, d], in extended precision: no square vanishes or overflows."""
    difference = np.abs(values.astype(np.longdouble)[:, None] - values.astype(np.longdouble)[None, :])
    return np.asarray(difference.sum(axis=-1) if norm == "l1" else np.sqrt((difference**2).sum(axis=-1)))


def explore(rng: np.random.Generator, folder: Path, asked: str, kind: str) -> Findings:
    """One setting: terms, a table, and neighbours climbed from generation to generation."""
    wild = bool(rng.random() < 0.6)
    numbers = Magnitudes(rng, wild, rng.uniform(0, 308 if wild else 50))
    content = draw_terms(numbers, asked, kind, folder)
    try:
        terms = parley.Terms.from_dict(content)
        width = len(terms.model.features or ())
        blank = pd.DataFrame(
            np.zeros((terms.owners[0].records, width + 1)), columns=[*(terms.model.features or ()), "y"]
        )
        agreement = parley.Owner("a", blank).prepare(terms)
        table = draw_rows(numbers, agreement, terms.owners[0].records)
        agreement = parley.Owner("a", table).prepare(terms)
        mechanism = agreement.part.stages[asked == "score"].series.mechanism
        mechanism.event  # noqa: B018 - refuses noise of an impossible size
    except ParleyError:
        return Findings(refused=1)
    hot = " one-hot" if any(isinstance(e, OneHot) for e in agreement.setup.preparation.encodings) else ""
    name = f"{asked} {kind} {mechanism.norm}{' public' if terms.model.public else ''}{hot}"
    part = "held_out" if asked == "score" else "train"
    place = int(rng.integers(len(getattr(agreement.tables, part))))
    variants, parameters = draw_rows(numbers, agreement, VARIANTS), draw_parameters(numbers, agreement)
    if asked == "statistics":
        parameters = parameters[:1]
    classes = {"number": 0, "two classes": 2, "classes": 3}[terms.model.predicts]
    cases, worst, unbounded = 0, 0.0, 0
    for _ in range(GENERATIONS):
        rows = agreement.setup.preparation.design(variants, "a")
        pairs = []
        for bounded in answers(agreement, asked, part, rows, place, parameters):
            values = np.array([b.value for b in bounded])
            unbounded += int((~(np.abs(values) <= MAX_MAGNITUDE)).sum())
            assert {b.sensitivity for b in bounded} == {mechanism.sensitivity}, "a sensitivity depends on a record"
            ratio = distances(values, mechanism.norm) / mechanism.sensitivity
            cases += VARIANTS * (VARIANTS - 1) // 2
            ratio[np.isnan(ratio)] = np.inf
            pairs.append((float(ratio.max()), *divmod(int(ratio.argmax()), VARIANTS)))
        best, first, second = max(pairs)
        worst = max(worst, best)
        kept = variants.iloc[[first, second]]
        children = changed_rows(rng, kept.iloc[rng.integers(0, 2, VARIANTS - 2)], classes, agreement.setup.preparation)
        variants = pd.concat([kept, children], ignore_index=True)
        if rng.random() < 0.3:
            table = changed_rows(rng, table, classes, agreement.setup.preparation)
            others = agreement.setup.preparation.designs(table, terms, "a")[part == "held_out"]
            agreement = replace(agreement, tables=replace(agreement.tables, **{part: others}))
        if rng.random() < 0.5:
            parameters = np.clip(parameters * rng.choice([-1.0, 1.0, 1e3, 1e-3], parameters.shape), *box(agreement))
    if not unbounded:  # else it would be refused, and is counted already
        unbounded += int((~np.isfinite(mechanism.release(bounded[first], SafeNoise()))).sum())
    return Findings(cases, 1, 0, worst, unbounded, f"{name}: {terms.canonical}", ((name, worst),))


def box(agreement: Agreement) -> tuple[float, float]:
    limit = min(agreement.setup.terms.model.radius or LARGEST, LARGEST)
    return -limit, limit


def search(cases: int, seed: int | np.random.SeedSequence, queries: Sequence[tuple[str, str]] = QUERIES) -> Findings:
    """At least this many cases of these queries in turn, from as many settings as it takes."""
    rng, found = np.random.default_rng(seed), Findings()
    with tempfile.TemporaryDirectory() as folder:
        while found.cases < cases:
            found += explore(rng, Path(folder), *queries[(found.settings + found.refused) % len(queries)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    began, pieces = time.perf_counter(), 20
    seeds = np.random.SeedSequence(options.seed).spawn(pieces)
    work = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(search)(-(-options.cases // pieces), seed) for seed in seeds
    )
    found = sum(work, start=Findings())
    for kind, ratio in found.kinds:
        print(f"  {kind:48s} {ratio:.15f}")
    print(f"{found.cases:,} neighbour pairs in {found.settings:,} settings ({found.refused:,} more were refused)")
    print(f"  largest distance over sensitivity: {found.ratio:.15f}   at {found.worst}")
    print(f"  values or answers that were not finite: {found.unbounded}")
    print(f"  {time.perf_counter() - began:.0f} s")
    if not found.ratio <= 1 or found.unbounded:
        raise SystemExit("a pair of neighbours is further apart than the noise covers")


if __name__ == "__main__":
    main()
