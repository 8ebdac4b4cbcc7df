"""Checkpoints of runs between machines: a killed learner continues as if nothing had happened.

The state before round k + 1 follows from the answers to round k and from who gave them, which ledgers do not record
under `straggler = "skip"`. So it is stored durably before round k + 1 is asked; from then on the next question is
fixed. A crash before that has asked nothing that depends on who was in time.

A checkpoint also keeps the last seen end of every owner's ledger, to detect older copies, and a record of every owner's
answers, to name liars (`outcome.notices`). Its checksum detects accidents, not forgery: a forger can recompute it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parley.durable import replace_text
from parley.errors import SettingError
from parley.learning.algorithms.algorithm import State
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import Signature, SignedEnd
from parley.terms import Terms
from parley.terms.participation import steps_of
from parley.validate import Floats

FORMAT = "parley-checkpoint-3"
EARLIER_FORMAT = "parley-checkpoint-2"  # without heads and checksum
HASH_PATTERN = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state before round `state.round` of the agreement with this hash. For each owner, `answers` counts those in
    the state, `spent` is its last statement, `heads` its ledger's end. `watched` is the watch's record, `ends` where
    the hosts' journals ended; both are empty in older files."""

    terms_hash: str
    state: State
    answers: Mapping[str, int]
    spent: Mapping[str, float]
    heads: Mapping[str, Head] = field(default_factory=dict)
    watched: Mapping[str, Floats] = field(default_factory=dict)
    ends: Mapping[str, SignedEnd] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Replace the checkpoint durably. Numbers read back to the bit."""
        content = {
            "format": FORMAT,
            "terms": self.terms_hash,
            "round": self.state.round,
            "theta": self.state.theta.tolist(),
            "memory": {name: array.tolist() for name, array in self.state.memory.items()},
            "answers": dict(self.answers),
            "spent": dict(self.spent),
            "heads": {name: [head.entries, head.hash] for name, head in self.heads.items()},
        }
        if self.watched:
            content["watched"] = {name: array.tolist() for name, array in self.watched.items()}
        if self.ends:
            content["ends"] = {name: _written_end(end) for name, end in self.ends.items()}
        text = _canonical(content)
        replace_text(path, f'{text[:-1]}, "checksum": "{_checksum(text)}"}}\n')


def load_checkpoint(path: Path, terms: Terms, start: State, watched: Mapping[str, Floats] | None = None) -> Checkpoint:
    """Read what `save` wrote for these terms, and refuse anything else. `start` and `watched` give the expected shapes;
    without `watched`, the watch's record is not read."""
    terms.require_release()
    expected = terms.hash
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        checksum = content.pop("checksum", None)
        checksum_matches = checksum == (None if content["format"] == EARLIER_FORMAT else _checksum(_canonical(content)))
        checkpoint = (
            None
            if not checksum_matches or content["terms"] != expected
            else _read(content, terms, start, watched or {})
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise SettingError(
            f"{path}: not a Parley checkpoint; restore the run's checkpoint, or move this file to another folder to "
            "start again"
        ) from None
    if not checksum_matches:
        raise SettingError(
            f"{path}: the checksum does not match, so the file was changed after writing; restore the run's "
            "checkpoint, or move this file to another folder to start again"
        )
    if checkpoint is None:
        raise SettingError(
            f"{path}: the checkpoint belongs to a run under different terms, not under the given terms (hash "
            f"{expected[:16]}…); give the terms of that run, or move the checkpoint to another folder to start again"
        )
    return checkpoint


def _read(content: dict[str, Any], terms: Terms, start: State, like: Mapping[str, Floats]) -> Checkpoint:
    """Return the checkpoint if a run under these terms can have reached it (ValueError)."""
    memory = content["memory"]
    # as it once was: one array without a name; algorithms that need none kept a second copy of theta
    if isinstance(memory, list):
        memory = dict.fromkeys(start.memory, memory)
    if memory.keys() != start.memory.keys():
        raise ValueError
    remembered = {name: _numbers(memory[name], like) for name, like in start.memory.items()}
    state = State(content["round"], _numbers(content["theta"], start.theta), remembered)
    answers, spent = dict(content["answers"]), {name: float(epsilon) for name, epsilon in content["spent"].items()}
    watched = {name: _numbers(content["watched"][name], shape) for name, shape in like.items() if "watched" in content}
    heads = {name: Head(entries, end) for name, (entries, end) in content.get("heads", {}).items()}
    ends = {name: _read_end(name, terms.hash, end) for name, end in content.get("ends", {}).items()}
    sound = (
        content["format"] in (FORMAT, EARLIER_FORMAT)
        and type(state.round) is int  # not true, which Python takes for 1
        and 1 <= state.round <= steps_of(terms) + 1
        and all(type(count) is int and 0 <= count < state.round for count in answers.values())
        and all(0 <= epsilon < np.inf for epsilon in spent.values())
        and all(type(h.entries) is int and h.entries > 0 and HASH_PATTERN.fullmatch(h.hash) for h in heads.values())
        and ends.keys() <= {host.name for host in terms.hosts}
        and answers.keys() | spent.keys() | heads.keys() <= {part.name for part in terms.owners}
    )
    if not sound:
        raise ValueError
    return Checkpoint(terms.hash, state, answers, spent, heads, watched, ends)


def _written_end(end: SignedEnd) -> list[Any]:
    signed = end.signature
    return [
        end.book, end.head.entries, end.head.hash,
        *([] if signed is None else [signed.certificate.hex(), signed.value.hex()]),
        *([] if signed is None or not end.origin else [signed.second.hex(), end.origin, end.restores]),
    ]  # fmt: skip


def _read_end(host: str, terms: str, written: Any) -> SignedEnd:
    """Return where a host's journal ended (ValueError)."""
    book, entries, digest, *signed = written
    known = type(entries) is int and entries > 0 and HASH_PATTERN.fullmatch(digest) and HASH_PATTERN.fullmatch(book)
    if not known or len(signed) not in (0, 2, 5):
        raise ValueError
    signature = Signature(*(bytes.fromhex(part) for part in signed[:3])) if signed else None
    origin, restores = signed[3:] or ("", 0)
    if type(restores) is not int or not restores >= 0 or (signed[3:] and not HASH_PATTERN.fullmatch(origin)):
        raise ValueError
    return SignedEnd(host, "journal", terms, book, Head(entries, digest), signature, origin=origin, restores=restores)


def _canonical(content: dict[str, Any]) -> str:
    """Return the text that the checksum is taken of."""
    return json.dumps(content, sort_keys=True, allow_nan=False)


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _numbers(content: Any, like: Floats) -> Floats:
    """Read an array of finite numbers of this shape (ValueError)."""
    array = np.array(content)
    if array.dtype.kind not in "if" or array.shape != like.shape or not np.all(np.isfinite(array)):
        raise ValueError
    return array.astype(np.float64)
