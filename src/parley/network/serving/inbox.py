"""Terms that certified learners proposed to an owner, kept apart from its ledger until a person reads them.

Formal guarantee: a proposal reserves, spends and answers nothing: this module writes neither to the ledger nor to the
folder of acceptances. At most `MAX_OPEN_PROPOSALS` proposals are open. A learner is whoever is certified under one
name, with any number of certificates; it gets one more place only while `FREE_PLACES_PER_PROPOSAL` times as many places
are free as it has. So no learner has more than `MAX_OPEN_PER_LEARNER` open, and the last `FREE_PLACES_PER_PROPOSAL`
places go to as many learners. What is open lapses at its end by the daemon's clock, which no later proposal of the same
terms puts off; what has ended stays ended, however that clock is set. Of what lapsed or was withdrawn a line is kept,
of one learner the latest `MAX_OPEN_PER_LEARNER`, `MAX_GONE_LINES` in all. What is read as the proposal of a hash has a
text with that hash, or none any more. Of that text the daemon looks up two names (`parties`) and nothing else; no path
in it is opened, nothing in it is run.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from parley.durable import Version, file_version, make_folder, replace_text, resolved_against
from parley.errors import DiskError, Malformed, Refusal, SettingError, TermsError, UnknownTerms
from parley.network.identity.settings import PROPOSAL_LAPSE_DAYS, OwnerSettings
from parley.network.serving.acceptance import Acceptances, accepted_terms
from parley.network.serving.opening import locked
from parley.numerals import counted
from parley.terms import FORMAT as TERMS_FORMAT
from parley.terms import Terms
from parley.validate import printable

if TYPE_CHECKING:
    from parley.network.exchange.messages import State


FORMAT = "parley-proposal-1"
HASHED_FILES = ("public", "preparation")  # that every party has a copy of, where terms name their hashes
MAX_TEXT_PARTS = 8192  # lists and tables in a text: what reading it costs
MAX_REASON_CHARACTERS = 500  # characters

Ending = Literal["refused", "lapsed", "withdrawn"]
GONE_STATES = ("lapsed", "withdrawn")  # of these a line is kept, and no text


@dataclass(frozen=True)
class Proposal:
    """Proposed terms in canonical form, who sent them with which key and when, and until when they wait. `ended` and
    `reason` say how and why they ended other than by acceptance. `certificate` (PEM) was shown with them; an earlier
    Parley kept none. What is `GONE_STATES` has no text; `called` keeps its title."""

    terms_hash: str
    text: str
    names: tuple[str, ...]
    fingerprint: str
    received: str
    until: str | None = None
    ended: Ending | None = None
    reason: str = ""
    certificate: str | None = None
    called: str = ""

    @property
    def title(self) -> str:
        """The text's title, fit for a terminal; empty if it has none."""
        title = _content(self.text).get("title") if self.text else self.called
        return printable(title, 80).strip() if isinstance(title, str) else ""

    @property
    def peers(self) -> bool:
        """Whether the terms have no centre, so that each owner's own peer asks."""
        learning = _content(self.text).get("learning")
        return isinstance(learning, dict) and learning.get("topology") is not None

    @property
    def needs(self) -> dict[str, str]:
        """The SHA-256 of each file these terms need: `public`, the public sample, and `preparation`, pinned numbers."""
        model = _content(self.text).get("model")
        digests = {key: model.get(f"{key}_sha256") for key in HASHED_FILES} if isinstance(model, dict) else {}
        return {key: printable(str(digest), 64) for key, digest in digests.items() if digest is not None}

    def gone(self, ended: Ending, when: str, reason: str) -> Self:
        """Return the line that is kept of it."""
        return replace(self, text="", certificate=None, called=self.title, ended=ended, until=when, reason=reason)

    def terms(self, public: Path | None = None, preparation: Path | None = None) -> Terms:
        """Return the terms, with own copies of files they need; refuse a text that is gone, or not in Parley's form."""
        if self.ended in GONE_STATES:
            raise TermsError(f"these terms are {self.ended}; ask the learner to propose them again")
        content, given = _content(self.text), dict(zip(HASHED_FILES, (public, preparation), strict=True))
        for key, file in given.items():
            if file is None and key in self.needs:
                raise TermsError(
                    f"model.{key}_sha256: these terms need your own copy of the file with the SHA-256 "
                    f"{self.needs[key]}; name it with --{key} FILE"
                )
            if file is not None and key not in self.needs:
                raise SettingError(f"--{key}: these terms do not need this file; remove the option")
        known = content.pop("format", None) == TERMS_FORMAT
        places = [None if file is None else resolved_against(Path.cwd(), str(file)) for file in given.values()]
        try:
            terms = accepted_terms(content, *places) if known else None
        except TermsError as error:
            raise TermsError(f"these terms cannot be accepted: {printable(str(error))}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            terms = None
        if terms is None or (terms.canonical, terms.hash) != (self.text, self.terms_hash):
            raise TermsError(
                "these terms cannot be accepted: they are not in the form that this version of Parley writes"
            )
        return terms

    def written(self) -> str:
        """Return its file's content."""
        return json.dumps({"format": FORMAT, **vars(self)}, indent=1) + "\n"


def read_proposal_file(path: Path, expected: str) -> Proposal:
    """Return the proposal in a file named after this hash; refuse it unless Parley wrote it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = content.pop("format") == FORMAT
        if (refused := content.pop("refused", None)) is not None:  # as an earlier Parley wrote it
            content |= {"ended": "refused", "reason": refused}
        proposal = Proposal(**{**content, "names": tuple(content["names"])})
        known = known and proposal.terms_hash == expected and proposal.ended in (None, "refused", *GONE_STATES)
        if proposal.ended in GONE_STATES:
            known = known and proposal.text == ""
        else:
            known = known and hashlib.sha256(proposal.text.encode()).hexdigest() == expected
        texts = (proposal.fingerprint, proposal.received, proposal.until or "", proposal.reason)
        known = known and all(
            isinstance(each, str) for each in (*texts, *proposal.names, proposal.certificate or "", proposal.called)
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known, proposal = False, None
    if not known or proposal is None:
        raise SettingError(f"{path}: expected a proposal that Parley wrote; move the file away")
    return proposal


def parties(text: str) -> tuple[str, frozenset[str]]:
    """Return (the learner, the owners) that a proposed text names; refuse one without them, or slow to read."""
    if text.count("[") + text.count("{") > MAX_TEXT_PARTS:
        raise Malformed(f"proposal: expected terms with at most {MAX_TEXT_PARTS:,} lists and tables")
    content = _content(text)
    try:
        learner, owners = content["learning"]["learner"], frozenset(part["name"] for part in content["owners"])
    except (KeyError, TypeError):
        raise Malformed("proposal: expected terms in their canonical form") from None
    return str(learner), owners


def checked_reason(reason: str) -> str:
    """Return a reason as the learner will read it; refuse an empty or too long one."""
    text = printable(reason, MAX_REASON_CHARACTERS + 1).strip()
    if not 1 <= len(text) <= MAX_REASON_CHARACTERS:
        raise SettingError(f"reason: expected 1 to {MAX_REASON_CHARACTERS} characters; the learner reads the reason")
    return text


def _content(text: str) -> dict[str, Any]:
    """Return the text as JSON; empty if it is not an object."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


MAX_OPEN_PROPOSALS = 64  # proposals that are open
FREE_PLACES_PER_PROPOSAL = 8  # places that are free for each that a learner has, before it gets another
MAX_OPEN_PER_LEARNER = 8  # which follows from both
MAX_GONE_LINES = 256  # of proposals that are gone
MIN_HASH_DIGITS = 8  # digits of a hash by which a proposal is named
LOCK_TIMEOUT_S = 5.0  # seconds for somebody else who changes something

Clock = Callable[[], datetime]


def now() -> datetime:
    """Return this machine's time."""
    return datetime.now(UTC)


class Inbox:
    """One file for each proposal, named after its terms' hash; the daemon alone adds some, which lapse after `days`."""

    def __init__(
        self, folder: Path, acceptances: Acceptances, days: int = PROPOSAL_LAPSE_DAYS, clock: Clock = now
    ) -> None:
        self.folder, self._acceptances = folder, acceptances
        self._days, self._clock = timedelta(days=days), clock
        self._known: dict[str, tuple[Version, Proposal]] = {}

    def add(self, proposal: Proposal) -> Proposal:
        """Keep the proposal, durably, and return what is kept; refuse it if too many are open. An earlier one stays,
        with the newest certificate of its key, unless it is gone, or open and of another key."""
        with self._changing():
            earlier = self.get(proposal.terms_hash)
            if earlier is None or self.state(earlier) in GONE_STATES:
                self.require_room(proposal.names)
                kept = replace(proposal, until=_written(self._clock() + self._days))
            elif earlier.fingerprint == proposal.fingerprint:
                kept = earlier if earlier.ended in GONE_STATES else replace(earlier, certificate=proposal.certificate)
            else:
                kept = replace(proposal, until=earlier.until) if self.state(earlier) == "open" else earlier
            if kept != earlier:
                self._write(kept)
            return kept

    def require_room(self, names: Collection[str]) -> None:
        """Refuse one more proposal under these names, if too many are open."""
        waiting = [each for each in self.proposals() if self.state(each) == "open"]
        theirs = len([each for each in waiting if {*each.names} & {*names}])
        free = MAX_OPEN_PROPOSALS - len(waiting)
        if theirs and FREE_PLACES_PER_PROPOSAL * theirs >= free:
            raise Refusal(
                f"this learner already has {counted(theirs, 'proposal')} waiting for this owner's decision; propose "
                "again after the owner has decided"
            )
        if free <= 0:
            raise Refusal("the inbox is full; propose again after this owner has decided on other proposals")

    def refuse(self, proposal: Proposal, reason: str) -> None:
        """Keep durably that a person refused it, and why; the learner reads the reason."""
        shown_reason = checked_reason(reason)
        with self.unchanged(proposal) as current:
            state = self.state(current)
            if state == "accepted":
                raise SettingError("these terms are already accepted; to end these terms, run parley owner close")
            if state in GONE_STATES:
                raise SettingError(f"these terms are already {state}; there is nothing to refuse")
            self._write(replace(current, ended="refused", reason=shown_reason))

    def withdraw(self, terms_hash: str, fingerprint: str | None) -> bool:
        """Withdraw terms that are open and were proposed with this key; return whether they were."""
        if self.get(terms_hash) is None:
            return False
        with self._changing():
            current = self.get(terms_hash)
            if current is None or current.fingerprint != fingerprint or self.state(current) != "open":
                return False
            self._let_go(current, "withdrawn", self._clock())
            return True

    def lapse(self) -> list[Proposal]:
        """Let overdue open proposals lapse, durably, and return them. Nothing stays open for longer than the days from
        now, even if an earlier Parley set no end, or a clock was ahead."""
        if not any(self.state(each) == "open" for each in self.proposals()):
            return []
        lapsed, moment, trouble = [], self._clock(), None
        latest = _written(moment + self._days)
        with self._changing():
            for each in self.proposals():
                if self.state(each) != "open":
                    continue
                try:
                    if each.until is None or each.until > latest:
                        self._write(replace(each, until=latest))
                    elif each.until <= _written(moment):
                        self._let_go(each, "lapsed", moment, f"nobody decided about it until {each.until[:10]}")
                        lapsed.append(each)
                except DiskError as error:  # this one stays open, and stands in no other's way
                    trouble = error
        if trouble is not None and not lapsed:
            raise trouble
        return lapsed

    @contextmanager
    def unchanged(self, proposal: Proposal) -> Iterator[Proposal]:
        """Hold the proposal unchanged while a decision is written down; refuse one that changed since it was read."""
        with self._changing():
            current = self.get(proposal.terms_hash)
            if current is None or (current.fingerprint, current.ended) != (proposal.fingerprint, proposal.ended):
                raise SettingError(
                    f"{proposal.terms_hash[:16]}…: the proposal changed after it was read; read the new proposal"
                )
            yield current

    def state(self, proposal: Proposal) -> "State":
        """Return what became of it; accepted terms are accepted even if a disk damaged the file that says so."""
        try:
            accepted = self._acceptances.get(proposal.terms_hash) is not None
        except SettingError:
            accepted = True
        return "accepted" if accepted else proposal.ended or "open"

    def facts(self, proposal: Proposal) -> dict[str, Any]:
        """Return what is known before anybody looks at the terms themselves."""
        return {
            "terms_hash": proposal.terms_hash,
            "title": proposal.title,
            "proposed_by": list(proposal.names),
            "key": proposal.fingerprint,
            "received": proposal.received,
            "state": (state := self.state(proposal)),
            "until": proposal.until if state == "open" else None,
            "reason": (proposal.reason or None) if state == proposal.ended else None,
        }

    def proposals(self) -> list[Proposal]:
        """Return all received proposals that can be read, the first one first."""
        proposals = []
        for each in self._hashes():
            with suppress(SettingError):  # `damaged` names it
                proposals.append(self.get(each))
        return sorted(filter(None, proposals), key=lambda proposal: (proposal.received, proposal.terms_hash))

    def damaged(self) -> list[str]:
        """Return a sentence about each unreadable file, of a proposal or of its acceptance."""
        sentences = []
        for each in self._hashes():
            for get in (self.get, self._acceptances.get):
                try:
                    get(each)
                except SettingError as error:
                    sentences.append(str(error))
        return sentences

    def find(self, beginning: str) -> Proposal:
        """Return the one proposal whose terms' hash begins so."""
        hashes = [each for each in self._hashes() if len(beginning) >= MIN_HASH_DIGITS and each.startswith(beginning)]
        proposal = self.get(hashes[0]) if len(hashes) == 1 else None
        if proposal is None:
            raise UnknownTerms(
                f"{printable(beginning, 64)}: expected the first {MIN_HASH_DIGITS} or more digits of one proposal's "
                f"hash in {self.folder}; {len(hashes)} hashes begin with these digits"
            )
        return proposal

    def get(self, terms_hash: str) -> Proposal | None:
        """Return the proposal of the terms with this hash, or None."""
        path = self._path(terms_hash)
        version, known = file_version(path), self._known.get(terms_hash)
        if version is None:
            self._known.pop(terms_hash, None)
            return None
        if known is None or known[0] != version:
            known = self._known[terms_hash] = version, read_proposal_file(path, terms_hash)
        return known[1]

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Allow one change at a time, of this process and others."""
        make_folder(self.folder)
        with locked(self.folder / ".lock", LOCK_TIMEOUT_S):
            yield

    def _let_go(self, proposal: Proposal, ended: Ending, moment: datetime, reason: str = "") -> None:
        """Keep the line of a gone proposal, and of such lines only the latest."""
        self._write(proposal.gone(ended, _written(moment), reason))
        lines = sorted(
            (each for each in self.proposals() if self.state(each) in GONE_STATES),
            # this one first: by a clock that was set back it would look like the oldest
            key=lambda each: (each.terms_hash == proposal.terms_hash, each.until or "", each.terms_hash),
            reverse=True,
        )
        theirs = [each for each in lines if {*each.names} & {*proposal.names}]
        for each in {*theirs[MAX_OPEN_PER_LEARNER:], *lines[MAX_GONE_LINES:]}:
            with suppress(OSError):
                self._path(each.terms_hash).unlink(missing_ok=True)

    def _hashes(self) -> list[str]:
        """Return the hashes after which files are named, whatever they hold."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted(name[:-5] for name in names if re.fullmatch(r"[0-9a-f]{64}\.json", name))

    def _path(self, terms_hash: str) -> Path:
        return self.folder / f"{terms_hash}.json"

    def _write(self, proposal: Proposal) -> None:
        replace_text(self._path(proposal.terms_hash), proposal.written())


def open_inbox(settings: OwnerSettings) -> Inbox:
    """Return an owner's inbox by its settings; refuse if it has none."""
    if settings.inbox is None:
        raise SettingError('owner.toml: inbox: missing; to receive proposals, set inbox = "inbox"')
    return Inbox(settings.inbox, Acceptances(settings.accepted), settings.inbox_days)


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
