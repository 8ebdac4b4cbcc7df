"""Where a run between machines stands, kept so that a learner that was killed goes on as if nothing had happened.

The state before round k + 1 follows from the answers to round k and from who gave them. Under `straggler = "skip"` the owners' ledgers
alone do not say who was in time, so the state that follows is stored, durably, before round k + 1 is asked. From then on the next
question is fixed; a crash before that moment has asked nothing that depends on who was in time. A checkpoint is as long after the last
round as after the first.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from parley.durable import replace_text
from parley.errors import SettingError
from parley.learning.algorithm import State

FORMAT = "parley-checkpoint-2"
BEFORE = "parley-checkpoint-1"  # named the owners of every round, and did not say what they had spent


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


def load_checkpoint(path: Path, terms: str, start: State) -> Checkpoint:
    """Read what `save` wrote for these terms; `start` says what shape their states have."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        theta, memory = (np.array(content[name], dtype=np.float64) for name in ("theta", "memory"))
        state = State(int(content["round"]), theta, memory)
        if content["format"] == BEFORE:
            content |= {"format": FORMAT, "answers": Counter(chain.from_iterable(content["answered"])), "spent": {}}
        answers = {str(name): int(count) for name, count in content["answers"].items()}
        spent = {str(name): float(epsilon) for name, epsilon in content["spent"].items()}
        sound = content["format"] == FORMAT and all(0 <= count < state.round for count in answers.values())
        found = str(content["terms"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SettingError(f"{path}: not a checkpoint that Parley wrote") from None
    if found != terms:
        raise SettingError(f"{path}: a checkpoint of other terms; expected one of the terms {terms[:16]}…")
    if not sound or theta.shape != start.theta.shape or memory.shape != start.memory.shape:
        raise SettingError(f"{path}: not a checkpoint that Parley wrote")
    return Checkpoint(found, state, answers, spent)
