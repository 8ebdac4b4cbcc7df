"""Searches for secret draws in which one row moves an answer further than the noise covers: `learning.sampling =
"poisson"`.

A setting is a model, noise, clip, number of columns, way of preparing them, table in memory or in a Parquet folder, and
a theta at which margins cancel but for their rounding (up to 1e50, or at a hinge's corner). In each, every draw B of a
small table is answered by Parley's own question, and |f(B + i) - f(B)| is compared with half of the sensitivity for
every B and every row i that is not in it; of larger tables a chain of draws, each with one row more. Settings are tried
under each of the BLAS kernels and NumPy features that this processor has.

With `--products` margins come from one product of matrices, so that who is drawn beside a row changes its last digit:
the search finds it. At last it prints what an answer costs in one setting, by the law of all draws, and how long
answers take beside those about a batch that is no secret.

    python benchmarks/draws.py [--settings 10000] [--seed 0]
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import parley
from parley.audit.agreement import environments
from parley.audit.exact.enumeration import AnswerLaw, drawn_answers, every_draw, largest_step
from parley.audit.exact.pair_search import aimed_at
from parley.data import Design
from parley.data.split import draw_places
from parley.privacy.mechanisms import SafeNoise
from parley.protocol.queries import MinibatchQuery, Tables
from parley.protocol.queries.gradient import MinibatchQuestion
from parley.protocol.setup import resolve
from parley.validate import Floats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from mutants import margins_by_products  # type: ignore[import-not-found]

KINDS = (
    "linear-regression",
    "linear-svm",
    "logistic-regression",
    "softmax-regression",
    "one-vs-all",
    "least-squares-classes",
)
NUMBER, TWO = {"linear-regression"}, {"linear-svm", "logistic-regression"}
CLASSES = ["p", "q", "r"]
PREPARED: dict[str, dict[str, Any]] = {
    "columns": {},
    "whitened": {"whitening": "public"},
    "curved": {"whitening": "public-curvature"},
    "components": {"components": 2},
    "basis": {"basis": {"points": 5, "width": 1.0}},
}
WIDTHS = (1, 2, 3, 5, 7, 8, 9, 10, 12, 16, 17, 24, 31, 33, 50, 64, 65, 100)
SIZES = (1.0, 30.0, 1e6, 1e15, 1e16, 1e17, 1e24, 1e33, 1e50)  # of theta


@dataclass(frozen=True)
class Setting:
    """What is searched once."""

    kind: str
    mechanism: str = "laplace"
    clip: float | None = 1.0
    clip_norm: str | None = None
    width: int = 10
    prepared: str = "columns"
    streamed: bool = False
    size: float = 1e16
    rows: int = 5
    spread: bool = False  # whether rows differ; else they are copies of one
    chain: bool = False  # draws that grow by one row, instead of all of them
    seed: int = 0


def growing_draws(order: Any) -> Any:
    """Draws of the first 0, 1, 2, ... rows of an order, for tables of which there are too many draws."""
    return [np.sort(order[:m]) for m in range(len(order) + 1)], [(m, m + 1) for m in range(len(order))]


def search(setting: Setting, folder: Path) -> float:
    """The largest |f(B + i) - f(B)| over half of the sensitivity."""
    rng = np.random.default_rng(setting.seed)
    question, tables, theta = posed(setting, folder, rng)
    order = rng.permutation(setting.rows)
    draws, pairs = growing_draws(order) if setting.chain else every_draw(setting.rows)
    return largest_step(question, answers(question, tables, theta, draws), pairs)


def answers(question: MinibatchQuestion, tables: Tables, theta: Floats, draws: Sequence[Any]) -> Floats:
    """What the question says at theta [P] for each of these draws [draws, P], before any noise."""
    query = MinibatchQuery.ask("ab12", "learner", 1, theta)
    question.check(query, ())
    return drawn_answers(question, query, tables, draws)


def posed(setting: Setting, folder: Path, rng: np.random.Generator) -> tuple[MinibatchQuestion, Tables, Floats]:
    """The question, the table and a theta at which margins of its rows hang on how they are rounded."""
    terms = terms_of(setting, folder, rng)
    setup = resolve(terms)
    question = setup.part("a").training.question
    assert isinstance(question, MinibatchQuestion)
    frame = table_of(setting, rng)
    prepared = setup.preparation
    rows = prepared.designs(frame, terms, "a")[0].in_memory()
    theta = cancelling(setting, rows.X[0], rows.y[0], question.parameters // prepared.width, rng)
    if setting.spread and setting.prepared == "columns":
        frame = frame.assign(**{f"x{setting.width - 1}": solved(rows.X, theta[: prepared.width], rows.y, setting)})
    if setting.streamed:
        place = folder / f"table-{len(list(folder.iterdir()))}"
        place.mkdir()
        half = setting.rows // 2
        for name, part in (("a", frame[:half]), ("b", frame[half:])):
            part.to_parquet(place / f"{name}.parquet", index=False, row_group_size=max(3, half))
        return question, Tables(*prepared.designs(place, terms, "a")), theta
    return question, Tables(*prepared.designs(frame, terms, "a")), theta


def terms_of(setting: Setting, folder: Path, rng: np.random.Generator) -> parley.Terms:
    """Terms whose owner draws its rows in secret, each with probability a half."""
    columns = [f"x{j}" for j in range(setting.width)]
    target = {"y": [-3.0, 3.0]} if setting.kind in NUMBER else {}
    model: dict[str, Any] = {
        "kind": setting.kind, "target": "y", "features": columns, "intercept": False, "radius": setting.size,
        "bounds": {**{c: [-4.0, 4.0] for c in columns}, **target}, **PREPARED[setting.prepared],
    }  # fmt: skip
    if setting.kind not in NUMBER | TWO:
        model["categories"] = {"y": CLASSES}
    if setting.prepared != "columns":
        sample = table_of(Setting(setting.kind, width=setting.width, rows=40, spread=True), rng)
        model["public"] = str(folder / f"public-{len(list(folder.iterdir()))}.csv")
        sample.to_csv(model["public"], index=False)
        model["features"] = columns
    clip: dict[str, Any] = {} if setting.clip is None else {"clip": setting.clip}
    if setting.clip is not None and setting.clip_norm is not None:
        clip["clip_norm"] = setting.clip_norm
    delta = {"delta": 1e-5} if setting.mechanism == "gaussian" else {}
    return parley.Terms.from_dict(
        {
            "model": model,
            "learning": {"algorithm": "private-sgd", "batches": 2, "sampling": "poisson", "epochs": 1, "step": 0.1},
            "privacy": {"mechanism": setting.mechanism, **clip, **delta},
            "owners": [{"name": "a", "records": setting.rows, "epsilon": 1.0}],
        }
    )


def table_of(setting: Setting, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of numbers up to 3, copies of one unless they are spread, and a target."""
    n = setting.rows
    X = (
        rng.uniform(0.3, 1.0, (n, setting.width))
        * rng.choice([-1.0, 1.0], (n, setting.width))
        * rng.choice([1.0, 3.0], n)[:, None]
    )
    place = rng.integers(0, 3, n)
    if not setting.spread:
        X[:], place[:] = X[0], place[0]
    if setting.kind in NUMBER:
        y: Any = np.array([-1.7, 0.1, 2.3])[place]
    else:
        y = np.where(place > 0, 1, 0) if setting.kind in TWO else np.array(CLASSES)[place]
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(setting.width)]).assign(y=y)


def critical(kind: str, y: Floats | float) -> Floats | float:
    """The margin at which a derivative changes fastest."""
    return y if kind in {*NUMBER, "linear-svm"} else 0.0


def cancelling(setting: Setting, x: Floats, y: float, blocks: int, rng: np.random.Generator) -> Floats:
    """Parameters of this size whose margins with x are critical, but for their rounding."""
    shape, wanted = (blocks, len(x)), float(critical(setting.kind, y))
    theta = setting.size * rng.uniform(0.1, 1.0, shape) * rng.choice([-1.0, 1.0], shape) / max(2.0, len(x) ** 0.5)
    return np.clip(aimed_at(theta, x, wanted), -setting.size, setting.size).ravel()


def solved(X: Floats, theta: Floats, y: Floats, setting: Setting) -> Floats:
    """The last column with which every row's margin is critical, where its bounds allow that."""
    rest = X[:, :-1] @ theta[:-1]
    return np.clip((critical(setting.kind, y) - rest) / (theta[-1] or 1.0), -4.0, 4.0)


def settings(count: int, seed: int) -> Iterator[Setting]:
    """So many settings, drawn at random; every model in turn."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        streamed = bool(rng.random() < 0.15)
        chain = bool(rng.random() < 0.2)
        prepared = (
            str(rng.choice(["columns", "columns", "columns", *PREPARED]))
            if streamed or rng.random() < 0.1
            else "columns"
        )
        if prepared == "curved" and KINDS[number % len(KINDS)] == "linear-svm":
            prepared = "whitened"  # corners have no curvature
        clip = None if rng.random() < 0.3 else float(rng.choice([1.0, 0.01, 100.0]))
        width = int(rng.choice(WIDTHS))
        yield Setting(
            kind=KINDS[number % len(KINDS)],
            mechanism=str(rng.choice(["laplace", "gaussian"])),
            clip=clip,
            clip_norm=str(rng.choice(["l1", "l2", "linf"])) if rng.random() < 0.5 else None,
            width=max(width, 3) if prepared != "columns" else width,
            prepared=prepared,
            streamed=streamed,
            size=float(rng.choice(SIZES)),
            rows=int(rng.integers(8, 71) if chain else rng.integers(2, 5 if streamed else 7)),
            spread=bool(rng.random() < 0.5),
            chain=chain,
            seed=int(rng.integers(2**31)),
        )


def actual_epsilons(folder: Path, thetas: int = 8) -> tuple[float, float]:
    """What an answer costs at least that is said to cost 1, and what it would with margins by products of matrices.

    By the law of all draws of two rows, each with probability 1/2: one at a critical margin, and one that is replaced
    by others that pull either way or hardly at all.
    """
    setting = Setting("linear-regression", width=50, size=1e24, rows=2)
    rng = np.random.default_rng(setting.seed)
    terms = terms_of(setting, folder, rng).changed(owners={"a": {"epsilon": 2.0}})
    setup = resolve(terms)
    stage = setup.part("a").training
    question = stage.question
    assert isinstance(question, MinibatchQuestion)
    rows = setup.preparation.designs(table_of(setting, rng), terms, "a")[0].in_memory()
    x, draws = rows.X[0], [np.array(draw, dtype=np.int64) for draw in ([], [0], [1], [0, 1])]
    seen = np.linspace(-4, 4, 801)[:, None] * x * (question.bound.value / np.abs(x).sum())

    def cost(theta: Floats) -> float:
        laws = []
        for other in (
            x,
            x + 1e-6 * np.sign(theta),
            -x - 1e-6 * np.sign(theta),
            x - 1e-6 * np.sign(theta),
            2.0**-40 * x,
        ):
            table = replace(rows, X=np.stack([other, x]))
            values = answers(question, Tables(table, table.empty()), theta, draws)
            laws.append(AnswerLaw(values, np.full(len(draws), 0.25), stage.series.mechanism.noise_scale).log(seen))
        return max(float((a - b).max()) for a in laws for b in laws)

    found = [cancelling(setting, x, rows.y[0], 1, rng) for _ in range(thetas)]
    with margins_by_products():
        then = max(map(cost, found))
    return max(map(cost, found)), then


def speed(kind: str, width: int) -> str:
    """How long an answer about some 600 of 60,000 rows takes, over the same about a batch that all know."""
    rng, n = np.random.default_rng(0), 60_000
    named = {} if kind in TWO else {"categories": {"y": list("abcdefghij")}}
    terms = parley.Terms.from_dict(
        {
            "model": {
                "kind": kind,
                "target": "y",
                "features": [f"x{j}" for j in range(width)],
                "intercept": False,
                **named,
            },
            "learning": {"algorithm": "private-sgd", "batches": 100, "sampling": "poisson", "epochs": 1, "step": 0.1},
            "privacy": {"mechanism": "gaussian", "clip": 1.0, "delta": 1e-5},
            "owners": [{"name": "a", "records": n, "epsilon": 1.0}],
        }
    )
    stage = resolve(terms).part("a").training
    question = stage.question
    assert isinstance(question, MinibatchQuestion)
    y = rng.choice([-1.0, 1.0], n) if kind in TWO else rng.integers(0, 10, n).astype(float)
    table, theta = Design(rng.normal(size=(n, width)), y, np.ones(n)), rng.normal(size=question.parameters)
    places = draw_places(n, bytes(32), 0.01)
    known, secret = (_clock(lambda: question._sum(table, [places], theta, s)) for s in (False, True))  # noqa: B023
    query = MinibatchQuery.ask("ab12", "learner", 1, theta)
    value = question.bounded(query, Tables(table, table.empty()), (), bytes(32))
    rest = _clock(lambda: draw_places(n, bytes(32), 0.01)) + _clock(
        lambda: stage.series.mechanism.release(value, SafeNoise()), 3
    )
    return (
        f"{kind}, p = {width}: {known / 1e6:.2f} ms, drawn in secret {secret / 1e6:.2f} ms: {secret / known:.1f} "
        f"times; with draw and noise ({rest / 1e6:.1f} ms) {(secret + rest) / (known + rest):.2f} times"
    )


def _clock(work: Callable[[], object], times: int = 7) -> float:
    """The least of some processor times, in ns."""
    spent = []
    for _ in range(times):
        began = time.process_time_ns()
        work()
        spent.append(time.process_time_ns() - began)
    return min(spent)


def run(count: int, seed: int) -> dict[str, float]:
    """How many settings break the bound, and the largest ratio."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings(count, seed):
            ratios.append(search(setting, Path(folder)))
    return {"settings": len(ratios), "violations": int(np.sum(np.array(ratios) > 1)), "largest": max(ratios)}


def elsewhere(own: dict[str, str], options: list[str]) -> dict[str, float]:
    """The same in a process of its own with these instructions."""
    command = [sys.executable, __file__, "--here", *options]
    done = subprocess.run(command, env=os.environ | own, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help="in this process alone, as it was started; prints JSON")
    parser.add_argument(
        "--products", action="store_true", help="with margins by products of matrices, which the search must find"
    )
    given = parser.parse_args()
    if given.here:
        with margins_by_products() if given.products else nullcontext():
            print(json.dumps(run(given.settings, given.seed)))
        return
    began, bad, ways = time.perf_counter(), 0, {"as it is": dict[str, str](), **environments()}
    for number, (instructions, own) in enumerate(ways.items()):
        options = ["--settings", str(-(-given.settings // len(ways))), "--seed", str(given.seed + number)]
        found = elsewhere(own, options + ["--products"] * given.products)
        bad += int(found["violations"])
        print(
            f"{instructions}: {found['settings']:,} settings, {found['violations']:,} beyond, largest "
            f"{found['largest']:.6f}"
        )
    print(f"{bad} violations, {time.perf_counter() - began:.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        now, then = actual_epsilons(Path(folder))
    print(
        f"an answer is said to cost 1: {now:.4f} by the law of all draws of two rows; by products of matrices "
        f"{then:.4f}"
    )
    for kind, width in itertools.product(("linear-svm", "logistic-regression", "softmax-regression"), (10, 100, 784)):
        print(speed(kind, width))
    if bad:
        raise SystemExit("a row that is drawn or not moves an answer further than the noise covers")


if __name__ == "__main__":
    main()
