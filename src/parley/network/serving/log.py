"""What a daemon writes down about itself and about messages. What libraries write to stderr becomes lines of this log,
rarely and never with a record's value. gRPC's lines about failed handshakes, which anybody can cause, are counted by
reason and logged once a minute. Of others only what cannot quote a value is logged: gRPC's sentences without numbers,
places in a traceback, an exception's kind."""

import json
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self, TextIO

MAX_LINE_BYTES = 4096  # bytes of a line that are looked at together
_HANDSHAKE_FAILURE = re.compile(r"Handshake failed.*?(?:OPENSSL_internal:([A-Z0-9_]+)|$)")
_GRPC_LINE = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ (\S+)\] (.*)")
_TRACEBACK_PLACE = re.compile(r'\s*(File "[^"]+", line \d+, in [\w<>.]+)')
_ERROR_NAME = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit))(?::|$)")
MAX_WAITING_LINES = 10_000  # of the log that wait to be written
GATHER_S = 0.05  # seconds for which lines are gathered: woken for each, the writer would take turns with the answers
RATE_LIMIT_S = 60.0  # seconds between two lines about the same stranger
CLOSE_TIMEOUT_S = 5.0  # seconds for the last lines


Listener = Callable[[str, dict[str, Any]], None]  # hears each event with its facts


class Log:
    """One JSON object a line, about messages, never about records. A thread of its own writes, so no answer waits for
    it, a full disk or a reader that is gone. `listeners` hear everything, also what is not logged or lost, and must be
    short."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self.listeners: list[Listener] = []
        self._lines: deque[dict[str, Any]] = deque()
        self._last_said: dict[tuple[Any, ...], tuple[float, int]] = {}
        self._lost, self._over = 0, threading.Event()
        self._writer = threading.Thread(target=self._write, name="parley-log", daemon=True)
        self._writer.start()

    def __call__(self, event: str, **facts: Any) -> None:
        self._notify(event, facts)
        self._put(event, facts)

    def _notify(self, event: str, facts: dict[str, Any]) -> None:
        for listener in self.listeners:
            listener(event, facts)

    def _put(self, event: str, facts: dict[str, Any]) -> None:
        if len(self._lines) < MAX_WAITING_LINES:
            self._lines.append({"time": time.time(), "event": event, **facts})
        else:
            self._lost += 1

    def rate_limited(self, event: str, **facts: Any) -> None:
        """Log what others can cause as often as they like: once a minute, with how often it was left out. Another
        address (`peer`) or other holders (`held_by`) make no other event: a caller could have many."""
        self._notify(event, facts)
        key_facts = (fact for name, fact in facts.items() if name not in ("peer", "held_by"))
        key, now = (event, *key_facts), time.monotonic()
        last, unsaid = self._last_said.get(key, (-RATE_LIMIT_S, 0))
        if now - last < RATE_LIMIT_S:
            self._last_said[key] = last, unsaid + 1
            return
        if len(self._last_said) > MAX_WAITING_LINES:
            self._last_said.clear()
        self._last_said[key] = now, 0
        self._put(event, {**facts, "unsaid": unsaid})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait until everything is written, unless nobody takes it."""
        self._over.set()
        self._writer.join(CLOSE_TIMEOUT_S)

    def _write(self) -> None:
        while not self._over.wait(GATHER_S) or self._lines:
            lost, self._lost = self._lost, 0
            while self._lines:
                line = self._lines.popleft()
                line["time"] = datetime.fromtimestamp(line["time"], UTC).isoformat(timespec="milliseconds")
                if lost:
                    line["lost"], lost = lost, 0
                try:
                    self._stream.write(json.dumps(line) + "\n")
                    self._stream.flush()
                except (OSError, ValueError):
                    continue  # a full disk under the log stops no answer


@contextmanager
def process_log() -> Iterator[Log]:
    """Open this process's log on its stderr; until the end all else written to stderr passes through it.

    Formal guarantee: meanwhile the stream holds one JSON object a line and nothing else, and no writer ever waits for
    it: what comes faster than it is read is lost. So may be the last words of a process that dies of a signal.
    """
    sys.stderr.flush()
    own = os.dup(2)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)  # a thread that waited here, holding Python's lock, would wait for ever
    os.dup2(writing, 2)
    os.close(writing)
    try:
        with os.fdopen(os.dup(own), "w", encoding="utf-8") as stream, Log(stream) as log:
            reader = threading.Thread(target=_forward, args=(reading, log), name="parley-stderr", daemon=True)
            reader.start()
            try:
                yield log
            finally:
                sys.stderr.flush()
                os.dup2(own, 2)
                reader.join(CLOSE_TIMEOUT_S)  # until the pipe has no writer: not for a process that inherited it
    finally:
        os.dup2(own, 2)
        os.close(own)


def _forward(reading: int, log: Log) -> None:
    with os.fdopen(reading, "rb") as lines:
        while line := lines.readline(MAX_LINE_BYTES):
            log_line(line.decode("utf-8", "replace"), log)


def log_line(line: str, log: Log) -> None:
    """Log a line that somebody else wrote."""
    handshake, of_grpc = _HANDSHAKE_FAILURE.search(line), _GRPC_LINE.match(line)
    place, kind = _TRACEBACK_PLACE.match(line), _ERROR_NAME.match(line)
    if of_grpc and handshake:
        log.rate_limited("handshake-failed", reason=(handshake[1] or "other").lower().replace("_", " "))
    elif of_grpc:
        log.rate_limited("grpc", at=of_grpc[1], reason=re.sub(r"\d+", "#", of_grpc[2])[:200])
    elif place or kind:
        log.rate_limited("stderr", reason=(place or kind)[1][:200])  # type: ignore[index]
    elif line.strip():
        log.rate_limited("stderr", reason="a line that may quote a value")
