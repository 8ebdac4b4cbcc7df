"""Parties keep the ends of each other's books and tell a party that comes back with an older one.

Before an owner's shares leave, and before a host opens, it exchanges ends with the hosts of the agreement (`tell`):
each learns the other's end, checks that it goes on from the one it keeps, keeps it durably and signs it, and each
checks that its own book holds what the other keeps of it. A learner says with each question which end it saw (`hear`).

Formal guarantee: let a party keep to this, with its book put back to an earlier time, whatever else on its disk went
back with it. If an honest witness keeps an end that the put back book does not hold, `tell` and `hear` raise
`RolledBack`, which names the witness. As all hosts of an agreement are told before an owner's share or a new opening
leaves, none leaves under an agreement whose hosts include the witness. Where the end bears the party's own signature,
the party remembers it, and gives no answer, share or new opening under any agreement until the latest book is back or
restored. A witness that lies about an end without that signature stops only what it takes part in; with a witness,
whoever held a key of the party can stop everything. A party of which an end is kept is refused when it stops showing
ends (`require_heard`): its programs may have gone back, too.

Restores. An end says which book it is (`origin`) and after how many restores. Let an honest witness once keep an end
of a restored book, under whatever agreement. From then on it refuses every end of the same origin from before that
restore, every other book with the same number of restores, and every end without an origin: earlier programs show
those. The party that is told so remembers it as above. Each end is signed in the earlier form, too, so that parties
with earlier programs go on; they notice what they noticed before.

Signatures of a fork. A party that started signs no end beyond what a witness showed it, until it asked all witnesses of
its agreements that it can reach (`require_told`, `ask_once`). So a book that was put back signs no fork if one of them
kept a later end, and the latest book then goes on as if nothing had been.

Not promised: that an end was seen. What a book recorded after the last exchange with an honest witness can be lost
unnoticed. If no witness that kept a later end could be reached, or the book went back to before the agreement with it,
what the party signs meanwhile speaks against the latest book; then it has to be restored. A new file has an origin of
its own: nobody can tell that it replaces a lost one, except under the agreements of that one.
"""

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, cast, get_args

from parley.errors import ContradictionError, Malformed, NotOffered, RolledBack, Unavailable
from parley.network.exchange import wire_pb2
from parley.network.identity.certificates import Signer
from parley.numerals import counted
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import (
    MAX_RESTORES,
    Ends,
    Kind,
    Signature,
    SignedEnd,
    Witnessed,
    end_texts,
    kept_texts,
)
from parley.terms import PARTY

HEARD_VALID_S = 60.0  # seconds for which a party need not show its book's end again
ASK_PAUSE_S = 60.0  # seconds after which all witnesses are asked again if none replied
MAX_ATTEMPTS = 5  # exchanges until both know where the other is: several agreements may write meanwhile
RESTORE_COMMANDS = {"ledger": "parley owner restore", "journal": "parley host restore"}
REMEDIES = {
    "ledger": "This owner puts the latest ledger back, or runs parley owner restore",
    "journal": "This host puts the latest journal back, or runs parley host restore",
}


def countersigned(end: SignedEnd, witness: str, signer: Signer) -> SignedEnd:
    """Return the end with the witness's signature."""
    named = replace(end, witness=witness, countersignature=None)
    return replace(named, countersignature=signer.sign(*kept_texts(named)))


class Witness(Protocol):
    """Another party that keeps ends, as it is called."""

    @property
    def name(self) -> str: ...
    def exchange_ends(self, ends: Ends, timeout: float) -> Ends: ...


Keeper = tuple[str, Witness, str | None]  # a witness of an agreement (its hash), with its key if one is known


@dataclass(frozen=True)
class Sender:
    """Who told something: a certified party, and its only key if one is known."""

    name: str
    key: str | None = None
    kind: Kind = "journal"  # of its own book, if it has one


class Witnesses:
    """One party and its book among the others."""

    def __init__(
        self, name: str, kind: Kind, book: Witnessed, signer: Signer | None, warn: Callable[[str], None] | None = None
    ) -> None:
        self._name, self._kind, self._book, self._signer = name, kind, book, signer
        self._warn = warn or (lambda sentence: None)
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._behind: dict[
            tuple[str, Kind, str], str
        ] = {}  # parties that showed an older end, and why they are refused
        self._told: set[str] = set()
        self._suspects: set[tuple[str, Kind, str]] = set()  # parties whose next message has to hold what is kept
        self._heard: dict[tuple[str, Kind, str], float] = {}  # when a party last showed its book's end
        self._signed: dict[str, SignedEnd] = {}  # by witness, what is not written down yet
        self._asked = False
        self._asking, self._last_try = threading.Lock(), -ASK_PAUSE_S
        shown = [end.head.entries for end in book.countersigned() if end.book and book.holds(end)]
        self._confirmed = max([1, *shown])  # rows that some witness showed

    @property
    def asked(self) -> bool:
        """Whether all witnesses that can be reached were asked since the start, and some replied."""
        return self._asked

    def require_held(self) -> None:
        """Refuse if a witness once proved that this book went back, and the book still lacks that end."""
        later = self._book.contradiction()
        if later is not None:
            raise self._rolled_back(later)

    def flush(self) -> None:
        """Write down what witnesses signed about this book: evidence, by which nothing is decided."""
        while self._signed:
            _, end = self._signed.popitem()
            self._book.add_countersigned(end)

    def require_current(self, party: str, kind: Kind, terms: str) -> None:
        """Refuse a party whose book went back, as far as it has shown under this agreement."""
        if (party, kind, terms) in self._behind:
            raise RolledBack(self._behind[party, kind, terms])

    def require_heard(self, party: str, kind: Kind, terms: str, ask: Callable[[], None] | None = None) -> None:
        """Refuse a party of whose book an end is kept, unless it showed the book's end lately or does so when it is
        asked: its programs and its disk may be those of before."""
        self.require_current(party, kind, terms)
        if self._book.kept(party, kind, terms) is None and not self._book.saw_restore(party, kind):
            return
        lately = time.monotonic() - self._heard.get((party, kind, terms), -HEARD_VALID_S) < HEARD_VALID_S
        if lately and (party, kind, terms) not in self._suspects:
            return
        if ask is None:
            raise Unavailable(
                f"{party}: an end of its {kind} is kept, and it has not shown one lately. Ask the same question again; "
                "if that changes nothing, its programs or its disk are older"
            )
        ask()
        self.require_current(party, kind, terms)

    def require_told(
        self,
        terms: str,
        witnesses: Callable[[], list[tuple[Witness, str | None]]],
        timeout: float,
        elsewhere: Callable[[], list[Keeper]] = list,
    ) -> None:
        """Ask all witnesses of an agreement once since the start, with those of other agreements; `Unavailable` while
        none of this agreement can be reached."""
        self.require_held()
        if terms in self._told:
            return
        asked = [(terms, witness, key) for witness, key in witnesses()]
        failures = self._ask(asked, elsewhere, timeout)
        for error in sorted(failures, key=lambda error: not isinstance(error, RolledBack)):
            if not isinstance(error, Unavailable):
                raise error
        self.require_held()
        if len(failures) == len(asked):
            raise Unavailable(f"no witness of this {self._kind} can be reached; ask the same question again")
        self._told.add(terms)
        self._asked = True

    def ask_once(self, keepers: Callable[[], list[Keeper]], timeout: float) -> None:
        """Ask the witnesses of all agreements, once since the start if some reply, else again after a pause. Refuse if
        one proves that this book went back; one that cannot be reached, or went back itself, stops nothing."""
        self.require_held()
        with self._asking:
            if self._asked or time.monotonic() - self._last_try < ASK_PAUSE_S:
                return
            asked = list({(witness.name, key): (terms, witness, key) for terms, witness, key in keepers()}.values())
            failures = self._ask(asked, list, timeout)
            self._last_try = time.monotonic()
            self.require_held()
            self._asked = len(failures) < len(asked)

    def _ask(self, asked: list[Keeper], elsewhere: Callable[[], list[Keeper]], timeout: float) -> list[BaseException]:
        """Tell all these at once, and unless that was done before each witness of other agreements; return what went
        wrong with the former. What the latter prove is remembered."""
        names = {witness.name for _, witness, _ in asked}
        further = {} if self._asked else {each[1].name: each for each in elsewhere() if each[1].name not in names}
        if not asked and not further:
            return []
        with ThreadPoolExecutor(len(asked) + len(further), thread_name_prefix="parley-witness") as pool:
            calls = [pool.submit(self.tell, *each, timeout) for each in (*asked, *further.values())]
        return [error for call in calls[: len(asked)] if (error := call.exception()) is not None]

    def tell(self, terms: str, witness: Witness, key: str | None, timeout: float) -> None:
        """Exchange ends with one witness, until it keeps this book's end and this party keeps its; refuse to go on if
        either book went back. All of it takes `timeout` seconds at most."""
        self.require_held()
        due, turn = time.monotonic() + timeout, self._turns[witness.name]
        if not turn.acquire(timeout=timeout):
            raise Unavailable(f"{witness.name}: it does not answer at the moment; ask the same question again")
        try:
            self._tell(terms, witness, key, due)
        finally:
            turn.release()

    def _tell(self, terms: str, witness: Witness, key: str | None, due: float) -> None:
        earlier, shown = self._last_known(witness.name), None
        for attempt in range(MAX_ATTEMPTS):
            own, kept = self._own_end(terms), self._book.kept(witness.name, "journal", terms, shown)
            message = Ends(terms, own, earlier, None if kept is None else self._countersign(kept))
            left = due - time.monotonic()
            if attempt and not left > 0:
                break
            try:
                reply = witness.exchange_ends(message, max(left, 0.1))
            except NotOffered:
                if kept is not None or self._book.saw_restore(witness.name, "journal"):
                    raise RolledBack(silent_now(witness.name)) from None
                self._warn(f"{witness.name}: an older version, which keeps no ends of others' books")
                return
            known = self._read_kept(reply, Sender(witness.name, key))
            agreed = self._keep(reply, Sender(witness.name, key), kept)
            if agreed and (known.head, known.book) == (own.head, own.book):
                return
            earlier, shown = known.head, reply.own
        raise Unavailable(f"{witness.name}: the ends of books change too fast; ask the same question again")

    def answer(self, ends: Ends, sender: Sender) -> Ends:
        """Return what this party tells one that told it its own end."""
        if ends.own is None or (ends.own.party, ends.own.kind) != (sender.name, sender.kind):
            raise Malformed("ends of books: expected the end of the sender's own book")
        if ends.own.terms != ends.terms or not self._certified(ends.own, sender):
            raise Malformed("ends of books: the end is not signed by the key that the authority certified")
        if ends.kept is not None and ends.kept.countersignature is None:
            raise Malformed("ends of books: expected the witness's signature")
        self.hear(ends.kept, sender)
        kept = self._book.keep(ends.own, ends.earlier)
        self._note_standing(ends.own, kept)
        earlier = None if ends.kept is None else self._book.own_at(ends.kept.head.entries)
        return Ends(ends.terms, self._own_end(ends.terms), earlier, self._countersign(kept))

    def hear(self, kept: SignedEnd | None, sender: Sender) -> None:
        """Refuse if a party saw an end of this book that the book does not hold. Without a signature (a relay's) the
        word counts for this question alone."""
        if kept is None:
            return
        if (kept.party, kept.kind) != (self._name, self._kind) or kept.witness not in ("", sender.name):
            raise Malformed("ends of books: expected an end of this party's book")
        if self._signer is None:
            kept = replace(kept, countersignature=None)
        if kept.countersignature is not None and not self._countersigned(kept, sender):
            raise Malformed("ends of books: the witness's signature does not fit")
        self._require_holds(kept)

    def own_end(self, terms: str, entries: int = 0) -> tuple[SignedEnd, str | None]:
        """Return this book's signed end, and its digest with so many rows."""
        then = self._book.own_at(entries)
        return self._own_end(terms), None if then is None else then.hash

    def _read_kept(self, reply: Ends, sender: Sender) -> SignedEnd:
        """Return what the witness keeps of this book; refuse to go on if the book does not hold it."""
        kept = reply.kept
        if (
            kept is None
            or (kept.party, kept.kind) != (self._name, self._kind)
            or kept.witness != sender.name
            or not self._countersigned(kept, sender)
        ):
            raise ContradictionError(
                f"{sender.name}: the reply about the ends of books is not signed by the key that the authority "
                "certified; contact the party's operator"
            )
        self._require_holds(kept)
        return kept

    def _require_holds(self, kept: SignedEnd) -> None:
        if not self._book.holds(kept):
            if kept.book and kept.countersignature is not None and self._signed_here(kept):
                self._book.add_countersigned(kept)
            raise self._rolled_back(kept)
        if kept.countersignature is not None:
            self._signed[kept.witness] = kept
            if kept.book:  # else a learner's word, which shows nothing that the party signed
                self._confirmed = max(self._confirmed, kept.head.entries)

    def _keep(self, reply: Ends, sender: Sender, before: SignedEnd | None) -> bool:
        """Keep the witness's own end; False if another exchange came in between."""
        own = reply.own
        ours = own is not None and (own.party, own.kind) == (sender.name, sender.kind)
        if own is None or not ours or not self._certified(own, sender):
            raise ContradictionError(
                f"{sender.name}: the end of its {sender.kind} is not signed by the key that the authority certified; "
                "contact the party's operator"
            )
        kept = self._book.keep(own, reply.earlier)
        if kept.head == own.head and kept.book == own.book and not kept.refutes(own):
            self._note_current(own)
            return True
        if before is not None and (kept.head, kept.book) == (before.head, before.book):
            self._behind[own.party, own.kind, own.terms] = _other_went_back(own, kept)
            raise RolledBack(self._behind[own.party, own.kind, own.terms])
        return False

    def _note_standing(self, own: SignedEnd, kept: SignedEnd) -> None:
        """Remember whether the sender showed another book or another past. Fewer rows alone prove nothing, as messages
        may overtake each other: the reply asks for the later end, and the sender's next message has to hold it. One
        that only lacks the link is asked for it likewise."""
        sender, fewer = (own.party, own.kind, own.terms), own.head.entries < kept.head.entries
        same_length = own.head.entries == kept.head.entries
        other = kept.book != own.book or kept.refutes(own) or (same_length and own.head != kept.head)
        if other or (fewer and sender in self._suspects):
            self._behind[sender] = _other_went_back(own, kept)
        elif fewer:
            self._suspects.add(sender)
        elif same_length:
            self._note_current(own)

    def _note_current(self, own: SignedEnd) -> None:
        sender = own.party, own.kind, own.terms
        self._behind.pop(sender, None)
        self._suspects.discard(sender)
        self._heard[sender] = time.monotonic()

    def _last_known(self, witness: str) -> Head | None:
        """Return the latest end of this book that the witness is known to keep."""
        book, _ = self._book.own()
        known = [*self._book.countersigned(), *self._signed.copy().values()]
        ends = [end.head for end in known if end.witness == witness and end.book == book]
        return max(ends, key=lambda head: head.entries, default=None)

    def _own_end(self, terms: str) -> SignedEnd:
        """Return the book's end as it may be signed now: before all witnesses were asked, no later than confirmed."""
        (book, head), (origin, restores) = self._book.own(), self._book.lineage()
        if not self._asked and head.entries > self._confirmed:
            head = self._book.own_at(self._confirmed) or head
        end = SignedEnd(self._name, self._kind, terms, book, head, origin=origin, restores=restores)
        return end if self._signer is None else replace(end, signature=self._signer.sign(*end_texts(end)))

    def _countersign(self, end: SignedEnd) -> SignedEnd:
        return end if self._signer is None else countersigned(end, self._name, self._signer)

    def _certified(self, end: SignedEnd, sender: Sender) -> bool:
        signature = end.signature
        return (
            signature is not None
            and self._signer is not None
            and self._signer.certified(signature, end_texts(end), sender.name, sender.key)
        )

    def _countersigned(self, end: SignedEnd, sender: Sender) -> bool:
        signature = end.countersignature
        return (
            signature is not None
            and self._signer is not None
            and end.witness == sender.name
            and self._signer.certified(signature, kept_texts(end), sender.name, sender.key)
        )

    def _signed_here(self, end: SignedEnd) -> bool:
        """Whether this party once signed the end: then no witness made it up."""
        signature = end.signature
        return (
            signature is not None
            and self._signer is not None
            and self._signer.once_certified(signature, end_texts(end), self._name)
        )

    def _rolled_back(self, later: SignedEnd) -> RolledBack:
        (book, head), (origin, restores) = self._book.own(), self._book.lineage()
        who, remedy = later.witness or "the learner", f"Nothing was released. {REMEDIES[self._kind]}"
        if later.origin == origin and later.restores > restores:
            return RolledBack(
                f"the {self._kind} was put back to before a restore: {who} saw it after restore {later.restores}, and "
                f"here it has {counted(restores, 'restore')}. {remedy}"
            )
        if later.origin == origin and later.restores == restores and later.book not in ("", book):
            return RolledBack(
                f"the {self._kind} was put back or restored from two copies: {who} saw another one after restore "
                f"{restores}. {remedy} once more"
            )
        return RolledBack(
            f"the {self._kind} was put back to an earlier time or replaced: {who} saw it with "
            f"{counted(later.head.entries, 'row')}, and the {counted(head.entries, 'row')} here do not continue those. "
            f"{remedy}"
        )


def silent_now(party: str) -> str:
    """Return why a party that says nothing about its book is refused, once an end of the book is kept."""
    return (
        f"{party}: it kept ends of books before, and now it does not: its programs or its disk are older. It puts its "
        "latest disk back and updates Parley, or restores"
    )


def _other_went_back(own: SignedEnd, kept: SignedEnd) -> str:
    remedy = f"It puts the latest {own.kind} back, or runs {RESTORE_COMMANDS[own.kind]}"
    if kept.refutes(own) and not own.origin:
        return (
            f"{own.party}: it stated how often its {own.kind} was restored, and now it does not: its programs or its "
            "disk are older. It puts its latest disk back and updates Parley, or restores"
        )
    if kept.refutes(own) and kept.book != own.book:
        return (
            f"{own.party}: its {own.kind} was put back to before a restore, or restored from two copies: it was seen "
            f"after restore {kept.restores}, and the other one that it shows now has "
            f"{counted(own.restores, 'restore')}. {remedy}"
        )
    return (
        f"{own.party}: its {own.kind} was put back to an earlier time or replaced: it had "
        f"{counted(kept.head.entries, 'row')} under the terms {kept.terms[:16]}…, and the "
        f"{counted(own.head.entries, 'row')} that it shows now do not continue those. {remedy}"
    )


MAX_ENTRIES = (1 << 63) - 1  # SQLite counts no further
T = TypeVar("T")
DIGEST = re.compile(r"[0-9a-f]{64}")


def put_end(end: SignedEnd, message: wire_pb2.SignedEnd) -> None:
    """Write an end into a message."""
    message.party, message.terms, message.book, message.witness = end.party, end.terms, end.book, end.witness
    message.entries, message.digest, message.kind = end.head.entries, end.head.hash, end.kind
    message.origin, message.restores = end.origin, end.restores
    for signature, place in ((end.signature, "signature"), (end.countersignature, "countersignature")):
        if signature is not None:
            written = getattr(message, place)
            written.certificate, written.value = signature.certificate, signature.value
            written.second = signature.second


def read_end(message: wire_pb2.SignedEnd) -> SignedEnd:
    """Return the end in a message, or refuse it."""
    digests = [message.terms, message.digest, *filter(None, (message.book, message.origin))]
    parties = [message.party, *([message.witness] if message.witness else [])]
    if (
        not all(DIGEST.fullmatch(digest) for digest in digests)
        or not all(re.fullmatch(PARTY, party) for party in parties)
        or message.kind not in get_args(Kind)
        or not 1 <= message.entries <= MAX_ENTRIES
        or not message.restores <= (MAX_RESTORES if message.origin else 0)
    ):
        raise Malformed(
            "end of a book: expected a party, the hash of the terms, numbers of rows and restores, and a digest"
        )
    head, kind = Head(message.entries, message.digest), cast(Kind, message.kind)
    signature, countersignature = _signature(message, "signature"), _signature(message, "countersignature")
    about = message.party, kind, message.terms, message.book, head
    return SignedEnd(*about, signature, message.witness, countersignature, message.origin, message.restores)


def read_reported(message: wire_pb2.SignedEnd, party: str) -> SignedEnd:
    """Return the end in a reply of a party; an impossible one is a contradiction."""
    return trusted(lambda: read_end(message), party)


def trusted(read: Callable[[], T], party: str) -> T:
    """Return what is read from a reply; what would be refused in a question is a contradiction there."""
    try:
        return read()
    except Malformed:
        raise ContradictionError(
            f"{party}: the reply about the ends of books cannot be read; contact the party's operator"
        ) from None


def _signature(message: wire_pb2.SignedEnd, place: str) -> Signature | None:
    if not message.HasField(place):
        return None
    written = getattr(message, place)
    signature = Signature(written.certificate, written.value, written.second)
    if not signature.fits():
        raise Malformed("end of a book: the signature is too long")
    return signature
