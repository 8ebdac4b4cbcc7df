"""The playground: terms, the last whole forecast of them, and the sliders' changes since."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.errors import ParleyError, SettingError
from parley.terms import Terms, load_terms, write_terms

if TYPE_CHECKING:  # libraries that take their time, loaded when something is forecast
    from parley.decisions.outlook.forecast import Forecast, WhatIf
    from parley.workflows.negotiate import NegotiationReport

OWNERS_PER_PAGE = 20  # owners on a page


@dataclass(frozen=True)
class Played:
    """The terms on the page, and options of their view."""

    file: Path
    terms: Terms
    personal: bool = True  # members combine the joint model with their own rows
    target: float | None = None  # relative fitness that payments shall reach
    turn: int = 0  # rises with every change
    load: int = 0  # the turn at which the file was read


@dataclass(frozen=True)
class Tab:
    """The page that asks for a change, and the turn at which it was loaded."""

    name: str
    loaded: int


class _MovedOnError(Exception):
    """The sliders moved on, so nobody waits for this forecast."""


class Playground:
    """The terms that a page plays with. Changes come one at a time; a whole forecast runs beside them."""

    def __init__(self) -> None:
        self._changing, self._forecasting = threading.Lock(), threading.Lock()
        self._played: Played | None = None
        self._base: Forecast | None = None
        self._early: Forecast | None = None  # the first one, before what follows from it is worked out
        self._sent = 0.0
        self._tab = ""  # which page changed something last

    @property
    def played(self) -> Played | None:
        """The terms in play; None if none are loaded."""
        return self._played

    def load(self, file: Path) -> None:
        """Load the terms of a file."""
        terms = load_terms(file)
        with self._changing:
            turn = self._turn + 1
            self._played, self._base, self._early = Played(file, terms, turn=turn, load=turn), None, None
            self._tab = ""

    def change(
        self,
        owners: Mapping[str, Mapping[str, Any]] | None = None,
        noise: str | None = None,
        personal: bool | None = None,
        target: float | None = None,
        sent: float = 0.0,
        tab: Tab | None = None,
    ) -> Played:
        """Set these owners' numbers. A change `sent` before one that came earlier is ignored; an outdated `tab` is
        refused."""
        with self._changing:
            played = self.require()
            self._require_current(tab)
            if sent and sent < self._sent:
                return played
            self._sent = sent or self._sent
            self._tab = tab.name if tab else ""
            terms = _of_kind(played.terms, noise)
            if owners:
                terms = terms.changed(owners=owners)
            kept = played.personal if personal is None else personal
            self._played = replace(played, terms=terms, personal=kept, target=target, turn=self._turn + 1)
            return self._played

    def at_once(self) -> "WhatIf":
        """Carry the last whole forecast over to the sliders; make a whole one the first time."""
        from parley.decisions.outlook.forecast import what_if

        played = self.require()
        return what_if(self._base or self._whole(played), played.terms, played.personal)

    def first(self) -> "Forecast | None":
        """Return the first whole forecast while its gains are still computed; None if they are known, or it failed."""
        beside = threading.Thread(target=self._at_once_or_nothing, daemon=True)
        beside.start()
        while beside.is_alive() and self._base is None and self._early is None:
            beside.join(0.02)
        return self._early if self._base is None else None

    def _at_once_or_nothing(self) -> None:
        with suppress(ParleyError, OSError):  # said to who asks for the gains
            self.at_once()

    def coverage(self) -> str:
        """Return what intervals cover, in a few words."""
        return "" if self._base is None else self._base.coverage

    @property
    def judged(self) -> bool:
        """Whether the last whole forecast matches the sliders."""
        return self._base is not None and _same_forecast(self._base.terms, self.require().terms)

    def whole(self, turn: int) -> "Forecast | None":
        """Return a whole forecast for the sliders; None if they moved on since this turn."""
        played = self.require()
        try:
            return self._whole(played) if played.turn == turn else None
        except _MovedOnError:
            return None

    def negotiation(self, turn: int) -> "NegotiationReport | str | None":
        """Return the negotiation of these terms, or why there is none; None if the sliders moved on."""
        from parley.workflows.negotiate import bargain

        played = self.require()
        if played.turn != turn:
            return None
        with self._forecasting:
            try:
                return bargain(played.terms, target=played.target, keep_own=played.personal)
            except ParleyError as error:
                return str(error)

    def save(self, path: Path, tab: Tab | None = None, hosts: Sequence[str] = ()) -> Terms:
        """Write the terms to a new file, whole or not at all; with these hosts if noise is drawn once for all."""
        fresh = path.with_name(f".{path.name}.new")
        with self._changing:
            self._require_current(tab)
            terms = self.require().terms
            terms = terms.changed(hosts=tuple(hosts)) if hosts and terms.noise.summed else terms
            try:
                write_terms(terms, fresh)
                os.link(fresh, path)
            except FileExistsError:
                raise SettingError(f"{path.name} already exists and was not overwritten; choose another name") from None
            finally:
                fresh.unlink(missing_ok=True)
            return terms

    def _require_current(self, tab: Tab | None) -> None:
        """Refuse a page that shows outdated terms."""
        if tab is not None and tab.name != self._tab and tab.loaded != self._turn:
            raise SettingError("another page changed these terms after this page was loaded; load this page again")

    def _whole(self, played: Played) -> "Forecast":
        from parley.workflows.forecast import foresee

        with self._forecasting:
            if self._base is not None and _same_forecast(self._base.terms, played.terms):
                return self._base
            found = foresee(played.terms, progress=self._make_turn_check(played), doing=self._make_turn_check(played))
            self._keep(played, early=found)
            _ = found.outlook  # what is carried over rests on it
            self._keep(played, base=found)
            return found

    def _keep(self, played: Played, early: "Forecast | None" = None, base: "Forecast | None" = None) -> None:
        """Keep a forecast if its file is still in play."""
        with self._changing:
            if self._played is not None and self._played.load == played.load:
                self._early, self._base = early or self._early, base or self._base

    def _make_turn_check(self, played: Played) -> Callable[..., None]:
        """Return a check that stops a whole forecast once the sliders moved on."""

        def check(*_: object) -> None:
            if self._base is not None and self._turn != played.turn:
                raise _MovedOnError

        return check

    @property
    def _turn(self) -> int:
        return 0 if self._played is None else self._played.turn

    def require(self) -> Played:
        """Return the terms in play; raise an error if none are loaded."""
        if self._played is None:
            raise SettingError("no terms are loaded yet; choose a file in the field “Terms” and press Load")
        return self._played


def _same_forecast(one: Terms, other: Terms) -> bool:
    """Return whether two terms of one file have the same forecast; values and privacy costs do not count."""
    numbers = [[(part.records, part.epsilon) for part in terms.owners] for terms in (one, other)]
    rest = [(terms.privacy, terms.learning, terms.hosts) for terms in (one, other)]
    return numbers[0] == numbers[1] and rest[0] == rest[1]


def _of_kind(terms: Terms, noise: str | None) -> Terms:
    from parley.decisions.planning.noise_terms import each_owner_terms, kind_of, shared_terms

    if noise is None or noise == kind_of(terms):
        return terms
    if noise not in ("each_owner", "shared"):
        raise SettingError("noise: choose “each owner's own” or “shared noise”")
    return each_owner_terms(terms) if noise == "each_owner" else shared_terms(terms)
