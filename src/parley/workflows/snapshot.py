"""Snapshots of database tables as of one moment."""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from parley.data.databases import Request, open_database, take_snapshot
from parley.data.databases.database import require_no_password
from parley.data.sources.manifest import Manifest
from parley.workflows.person import Person


def take(
    uri: str, query: str, keys: Sequence[str], folder: Path, password: Callable[[], str] | None, person: Person
) -> tuple[Manifest, tuple[str, ...]]:
    """Return (the manifest of the snapshot, the query's parts that may give a person several rows). `password` asks for
    the database's password; None: none is used."""
    require_no_password(uri)
    secret = None if password is None else password()
    request = Request(query, tuple(keys))
    with (
        stopped_tidily(),
        open_database(uri, secret, folder) as database,
        person.progress("taking rows") as progress,
    ):
        if not database.tried:
            person.warn("Parley has not been tested with this kind of database: check the result.")
        if request.unstable:
            person.warn(
                f"The query calls {', '.join(f'{name}()' for name in request.unstable)}. A sort key with changing "
                "values reorders people in the next snapshot: order by a stored column."
            )
        plan = database.plan(request)
        manifest = take_snapshot(database, request, folder, progress, plan.rows)
    if plan.spreads:
        person.warn(
            f"The query contains {', '.join(plan.spreads)}, so one person may have several rows, or a row may be about "
            "several people. Check the rows per person: the guarantee covers at most privacy.records_per_person rows "
            "of each person."
        )
    return manifest, plan.spreads


@contextmanager
def stopped_tidily() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end this block like Ctrl-C, so that it leaves nothing behind."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
