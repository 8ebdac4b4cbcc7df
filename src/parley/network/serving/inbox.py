"""Terms that certified learners proposed to an owner, kept apart from its ledger until a person reads them.

Formal guarantee: a proposal reserves, spends and answers nothing: this module neither writes to the ledger nor to the
folder of acceptances. What is read as the proposal of a hash has a text with that hash. Of that text the daemon looks
up two names (`parties`) and nothing else; no path in it is opened, nothing in it is run.
"""

import hashlib
import json
import re
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from parley.durable import Version, file_version, make_folder, replace_text, seen_from
from parley.errors import Malformed, Refusal, SettingError, TermsError, UnknownTerms
from parley.network.identity.settings import OwnerSettings
from parley.network.serving.acceptance import Acceptances, accepted_terms
from parley.terms import FORMAT as TERMS_FORMAT
from parley.terms import Terms
from parley.validate import printable

FORMAT = "parley-proposal-1"
FILES = ("public", "preparation")  # that every party has a copy of, where terms name their hashes
OF_LEARNER = 8  # proposals of one learner that are open
IN_ALL = 64  # that are open
PARTS = 8192  # lists and tables in a text: what reading it costs
SHORTEST = 8  # digits of a hash by which a proposal is named
LONGEST_REASON = 500  # characters


@dataclass(frozen=True)
class Proposal:
    """Proposed terms in their canonical form, who sent them with which key and when; `refused` is the reason, if a
    person refused them; `certificate` (PEM) is the one that was shown, which an earlier Parley did not keep."""

    terms_hash: str
    text: str
    names: tuple[str, ...]
    fingerprint: str
    received: str
    refused: str | None = None
    certificate: str | None = None

    @property
    def title(self) -> str:
        """What the text says that it is called, fit for a terminal; nothing if it says nothing."""
        title = _content(self.text).get("title")
        return printable(title, 80).strip() if isinstance(title, str) else ""

    @property
    def peers(self) -> bool:
        """Whether the terms have no centre, so that each owner's own peer asks."""
        learning = _content(self.text).get("learning")
        return isinstance(learning, dict) and learning.get("topology") is not None

    @property
    def needs(self) -> dict[str, str]:
        """The SHA-256 of each file that a party must have for these terms: `public`, the public sample, and
        `preparation`, pinned numbers."""
        model = _content(self.text).get("model")
        digests = {key: model.get(f"{key}_sha256") for key in FILES} if isinstance(model, dict) else {}
        return {key: printable(str(digest), 64) for key, digest in digests.items() if digest is not None}

    def terms(self, public: Path | None = None, preparation: Path | None = None) -> Terms:
        """The terms, with this party's own copies of the files that they need; refused if the text is not how Parley
        writes them."""
        content, given = _content(self.text), dict(zip(FILES, (public, preparation), strict=True))
        for key, file in given.items():
            if file is None and key in self.needs:
                raise TermsError(
                    f"model.{key}_sha256: these terms need your own copy of the file with the SHA-256 "
                    f"{self.needs[key]}: --{key} FILE"
                )
            if file is not None and key not in self.needs:
                raise SettingError(f"--{key}: these terms need no such file")
        known = content.pop("format", None) == TERMS_FORMAT
        places = [None if file is None else seen_from(Path.cwd(), str(file)) for file in given.values()]
        try:
            terms = accepted_terms(content, *places) if known else None
        except TermsError as error:
            raise TermsError(f"these are no terms that could be accepted: {printable(str(error))}") from None
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            terms = None
        if terms is None or (terms.canonical, terms.hash) != (self.text, self.terms_hash):
            raise TermsError("these are no terms that could be accepted: not written as this Parley writes them")
        return terms


class Inbox:
    """One file for each proposal, named after its terms' hash; the daemon alone adds some."""

    def __init__(self, folder: Path, acceptances: Acceptances) -> None:
        self.folder, self._acceptances = folder, acceptances
        self._adding = threading.Lock()
        self._known: dict[str, tuple[Version, Proposal]] = {}

    def add(self, proposal: Proposal) -> Proposal:
        """The proposal of these terms that is kept, durably: an earlier one, with the newest certificate of its key; or
        this one, if the earlier one is open and of another key, or there is none. Refused if too many are open."""
        with self._adding:
            earlier = self.get(proposal.terms_hash)
            if earlier is None:
                self.require_room(proposal.names)
                make_folder(self.folder)
                kept = proposal
            elif earlier.fingerprint == proposal.fingerprint:
                kept = replace(earlier, certificate=proposal.certificate)
            else:
                kept = proposal if self.state(earlier) == "open" else earlier
            if kept != earlier:
                self._write(kept)
            return kept

    def require_room(self, names: Collection[str]) -> None:
        """Refuse one more proposal of somebody with these names, if too many are open."""
        waiting = [each for each in self.proposals() if self.state(each) == "open"]
        if len([each for each in waiting if {*each.names} & {*names}]) >= OF_LEARNER:
            raise Refusal(f"{OF_LEARNER} proposals of this learner wait for a decision already")
        if len(waiting) >= IN_ALL:
            raise Refusal("the inbox is full until this owner's people have decided about some proposals")

    def refuse(self, proposal: Proposal, reason: str) -> None:
        """Keep durably that a person refused it, and why; the learner reads the reason."""
        said = printable(reason, LONGEST_REASON + 1).strip()
        if not 1 <= len(said) <= LONGEST_REASON:
            raise SettingError(f"reason: expected 1 to {LONGEST_REASON} characters; the learner reads them")
        if self.state(proposal) == "accepted":
            raise SettingError("these terms are accepted already; parley owner close ends them")
        self._write(replace(proposal, refused=said))

    def state(self, proposal: Proposal) -> Literal["open", "accepted", "refused"]:
        """What became of it; terms that were accepted in the end are accepted, also where a disk damaged the file that
        says so."""
        try:
            accepted = self._acceptances.get(proposal.terms_hash) is not None
        except SettingError:
            accepted = True
        if accepted:
            return "accepted"
        return "open" if proposal.refused is None else "refused"

    def facts(self, proposal: Proposal) -> dict[str, Any]:
        """What there is to say of it before anybody looks at the terms themselves."""
        return {
            "terms_hash": proposal.terms_hash,
            "title": proposal.title,
            "proposed_by": list(proposal.names),
            "key": proposal.fingerprint,
            "received": proposal.received,
            "state": (state := self.state(proposal)),
            "reason": proposal.refused if state == "refused" else None,
        }

    def proposals(self) -> list[Proposal]:
        """All that were received and can be read, the first one first."""
        found = []
        for each in self._hashes():
            with suppress(SettingError):  # `damaged` names it
                found.append(self.get(each))
        return sorted(filter(None, found), key=lambda proposal: (proposal.received, proposal.terms_hash))

    def damaged(self) -> list[str]:
        """A sentence about each file, of a proposal or of its acceptance, that was passed over because nobody can read
        it."""
        sentences = []
        for each in self._hashes():
            for get in (self.get, self._acceptances.get):
                try:
                    get(each)
                except SettingError as error:
                    sentences.append(str(error))
        return sentences

    def find(self, beginning: str) -> Proposal:
        """The one whose terms' hash begins so."""
        found = [each for each in self._hashes() if len(beginning) >= SHORTEST and each.startswith(beginning)]
        proposal = self.get(found[0]) if len(found) == 1 else None
        if proposal is None:
            raise UnknownTerms(
                f"{printable(beginning, 64)}: expected the first {SHORTEST} or more digits of the hash of one proposal "
                f"in {self.folder}; {len(found)} begin so"
            )
        return proposal

    def _hashes(self) -> list[str]:
        """The hashes after which files are named, whatever is in them."""
        names = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
        return sorted(name[:-5] for name in names if re.fullmatch(r"[0-9a-f]{64}\.json", name))

    def get(self, terms_hash: str) -> Proposal | None:
        """The proposal of the terms with this hash; None if there is none."""
        path = self.folder / f"{terms_hash}.json"
        version, known = file_version(path), self._known.get(terms_hash)
        if version is None:
            return None
        if known is None or known[0] != version:
            known = self._known[terms_hash] = version, _read(path, terms_hash)
        return known[1]

    def _write(self, proposal: Proposal) -> None:
        content = {"format": FORMAT, **vars(proposal)}
        replace_text(self.folder / f"{proposal.terms_hash}.json", json.dumps(content, indent=1) + "\n")


def open_inbox(settings: OwnerSettings) -> Inbox:
    """The inbox of an owner, as its settings say; refused if it has none."""
    if settings.inbox is None:
        raise SettingError('owner.toml: inbox: missing; with inbox = "inbox" the daemon takes proposals')
    return Inbox(settings.inbox, Acceptances(settings.accepted))


def now() -> str:
    """The time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def parties(text: str) -> tuple[str, frozenset[str]]:
    """(the learner, the owners) that a proposed text names; refused if it names none, or is of so many parts that
    reading it takes long."""
    if text.count("[") + text.count("{") > PARTS:
        raise Malformed(f"proposal: expected terms of at most {PARTS:,} lists and tables")
    content = _content(text)
    try:
        learner, owners = content["learning"]["learner"], frozenset(part["name"] for part in content["owners"])
    except (KeyError, TypeError):
        raise Malformed("proposal: expected terms in their canonical form") from None
    return str(learner), owners


def _content(text: str) -> dict[str, Any]:
    """The text as JSON; empty if it is not an object."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _read(path: Path, expected: str) -> Proposal:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        known = content.pop("format") == FORMAT
        proposal = Proposal(**{**content, "names": tuple(content["names"])})
        known = known and {proposal.terms_hash, hashlib.sha256(proposal.text.encode()).hexdigest()} == {expected}
        said = (
            *proposal.names,
            proposal.fingerprint,
            proposal.received,
            proposal.refused or "",
            proposal.certificate or "",
        )
        known = known and all(isinstance(each, str) for each in said)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        known, proposal = False, None
    if not known or proposal is None:
        raise SettingError(f"{path}: not a proposal that Parley wrote; move it away")
    return proposal
