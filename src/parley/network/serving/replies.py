"""What a service replies when its work goes wrong, and what its log says of that.

Formal guarantee: errors inside never travel: not their texts, not their types. A caller gets the reply, a refusal in
the words of this package, or one fixed sentence of trouble.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parley.errors import DataError, ParleyError, Refusal, Unavailable
from parley.network.serving.acceptance import Caller
from parley.network.serving.log import Log


@dataclass(frozen=True)
class Replies:
    """Where a service's replies are made: its log, how its messages write a refusal, its sentence of trouble."""

    log: Log
    write_refusal: Callable[[Refusal], bytes]
    trouble: str

    def reply(self, event: str | None, caller: Caller, work: Callable[[dict[str, Any]], bytes]) -> bytes:
        """The work's reply or a refusal, logged with the facts that the work adds; without an event only what went
        wrong is logged."""
        began, facts = time.perf_counter(), caller_facts(caller)
        try:
            reply = work(facts)
        except Refusal as refusal:
            event, reply = "refusal", self.write_refusal(refusal)
            facts["code"] = refusal.code
        except Exception as error:
            event, reply = "trouble", self.write_refusal(Unavailable(self.trouble))
            facts["reason"] = loggable(error)
        if event is not None:
            self.log(event, **facts, ms=round(1e3 * (time.perf_counter() - began), 1))
        return reply


def caller_facts(caller: Caller) -> dict[str, Any]:
    """Who it is and where from, for the log."""
    who = {"caller": "relay" if caller.relay else ",".join(caller.names)}
    return {**who, "peer": caller.peer} if caller.peer else who


def loggable(error: Exception) -> str:
    """What a log may say of an error: about a table only that it does not fit, not where or how (parley owner accept
    tells a person); of errors that are not this package's only the kind, for their texts could quote anything."""
    if not isinstance(error, ParleyError):
        return type(error).__name__
    return "the table does not fit the terms, or changed" if isinstance(error, DataError) else str(error)
