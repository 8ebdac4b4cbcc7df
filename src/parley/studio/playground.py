"""What is being played with: terms, the last whole forecast of them, and what the sliders say since."""

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

PAGE = 20  # owners on a page


@dataclass(frozen=True)
class Played:
    """Terms as they stand on the page, and how they are looked at."""

    file: Path
    terms: Terms
    personal: bool = True  # members combine the joint model with their own rows
    target: float | None = None  # relative fitness that payments shall reach
    turn: int = 0  # rises with every change
    load: int = 0  # the turn at which the file was read


@dataclass(frozen=True)
class Tab:
    """Which page asks for a change, and at which turn it was loaded."""

    name: str
    loaded: int


class _MovedOnError(Exception):
    """The sliders moved on, so nobody waits for this forecast."""


class Playground:
    """The terms that a page plays with. One change at a time; a whole forecast is made beside them."""

    def __init__(self) -> None:
        self._changing, self._forecasting = threading.Lock(), threading.Lock()
        self._played: Played | None = None
        self._base: Forecast | None = None
        self._early: Forecast | None = None  # the first one, before what follows from it is worked out
        self._sent = 0.0
        self._tab = ""  # which page changed something last

    @property
    def played(self) -> Played | None:
        """What is being played with; None: nothing yet."""
        return self._played

    def load(self, file: Path) -> None:
        """Play with the terms of a file."""
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
        """The terms with these numbers of owners; who is not named keeps its own. What was `sent` before something
        that came earlier changes nothing; a `tab` that shows what another one changed since is refused."""
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
        """The last whole forecast, carried over to what the sliders say; the first time, a whole one."""
        from parley.decisions.outlook.forecast import what_if

        played = self.require()
        return what_if(self._base or self._whole(played), played.terms, played.personal)

    def first(self) -> "Forecast | None":
        """The first whole forecast as soon as there is one, while the gains that follow from it are worked out beside;
        None: they are known, or there is none."""
        beside = threading.Thread(target=self._at_once_or_nothing, daemon=True)
        beside.start()
        while beside.is_alive() and self._base is None and self._early is None:
            beside.join(0.02)
        return self._early if self._base is None else None

    def _at_once_or_nothing(self) -> None:
        with suppress(ParleyError, OSError):  # said to who asks for the gains
            self.at_once()

    def coverage(self) -> str:
        """What intervals cover, in a few words."""
        return "" if self._base is None else self._base.coverage

    @property
    def judged(self) -> bool:
        """Whether the last whole forecast is of what the sliders say."""
        return self._base is not None and _alike(self._base.terms, self.require().terms)

    def whole(self, turn: int) -> "Forecast | None":
        """A whole forecast of what the sliders say; None: they moved on since this turn."""
        played = self.require()
        try:
            return self._whole(played) if played.turn == turn else None
        except _MovedOnError:
            return None

    def negotiation(self, turn: int) -> "NegotiationReport | str | None":
        """What `parley negotiate` says of these terms, or why it says nothing; None: the sliders moved on."""
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
        """Write the terms as they stand to a new file: whole, or not at all; with these hosts, where they draw one
        noise for all."""
        fresh = path.with_name(f".{path.name}.new")
        with self._changing:
            self._require_current(tab)
            terms = self.require().terms
            terms = terms.changed(hosts=tuple(hosts)) if hosts and terms.noise.summed else terms
            try:
                write_terms(terms, fresh)
                os.link(fresh, path)
            except FileExistsError:
                raise SettingError(f"{path.name} exists; choose another name, nothing is overwritten") from None
            finally:
                fresh.unlink(missing_ok=True)
            return terms

    def _require_current(self, tab: Tab | None) -> None:
        """Refuse a page that does not show the terms as they are."""
        if tab is not None and tab.name != self._tab and tab.loaded != self._turn:
            raise SettingError("another page changed these terms since this one was loaded; load it again")

    def _whole(self, played: Played) -> "Forecast":
        from parley.workflows.forecast import foresee

        with self._forecasting:
            if self._base is not None and _alike(self._base.terms, played.terms):
                return self._base
            found = foresee(played.terms, progress=self._still(played), doing=self._still(played))
            self._keep(played, early=found)
            _ = found.outlook  # what is carried over rests on it
            self._keep(played, base=found)
            return found

    def _keep(self, played: Played, early: "Forecast | None" = None, base: "Forecast | None" = None) -> None:
        """Keep a forecast of a file that is still the one that is played with."""
        with self._changing:
            if self._played is not None and self._played.load == played.load:
                self._early, self._base = early or self._early, base or self._base

    def _still(self, played: Played) -> Callable[..., None]:
        """Stops a whole forecast that nobody waits for any more: the processor belongs to the slider that moves."""

        def check(*_: object) -> None:
            if self._base is not None and self._turn != played.turn:
                raise _MovedOnError

        return check

    @property
    def _turn(self) -> int:
        return 0 if self._played is None else self._played.turn

    def require(self) -> Played:
        """What is being played with; refused where that is nothing."""
        if self._played is None:
            raise SettingError("no terms are loaded yet; choose a file of the folder")
        return self._played


def _alike(one: Terms, other: Terms) -> bool:
    """Whether a forecast of one is the other's, both of one file: owners' values and privacy costs change nothing."""
    numbers = [[(part.records, part.epsilon) for part in terms.owners] for terms in (one, other)]
    rest = [(terms.privacy, terms.learning, terms.hosts) for terms in (one, other)]
    return numbers[0] == numbers[1] and rest[0] == rest[1]


def _of_kind(terms: Terms, noise: str | None) -> Terms:
    """The same agreement with each owner's own noise, or with one for all."""
    from parley.decisions.planning.noise_terms import each_owner_terms, kind_of, shared_terms

    if noise is None or noise == kind_of(terms):
        return terms
    if noise not in ("each_owner", "shared"):
        raise SettingError("noise: expected each_owner or shared")
    return each_owner_terms(terms) if noise == "each_owner" else shared_terms(terms)
