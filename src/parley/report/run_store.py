"""Runs in a folder, as MLflow keeps them in files: DIR/experiment/run with meta.yaml, params, metrics, tags and
artifacts.

The layout is that of MLflow's file store, which all its versions read, or take over into a database (`mlflow
migrate-filestore`); nothing of MLflow is needed to write it. An experiment is a title of terms. Whatever ends the
writing early leaves no run: it gets its name last.
"""

import hashlib
import json
import math
import re
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from parley.durable import explained
from parley.report.tracking import TrackedRun
from parley.version import __version__

NAMELESS = "Parley"  # runs of terms without a title
LONGEST = 500  # characters of a parameter: older versions take no more
FINISHED, LOCAL = 3, 4  # of runs and of where they come from
_FOREIGN = re.compile(r"[^\w.\- ]", re.ASCII)  # what names of parameters, metrics and tags do not hold everywhere


def write_run(run: TrackedRun, folder: Path) -> Path:
    """The folder of the run, which MLflow opens from now on; for this account alone where private rows speak in it."""
    ended = time.time()
    with explained(folder):
        experiment = _experiment(folder.absolute(), run.title or NAMELESS)
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
    """The folder of all runs of this title, made if it is not there: its number follows from the title."""
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
    """Tags that MLflow itself shows."""
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
    """A file for each: its name, and what is in it. Where two names would be one, the second gets longer."""
    folder.mkdir()
    taken = set[str]()
    for name, cell in cells.items():
        plain = _FOREIGN.sub("_", name)[:200]
        while plain in taken:
            plain += "_"
        taken.add(plain)
        (folder / plain).write_text(cell, encoding="utf-8")


def _steps(values: Sequence[float], ended: float) -> str:
    """A line for each finite one: when, what, after which round; a value by itself belongs to none, which is 0."""
    rounds = enumerate(values, start=min(len(values) - 1, 1))
    return "".join(f"{_milliseconds(ended)} {value!r} {number}\n" for number, value in rounds if math.isfinite(value))


def _cut(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)


def _yaml(content: Mapping[str, object]) -> str:
    """Plain values, each as JSON writes it, which YAML reads."""
    return "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in content.items())
