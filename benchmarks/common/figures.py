"""Figures that take hours: made in several processes, each written to a file as soon as it is there.

The file has a line for each figure, {"key": [...], "figure": ..., "seconds": ...}. Whoever starts again with the same
file makes only what it does not hold.
"""

import json
import time
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from joblib import Parallel, delayed, parallel_config

T = TypeVar("T")
Key = tuple[str | int | float | bool, ...]
Work = tuple[Callable[..., Any], tuple[Any, ...]]  # a function of a module, and what it is called with
_KEPT: dict[Hashable, Any] = {}


def made(
    work: Mapping[Key, Work],
    processes: int,
    file: Path | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> dict[Key, Any]:
    """The figure of every key: from the file, or made now, in so many processes of one thread each."""
    found = {key: figure for key, figure in written(file).items() if key in work}
    left = [delayed(_timed)(key, *each) for key, each in work.items() if key not in found]
    with parallel_config("loky", inner_max_num_threads=1):
        for key, figure, seconds in Parallel(processes, return_as="generator_unordered")(left):
            found[key] = figure
            report(len(found), len(work))
            if file is not None:
                line = json.dumps({"key": key, "figure": figure, "seconds": round(seconds, 2)})
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(f"\n{line}\n")  # whatever stood before was a line of its own, whole or not
    return found


def written(file: Path | None) -> dict[Key, Any]:
    """All figures of a file."""
    found = dict[Key, Any]()
    for line in [] if file is None or not file.exists() else file.read_text(encoding="utf-8").splitlines():
        try:
            each = json.loads(line)
        except json.JSONDecodeError:  # empty, or cut short
            continue
        found[tuple(each["key"])] = each["figure"]
    return found


def once(name: Hashable, make: Callable[[], T]) -> T:
    """What is made when a process first asks for it by this name, and kept there: a table, say."""
    if name not in _KEPT:
        _KEPT[name] = make()
    return cast(T, _KEPT[name])


def _timed(key: Key, make: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Key, Any, float]:
    began = time.process_time()
    return key, make(*given), time.process_time() - began
