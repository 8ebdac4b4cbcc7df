"""Runs for experiment tracking: parameters, metrics, tags and files, in the layout of MLflow's file store.

Formal guarantee: for a release this contains what the learner received with noise and what follows from that, the
terms, what public rows say of them, and the ends of the owners' ledgers, which are independent of tables and answers
(`chain`). So it reveals nothing more about anybody than the answers that were debited. A simulation is computed from
everybody's rows and has no guarantee: its tags say so (`inside`). Every run names its kind.

All MLflow versions read this layout or import it (`mlflow migrate-filestore`); writing it needs no MLflow. An
experiment is a title of terms. A run gets its name last, so an interrupted write leaves no run.
"""

import hashlib
import json
import math
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parley.decisions.outlook.forecast import Forecast
from parley.decisions.outlook.worth import Worth
from parley.durable import as_disk_errors
from parley.learning.outcome import Result
from parley.learning.outcome.guarantee import guarantee, kind_of_run
from parley.owner.ledger.account import Head
from parley.report.figures import curves, picture
from parley.report.figures.shape_functions import shape_functions
from parley.report.words.forecast import SCORING_HINT, headline
from parley.terms import Terms
from parley.validate import Floats
from parley.version import __version__

Kind = Literal["simulation", "release", "forecast"]
Writer = Callable[[Path], object]


@dataclass(frozen=True)
class TrackedRun:
    """A run to track. `metrics` hold a value per step, without those that are not finite; `files` are written by
    functions of a path; `inside`: whether anything was computed from private rows without safe noise."""

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
        """Tags that identify the run, its kind first."""
        tags = {"run": self.kind, "inside": "true" if self.inside else "false", "terms_hash": self.terms_hash}
        ends = {
            f"ledger_head.{owner}": f"{head.entries}:{head.hash}"
            for owner, head in self.heads.items()
            if head is not None
        }
        return {f"parley.{name}": value for name, value in (tags | ends).items()}


def tracked_training(
    result: Result,
    command: str,
    expected: Worth | None = None,
    heads: Mapping[str, Head | None] | None = None,
    seed: int | None = None,
) -> TrackedRun:
    """Return a simulation with figures from the private tables, or a release with what was released alone."""
    if result.released:
        result = replace(result, quality=None)  # nobody measures a release; if somebody did, it is not told
    content = result.to_json()
    settings = {"replicates": str(result.replicates)} | ({} if seed is None else {"seed": str(seed)})
    chosen = ("relative_fitness", "cost", "optimal_cost", "metrics", "optimal_metrics", "scores", "apart")
    spent = {owner.name: owner.epsilon_spent for owner in result.owners}
    answers = {owner.name: owner.answers for owner in result.owners}
    figures = {name: content[name] for name in chosen} | {"epsilon_spent": spent, "answers": answers}
    figures |= {"void_rounds": len(result.aborted_rounds), "notices": len(result.notices)}
    figures |= {"baselines": None if expected is None else expected.to_json()}
    files: dict[str, Writer] = {"terms.json": _text(result.terms.canonical), "result.json": _text(_json(content))}
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
        metrics={name: [value] for name, value in numbers(figures)} | _path(result.path),
        seconds=result.seconds,
        heads=heads or {},
        files=files,
    )


def tracked_forecast(result: Forecast, command: str, seed: int) -> TrackedRun:
    """Return a forecast, which uses public knowledge alone."""
    content = result.to_json()
    chosen = ("relative_fitness", "excess_cost", "by_method", "metrics", "expected_cost", "baselines")
    steps = {"relative_fitness.path": [float(value) for value in result.path]}
    drawn = curves.fitness_path(result.path[:, None], "Expected distance from the best model without privacy")
    return TrackedRun(
        kind="forecast",
        command=command,
        title=result.terms.title,
        inside=False,
        note=f"{headline(result)}\n\n{SCORING_HINT}",
        terms_hash=result.terms.hash,
        params=parameters(result.terms) | {"seed": str(seed)},
        metrics={name: [value] for name, value in numbers({name: content[name] for name in chosen})} | steps,
        files={
            "terms.json": _text(result.terms.canonical),
            "forecast.json": _text(_json(content)),
            "figures/relative_fitness.png": partial(picture.save, drawn),
        },
    )


def parameters(terms: Terms) -> dict[str, str]:
    """Return every key of the agreement with its value, without file paths; owners and hosts by name."""
    content = json.loads(terms.canonical)
    for parties in ("owners", "hosts"):
        content[parties] = {party.pop("name"): party for party in content.get(parties, [])}
    return dict(_leaves(content))


def numbers(content: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Yield (dotted name, value) of all finite numbers in a JSON object.

    >>> dict(numbers({"cost": 2, "metrics": {"accuracy": 0.5, "area": None}, "words": "x"}))
    {'cost': 2.0, 'metrics.accuracy': 0.5}
    """
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from numbers(value, f"{name}.{key}" if name else str(key))
    elif isinstance(content, int | float) and not isinstance(content, bool) and math.isfinite(content):
        yield name, float(content)


def _leaves(content: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted name, value as text) of everything in a JSON object that is not an object."""
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _leaves(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _path(path: Floats | None) -> dict[str, list[float]]:
    """Return quartiles of relative fitness by round."""
    if path is None:
        return {}
    names = ("relative_fitness.path.q25", "relative_fitness.path", "relative_fitness.path.q75")
    return dict(zip(names, np.quantile(path, [0.25, 0.5, 0.75], axis=1).tolist(), strict=True))


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False)


def _text(content: str) -> Writer:
    return lambda file: file.write_text(f"{content}\n", encoding="utf-8")


DEFAULT_TITLE = "Parley"  # runs of terms without a title
MAX_PARAMETER_CHARACTERS = 500  # characters of a parameter: older versions take no more
FINISHED, LOCAL = 3, 4  # of runs and of where they come from
_FORBIDDEN_CHARACTERS = re.compile(
    r"[^\w.\- ]", re.ASCII
)  # what names of parameters, metrics and tags do not hold everywhere


def write_run(run: TrackedRun, folder: Path) -> Path:
    """Write the run to a new MLflow folder, private to this account if `inside`, and return the folder."""
    ended = time.time()
    with as_disk_errors(folder):
        experiment = _experiment(folder.absolute(), run.title or DEFAULT_TITLE)
        number = uuid.uuid4().hex
        final, fresh = experiment / number, folder.absolute() / f".{number}.unfinished"
        fresh.mkdir(mode=0o700 if run.inside else 0o777)
        try:
            _write_cells(fresh / "params", {name: _cut(value) for name, value in run.params.items()})
            metrics = {name: _steps(each, ended) for name, each in run.metrics.items()}
            _write_cells(fresh / "metrics", {name: lines for name, lines in metrics.items() if lines})
            _write_cells(fresh / "tags", run.tags | _usual_tags(run))
            (fresh / "artifacts").mkdir()
            for name, write in run.files.items():
                (fresh / "artifacts" / name).parent.mkdir(exist_ok=True)
                write(fresh / "artifacts" / name)
            about = {
                "artifact_uri": (final / "artifacts").as_uri(),
                "end_time": _milliseconds(ended),
                "entry_point_name": "",
                "experiment_id": experiment.name,
                "lifecycle_stage": "active",
                "run_id": number,
                "run_name": _run_name(run),
                "run_uuid": number,
                "source_name": "",
                "source_type": LOCAL,
                "source_version": "",
                "start_time": _milliseconds(ended - run.seconds),
                "status": FINISHED,
                "tags": [],
                "user_id": "",
            }
            (fresh / "meta.yaml").write_text(_yaml(about), encoding="utf-8")
            fresh.rename(final)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return final


def _experiment(folder: Path, name: str) -> Path:
    """Return the folder of all runs with this title, numbered by a hash of it; create it if needed."""
    number = str(10**17 + int(hashlib.sha256(name.encode()).hexdigest(), 16) % (9 * 10**17))
    place, now = folder / number, _milliseconds(time.time())
    place.mkdir(parents=True, exist_ok=True)
    about = {
        "artifact_location": place.as_uri(),
        "creation_time": now,
        "experiment_id": number,
        "last_update_time": now,
        "lifecycle_stage": "active",
        "name": name,
    }
    try:
        with (place / "meta.yaml").open("x", encoding="utf-8") as file:
            file.write(_yaml(about))
    except FileExistsError:
        pass
    return place


def _usual_tags(run: TrackedRun) -> dict[str, str]:
    """Return the tags that MLflow shows."""
    return {
        "mlflow.note.content": run.note,
        "mlflow.runName": _run_name(run),
        "mlflow.source.name": run.command,
        "mlflow.source.type": "LOCAL",
        "parley.version": __version__,
    }


def _run_name(run: TrackedRun) -> str:
    return f"{run.kind} {run.terms_hash[:8]}"


def _write_cells(folder: Path, cells: Mapping[str, str]) -> None:
    """Write one file per name; a repeated name gets longer."""
    folder.mkdir()
    taken = set[str]()
    for name, cell in cells.items():
        plain = _FORBIDDEN_CHARACTERS.sub("_", name)[:200]
        while plain in taken:
            plain += "_"
        taken.add(plain)
        (folder / plain).write_text(cell, encoding="utf-8")


def _steps(values: Sequence[float], ended: float) -> str:
    """Return lines (time, value, round) of the finite values; a single value has round 0."""
    rounds = enumerate(values, start=min(len(values) - 1, 1))
    return "".join(f"{_milliseconds(ended)} {value!r} {number}\n" for number, value in rounds if math.isfinite(value))


def _cut(value: str) -> str:
    return value if len(value) <= MAX_PARAMETER_CHARACTERS else f"{value[: MAX_PARAMETER_CHARACTERS - 1]}…"


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _yaml(content: Mapping[str, object]) -> str:
    """Return plain values as JSON, which YAML can read."""
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in content.items())
