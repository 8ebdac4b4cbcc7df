"""What people ask of a run by options of a command; without any library that takes its time."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunOptions:
    """What the options of `parley train` and `parley learner run` say, for a task that does these commands its own
    way."""

    ledgers: Path | None = None
    lifetime: float | None = None
    lifetime_delta: float | None = None
    addresses: Path | None = None  # of owners elsewhere
    resume: bool = False
    deadline: float = 60.0
    seed: int | None = None
    replicates: int = 1
    checkpoint: Path = Path()
    save: Path | None = None
    save_own: Path | None = None
    anyway: bool = False
    other_books: str | None = None  # why tables may have another ledger
    as_json: bool = False
