"""Checkpoints of network training, each bound to its agreement and so to the ledger.

Formal guarantee: a checkpoint holds released numbers only and cannot bring budget back. The ledger knows which steps it
answered. A step asked again from an old checkpoint costs nothing and gets the same answer, or is refused if that answer
is no longer kept.
"""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from parley.durable import replace_bytes
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import State

FORMAT = b"parley-network-checkpoint-1\n"


@dataclass(frozen=True, eq=False)
class TrainingCheckpoint:
    """The state before step `state.round` of the agreement with this hash."""

    agreement: str
    state: State

    def save(self, path: Path) -> None:
        """Replace the file durably, to the bit and with a checksum."""
        held = io.BytesIO()
        memory = {f"memory/{name}": array for name, array in self.state.memory.items()}
        np.savez(held, round=np.array(self.state.round), theta=self.state.theta, **memory)  # type: ignore[arg-type]
        content = self.agreement.encode() + held.getvalue()
        replace_bytes(path, FORMAT + hashlib.sha256(content).digest() + content)


def load_training_checkpoint(path: Path, agreement: str, start: State) -> State:
    """Return the state in this agreement's checkpoint, or `start` without a file; refuse any other file."""
    if not path.exists():
        return start
    blob = path.read_bytes()
    check, content = blob[len(FORMAT) : len(FORMAT) + 32], blob[len(FORMAT) + 32 :]
    if not blob.startswith(FORMAT) or hashlib.sha256(content).digest() != check:
        raise SettingError(f"{path}: expected an unchanged checkpoint of a network; restore the run's checkpoint")
    if content[:64] != agreement.encode():
        raise SettingError(
            f"{path}: this checkpoint belongs to another run, with other rows, network or plan; choose another file"
        )
    with np.load(io.BytesIO(content[64:]), allow_pickle=False) as held:
        memory = {name: held[f"memory/{name}"] for name in start.memory}
        return State(int(held["round"]), held["theta"], memory)
