"""The owners of a terms file, all on this machine, for a simulation or, with ledgers of their own, a release."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import numpy as np

from parley.data.sketch import digested_table
from parley.data.sources import TableSource, held_table, same_table
from parley.data.sources.source import column_names
from parley.errors import GuaranteeError, LedgerError, SettingError, TermsError, UnknownTerms
from parley.learning.algorithms.asynchronous import on_virtual_clock
from parley.learning.algorithms.catalogue import make_algorithm
from parley.network.exchange import Exchange, InProcess
from parley.network.exchange.in_process import SimulatedSum
from parley.network.hosting.sums import HostedSum
from parley.network.serving.acceptance import NO_KEY, Acceptance, Acceptances, terms_folder
from parley.owner.ledger import Ledger, begun
from parley.owner.ledger.account import Reservation
from parley.owner.other_books import OtherBooks, OwnerBooks, find_among, require_reason
from parley.owner.owner import Agreement, Owner, reservation
from parley.owner.warnings import unnamed_people_warning
from parley.privacy.accounting.series import exact
from parley.protocol.lost_answers import COINS, LossyExchange, LossyRounds
from parley.protocol.setup import Setup, require_ready
from parley.protocol.tree_folds import require_as_good
from parley.terms import OwnerTerms, Terms
from parley.terms.file import TermsWarning
from parley.validate import whole


def open_owners(terms: Terms) -> list[Owner]:
    """Open the owners' tables for a simulation."""
    return [Owner(part.name, held_table(owner_table(part))) for part in terms.owners]


def accepting_owners(
    terms: Terms,
    folder: Path,
    lifetime: float | None,
    lifetime_delta: float | None,
    first: Callable[[], None] = lambda: None,
    other_books: str | None = None,
    anyway: bool = False,
) -> list[Owner]:
    """Open the owners with durable ledgers and accept the terms for all, or for none if anything is wrong. `first` runs
    once all is checked, before a ledger is made or written to. `other_books`, `anyway`: see `Owner.accept`."""
    require_ledgers(terms, folder, lifetime, lifetime_delta)
    tables = [owner_table(part) for part in terms.owners]
    _require_acceptable(terms, tables)
    require_reason(other_books_here(terms, folder), other_books, anyway)
    first()
    folder.mkdir(parents=True, exist_ok=True)
    owners = []
    for part, table in zip(terms.owners, tables, strict=True):
        ledger = Ledger(_ledger_path(folder, part.name), lifetime, lifetime_delta)
        owners.append(Owner(part.name, table, ledger=ledger))
        ledger.require_room(reservation(terms, part.name))
    for owner in owners:
        owner.accept(terms, other_books, anyway)
        Acceptances(terms_folder(_ledger_path(folder, owner.name))).store(Acceptance(terms, NO_KEY))
    return owners


def _require_acceptable(terms: Terms, tables: Sequence[str]) -> None:
    """Refuse what an owner would refuse to accept. The rows prepared for this check are not kept."""
    trial = [Owner(part.name, table) for part, table in zip(terms.owners, tables, strict=True)]
    require_own_tables(terms, {owner.name: owner.table for owner in trial})
    agreements = [owner.prepare(terms) for owner in trial]
    for agreement in agreements:
        agreement.part.require_sound_arithmetic()
    require_as_good(agreements[0].setup)
    make_algorithm(agreements[0].setup)


def unnamed_people(terms: Terms) -> TermsWarning | None:
    """Warn of a column in an owner's table that may tell people apart by its name, where the terms name none."""
    for part in (each for each in terms.owners if each.data is not None):
        warning = unnamed_people_warning(column_names(Owner(part.name, owner_table(part)).table.example), terms)
        if warning is not None:
            return warning
    return None


def other_books_here(terms: Terms, folder: Path) -> list[OtherBooks]:
    """Return other ledgers of the owners' tables that this account can see; their own lie in `folder`."""
    with ExitStack() as opened:
        books = []
        for part in terms.owners:
            path = _ledger_path(folder, part.name)
            ledger = opened.enter_context(closing(Ledger(path))) if begun(path) else None
            table, digest = digested_table(owner_table(part))
            books.append(OwnerBooks(part.name, table, digest.cells, terms, ledger))
        return find_among(books, folder)


def require_ledgers(terms: Terms, folder: Path, lifetime: float | None, lifetime_delta: float | None) -> None:
    """Refuse existing or future ledgers without room for these terms, before any table is read."""
    terms.require_release()
    require_ready(terms)
    _require_place(folder)
    if lifetime is not None and not (lifetime > 0 and math.isfinite(lifetime)):
        raise LedgerError(
            f"--lifetime {lifetime:g}: expected a number above 0, the largest epsilon that all agreements on the table "
            "together may cost"
        )
    if lifetime_delta is not None and not 0 <= lifetime_delta < 1:
        raise LedgerError(f"--lifetime-delta {lifetime_delta:g}: expected a number of at least 0 and below 1")
    promised = {part.name: reservation(terms, part.name) for part in terms.owners}
    missing = missing_ledgers(terms, folder)
    if missing and lifetime is None:
        _ask_lifetime(_ledger_path(folder, missing[0]), [promised[name] for name in missing])
    for name, reserved in promised.items():  # of all of them before one is made: a ledger's budget is for ever
        path = _ledger_path(folder, name)
        if lifetime is not None and name in missing:
            _require_lifetime(path, reserved, lifetime, lifetime_delta)
            continue
        ledger = Ledger(path, lifetime, lifetime_delta)
        try:
            ledger.require_room(reserved)
        finally:
            ledger.close()


def missing_ledgers(terms: Terms, folder: Path) -> list[str]:
    """Return the owners whose ledgers a release would create in this folder."""
    return [part.name for part in terms.owners if not begun(_ledger_path(folder, part.name))]


def spent_so_far(terms: Terms, folder: Path) -> dict[str, Fraction]:
    """Return the spending on these terms of each owner that has answered; asking its stored answers again is free."""
    spent_by_owner = {}
    for part in terms.owners:
        path = _ledger_path(folder, part.name)
        if not begun(path):
            continue
        ledger = Ledger(path)
        try:
            account = ledger.account(terms.hash)
        except UnknownTerms:
            continue
        finally:
            ledger.close()
        if account.answers:
            spent_by_owner[part.name] = account.spent
    return spent_by_owner


def _require_place(folder: Path) -> None:
    above = next(each for each in (folder, *folder.resolve().parents) if each.exists())
    if not above.is_dir():
        raise LedgerError(f"{above}: expected a folder for the owners' ledgers, found a file; choose a folder")
    if not os.access(above, os.W_OK):
        raise LedgerError(f"{above}: this account cannot write to this folder; choose another folder for ledgers")


def _ledger_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.ledger"


def _ask_lifetime(path: Path, promised: Sequence[Reservation]) -> NoReturn:
    """Refuse, and name the options that create the missing ledgers."""
    epsilon, delta = float(max(each.epsilon for each in promised)), float(max(each.delta for each in promised))
    more = f" --lifetime-delta {delta:g}" if delta > 0 else ""
    raise LedgerError(
        f"{path}: the ledger does not exist. To create the ledger, give the table's lifetime budget: --lifetime "
        f"{epsilon:g}{more}, or larger values. These terms need ε = {epsilon:g}"
        + (f", and δ = {delta:g}" if delta > 0 else "")
    )


def _require_lifetime(path: Path, promised: Reservation, lifetime: float, lifetime_delta: float | None) -> None:
    """Refuse to create a ledger too small for these terms, and name the option that falls short."""
    epsilon, delta = float(promised.epsilon), float(promised.delta)
    short = (
        [] if promised.epsilon <= exact(lifetime) else [f"a lifetime ε of {epsilon:g} or more (--lifetime {epsilon:g})"]
    )
    if promised.delta > Fraction(str(lifetime_delta or 0)):
        short.append(f"a lifetime δ of {delta:g} or more (--lifetime-delta {delta:g}), because the noise needs a δ")
    if short:
        raise LedgerError(
            f"{path}: these terms need {' and '.join(short)}. No ledger was created yet, because a ledger's "
            "budget can never change later"
        )


def require_room(terms: Terms, folder: Path, lifetime: float | None, lifetime_delta: float | None, first: str) -> None:
    """Refuse to create ledgers too small for the question asked first and for learning together."""
    missing = missing_ledgers(terms, folder)
    epsilon, delta = max([terms.promised_epsilon(name) for name in missing], default=Fraction(0)), terms.privacy.delta
    if missing and (lifetime is None or exact(lifetime) < epsilon or (lifetime_delta or 0.0) < delta):
        more = f" --lifetime-delta {delta:g}" if delta > 0 else ""
        short = (
            ". The noise of these terms has a δ, and --lifetime-delta is smaller than this δ"
            if (lifetime_delta or 0.0) < delta
            else ""
        )
        raise LedgerError(
            f"{folder / missing[0]}.ledger: the ledger does not exist. To create the ledger, give "
            f"--lifetime {float(epsilon):g}{more}, or larger values, because {first} and learning together need this "
            f"budget{short}. No ledger was created yet, because a ledger's budget can never change later"
        )


def require_own_tables(terms: Terms, tables: Mapping[str, TableSource]) -> None:
    """Refuse one table for two owners, unless the terms allow shared records."""
    owners_with_one_table = same_table(tables)
    if owners_with_one_table is not None and terms.privacy.shared_records < 2:
        raise GuaranteeError(
            f"owners {owners_with_one_table[0]} and {owners_with_one_table[1]} have the same table: each would "
            "spend its epsilon on the same people, who were promised only one epsilon. Give each owner its own table, "
            "or set privacy.shared_records to the number of owners that may hold a person's record"
        )


def table_of(part: OwnerTerms, data: Path | None) -> TableSource:
    """Open the asking owner's table, for its own eyes: from --data, or from the terms."""
    if data is None and part.data is None:
        raise SettingError(
            f"{part.name}: the terms contain no path of this owner's table (owners.{part.name}.data); give --data TABLE"
        )
    return held_table(owner_table(part) if data is None else str(data))


def owner_table(part: OwnerTerms) -> str:
    """Return the path of an owner's table in the terms."""
    if part.data is None:
        raise TermsError(f"owners.{part.name}.data: missing; a run on one machine needs every owner's table")
    return part.data


@contextmanager
def exchange_with(
    setup: Setup, parties: list[Owner], seed: int | None, speeds: Mapping[str, float] | None = None
) -> Iterator[Exchange]:
    """Yield the exchange that asks the owners: each for its own noisy answer (on a virtual clock if nobody is waited
    for), or all for a sum with one noise. In a release, hosts in this process draw that noise and keep journals beside
    the first owner's ledger; nothing is lost there."""
    first, rounds = parties[0].ledger, LossyRounds.from_terms(setup.terms)
    if not setup.schedule.waits:
        yield on_virtual_clock(InProcess(parties), setup.schedule, speeds)
    elif rounds is not None and not isinstance(first, Ledger):
        inner = _simulated_sum(parties, seed) if setup.terms.noise.summed else InProcess(parties)
        coins = np.random.SeedSequence(seed, spawn_key=(COINS,))
        yield LossyExchange(inner, rounds, setup.schedule.horizon, coins)
    elif not setup.terms.noise.summed:
        yield InProcess(parties)
    elif isinstance(first, Ledger):
        hosted = HostedSum(setup, parties, first.path.with_name(f"{first.path.name}.hosts"))
        try:
            yield hosted
        finally:
            hosted.close()
    else:
        yield _simulated_sum(parties, seed)


def _simulated_sum(parties: Sequence[Owner], seed: int | None) -> SimulatedSum:
    return SimulatedSum(parties, np.random.SeedSequence(seed).spawn(len(parties) + 1)[-1])


def in_order(terms: Terms, owners: Sequence[Owner]) -> list[Owner]:
    """Return the owners in the order of the terms; refuse any others, or missing ones."""
    by_name = {owner.name: owner for owner in owners}
    if len(by_name) < len(owners):
        raise SettingError("owners: expected a different name for each owner")
    expected = [part.name for part in terms.owners]
    if set(by_name) != set(expected):
        raise TermsError(f"owners: expected {expected}, as in the terms, found {sorted(by_name)}")
    return [by_name[name] for name in expected]


def gather(
    terms: Terms, owners: list[Owner], replicates: int, seed: int | None
) -> tuple[list[Owner], list[Agreement], tuple[int, ...]]:
    """Return who answers (simulated copies in a study), their agreements, and the axes of parallel runs."""
    replicates = whole(replicates, "replicates")
    require_own_tables(terms, {owner.name: owner.table for owner in owners})
    if seed is not None:
        whole(seed, "seed", least=0)
    if not any(owner.releases for owner in owners):
        seeds = np.random.SeedSequence(seed).spawn(len(owners))
        parties = [owner.simulate(s, replicates) for owner, s in zip(owners, seeds, strict=True)]
        setup = parties[0].resolve(terms)
        return parties, [party.accept(setup) for party in parties], (replicates,)
    if seed is not None:
        raise SettingError("seed: allowed only in simulations, because a release draws fresh noise; remove seed")
    if replicates > 1:
        raise SettingError("replicates: allowed only in simulations, because owners with durable ledgers release once")
    if not all(owner.releases for owner in owners):
        raise SettingError("owners: expected durable ledgers for all owners, or for none")
    return owners, [owner.agreement(terms.hash) for owner in owners], ()
