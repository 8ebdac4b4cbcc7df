"""What a run tells whoever keeps track of runs: parameters, metrics, tags and files (`run_store` writes them down).

Formal guarantee: of a release it says what the learner received with noise and what follows from that, the terms, what
public rows say of them, and the ends of the owners' ledgers, which are independent of tables and answers (`chain`). So
what is kept tells nothing more about anybody than the answers that were debited. A simulation is computed from
everybody's rows and has no guarantee: its run says so in its tags (`inside`), and so that nobody takes one for the
other, every run says which it is.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.worth import Worth
from parley.learning.outcome import Result
from parley.learning.outcome.guarantee import guarantee, kind_of_run
from parley.owner.ledger.account import Head
from parley.report.figures import curves, picture
from parley.report.figures.shape_functions import shape_functions
from parley.report.words.forecast import CAVEAT, headline
from parley.terms import Terms
from parley.validate import Floats

Kind = Literal["simulation", "release", "forecast"]
Writer = Callable[[Path], object]


@dataclass(frozen=True)
class TrackedRun:
    """A run as it is kept: `metrics` have a value for every step, numbers that are none apart, and `files` are written
    by whoever is told where; `inside`: whether anything in it was computed from private rows without safe noise."""

    kind: Kind
    command: str
    title: str
    inside: bool
    note: str  # what it is, in sentences
    terms_hash: str
    params: Mapping[str, str]
    metrics: Mapping[str, Sequence[float]]
    seconds: float = 0.0
    heads: Mapping[str, Head | None] = field(default_factory=dict)  # ends of ledgers by owner, as far as known
    files: Mapping[str, Writer] = field(default_factory=dict)

    @property
    def tags(self) -> dict[str, str]:
        """What tells runs apart, one kind from another first of all."""
        said = {"run": self.kind, "inside": "true" if self.inside else "false", "terms_hash": self.terms_hash}
        ends = {
            f"ledger_head.{owner}": f"{head.entries}:{head.hash}"
            for owner, head in self.heads.items()
            if head is not None
        }
        return {f"parley.{name}": value for name, value in (said | ends).items()}


def tracked_training(
    result: Result,
    command: str,
    expected: Worth | None = None,
    heads: Mapping[str, Head | None] | None = None,
    seed: int | None = None,
) -> TrackedRun:
    """A simulation, with its figures from the private tables; or a release, with what was released alone."""
    if result.released:
        result = replace(result, quality=None)  # nobody measures a release; if somebody did, it is not told
    told = result.to_json()
    settings = {"replicates": str(result.replicates)} | ({} if seed is None else {"seed": str(seed)})
    chosen = ("relative_fitness", "cost", "optimal_cost", "metrics", "optimal_metrics", "scores", "apart")
    spent = {owner.name: owner.epsilon_spent for owner in result.owners}
    answers = {owner.name: owner.answers for owner in result.owners}
    found = {name: told[name] for name in chosen} | {"epsilon_spent": spent, "answers": answers}
    found |= {"void_rounds": len(result.aborted_rounds), "notices": len(result.notices)}
    found |= {"baselines": None if expected is None else expected.to_json()}
    files: dict[str, Writer] = {"terms.json": _text(result.terms.canonical), "result.json": _text(_json(told))}
    if result.released:
        files["model.json"] = result.model.save
    if result.path is not None:
        files["figures/relative_fitness.png"] = partial(picture.save, curves.fitness_path(result.path))
    if result.shapes is not None:
        files["figures/shapes.png"] = partial(picture.save, shape_functions(result.model, result.theta))
    return TrackedRun(
        kind="release" if result.released else "simulation",
        command=command,
        title=result.terms.title,
        inside=not result.released,
        note=f"{kind_of_run(result)}\n\n{guarantee(result)}",
        terms_hash=result.terms_hash,
        params=parameters(result.terms) | settings,
        metrics={name: [value] for name, value in numbers(found)} | _path(result.path),
        seconds=result.seconds,
        heads=heads or {},
        files=files,
    )


def tracked_forecast(result: Forecast, command: str, seed: int) -> TrackedRun:
    """A forecast from public knowledge: no private record was looked at."""
    told = result.to_json()
    chosen = ("relative_fitness", "excess_cost", "by_method", "metrics", "expected_cost", "baselines")
    steps = {"relative_fitness.path": [float(value) for value in result.path]}
    drawn = curves.fitness_path(result.path[:, None], "Expected distance from the model without privacy")
    return TrackedRun(
        kind="forecast",
        command=command,
        title=result.terms.title,
        inside=False,
        note=f"{headline(result)}\n\n{CAVEAT}",
        terms_hash=result.terms.hash,
        params=parameters(result.terms) | {"seed": str(seed)},
        metrics={name: [value] for name, value in numbers({name: told[name] for name in chosen})} | steps,
        files={
            "terms.json": _text(result.terms.canonical),
            "forecast.json": _text(_json(told)),
            "figures/relative_fitness.png": partial(picture.save, drawn),
        },
    )


def parameters(terms: Terms) -> dict[str, str]:
    """Every key of the agreement with its value, as all parties have it: without anybody's file paths; owners and hosts
    by their names."""
    content = json.loads(terms.canonical)
    for parties in ("owners", "hosts"):
        content[parties] = {party.pop("name"): party for party in content.get(parties, [])}
    return dict(_leaves(content))


def numbers(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """(dotted name, value) of all finite numbers in a JSON object.

    >>> dict(numbers({"cost": 2, "metrics": {"accuracy": 0.5, "area": None}, "words": "x"}))
    {'cost': 2.0, 'metrics.accuracy': 0.5}
    """
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from numbers(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, int | float) and not isinstance(content, bool) and math.isfinite(content):
        yield name, float(content)


def _leaves(content: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, value as text) of everything in a JSON object that is no object itself."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _leaves(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _path(path: Floats | None) -> dict[str, list[float]]:
    """Quartiles of relative fitness after each round."""
    if path is None:
        return {}
    names = ("relative_fitness.path.q25", "relative_fitness.path", "relative_fitness.path.q75")
    return dict(zip(names, np.quantile(path, [0.25, 0.5, 0.75], axis=1).tolist(), strict=True))


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False)


def _text(content: str) -> Writer:
    return lambda file: file.write_text(f"{content}\n", encoding="utf-8")
