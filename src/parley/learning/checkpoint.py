"""Where a run between machines stands, kept so that a learner that was killed goes on as if nothing had happened.

The state before round k + 1 follows from the answers to round k and from who gave them. Under `straggler = "skip"` the owners' ledgers
alone do not say who was in time, so the state that follows is stored, durably, before round k + 1 is asked. From then on the next
question is fixed; a crash before that moment has asked nothing that depends on who was in time. A checkpoint is as long after the last
round as after the first.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from parley.durable import replace_text
from parley.errors import SettingError
from parley.learning.algorithm import State
from parley.terms import Terms
from parley.validate import Floats

FORMAT = "parley-checkpoint-2"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state before round `state.round` of the agreement `terms` (its hash).

    `answers` says how many answers of each owner went into it, `spent` what the owner had spent by its own last word.
    """

    terms: str
    state: State
    answers: Mapping[str, int]
    spent: Mapping[str, float]

    def save(self, path: Path) -> None:
        """Durably, in the place of the one before. Numbers are written so that they read back to the bit."""
        content = {
            "format": FORMAT,
            "terms": self.terms,
            "round": self.state.round,
            "theta": self.state.theta.tolist(),
            "memory": self.state.memory.tolist(),
            "answers": dict(self.answers),
            "spent": dict(self.spent),
        }
        replace_text(path, json.dumps(content, allow_nan=False) + "\n")


def load_checkpoint(path: Path, terms: Terms, start: State) -> Checkpoint:
    """Read what `save` wrote for these terms; `start` says what shape their states have. Anything else is refused."""
    expected = terms.hash
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = None if content["terms"] != expected else _read(content, terms, start)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise SettingError(
            f"{path}: not a checkpoint that Parley wrote; put that of the run back, or move it away to begin again"
        ) from None
    if found is None:
        raise SettingError(f"{path}: a checkpoint of other terms; expected one of the terms {expected[:16]}…")
    return found


def _read(content: dict[str, Any], terms: Terms, start: State) -> Checkpoint:
    """The checkpoint, if a run by these terms can have stood there (ValueError)."""
    state = State(content["round"], _numbers(content["theta"], start.theta), _numbers(content["memory"], start.memory))
    answers, spent = dict(content["answers"]), {name: float(epsilon) for name, epsilon in content["spent"].items()}
    sound = (
        content["format"] == FORMAT
        and type(state.round) is int  # not true, which Python takes for 1
        and 1 <= state.round <= terms.learning.horizon + 1
        and all(type(count) is int and 0 <= count < state.round for count in answers.values())
        and all(0 <= epsilon < np.inf for epsilon in spent.values())
        and answers.keys() | spent.keys() <= {part.name for part in terms.owners}
    )
    if not sound:
        raise ValueError
    return Checkpoint(terms.hash, state, answers, spent)


def _numbers(content: Any, like: Floats) -> Floats:
    """An array of finite numbers of this shape (ValueError)."""
    array = np.array(content)
    if array.dtype.kind not in "if" or array.shape != like.shape or not np.all(np.isfinite(array)):
        raise ValueError
    return array.astype(np.float64)
