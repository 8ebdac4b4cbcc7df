"""What libraries write to a daemon's stderr, made into lines of its log: seldom, and never a record's value.

gRPC writes a line of its own for every failed handshake, which anybody who reaches the port can cause. Such lines are
counted by reason and said once a minute. Of anything else only what cannot quote a value is said: gRPC's own sentences
without their numbers, the places in a traceback, and the kind of an exception.
"""

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from parley.network.serving.log import GRACE, Log

LONGEST = 4096  # bytes of a line that are looked at together
_HANDSHAKE = re.compile(r"Handshake failed.*?(?:OPENSSL_internal:([A-Z0-9_]+)|$)")
_OF_GRPC = re.compile(r"[IWEF]\d{4} [\d:.]+ +\d+ (\S+)\] (.*)")
_PLACE = re.compile(r'\s*(File "[^"]+", line \d+, in [\w<>.]+)')
_KIND = re.compile(r"([A-Za-z_][\w.]*(?:Error|Exception|Warning|Interrupt|Exit))(?::|$)")


@contextmanager
def process_log() -> Iterator[Log]:
    """The log of this process, on what was its stderr; until the end everything else that is written to stderr passes
    through it.

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
                reader.join(GRACE)  # until the pipe has no writer: not for a process that inherited it
    finally:
        os.dup2(own, 2)
        os.close(own)


def _forward(reading: int, log: Log) -> None:
    with os.fdopen(reading, "rb") as lines:
        while line := lines.readline(LONGEST):
            log_line(line.decode("utf-8", "replace"), log)


def log_line(line: str, log: Log) -> None:
    """Tell the log of a line that somebody else wrote."""
    handshake, of_grpc = _HANDSHAKE.search(line), _OF_GRPC.match(line)
    place, kind = _PLACE.match(line), _KIND.match(line)
    if of_grpc and handshake:
        log.rate_limited("handshake-failed", reason=(handshake[1] or "other").lower().replace("_", " "))
    elif of_grpc:
        log.rate_limited("grpc", at=of_grpc[1], reason=re.sub(r"\d+", "#", of_grpc[2])[:200])
    elif place or kind:
        log.rate_limited("stderr", reason=(place or kind)[1][:200])  # type: ignore[index]
    elif line.strip():
        log.rate_limited("stderr", reason="a line that may quote a value")
