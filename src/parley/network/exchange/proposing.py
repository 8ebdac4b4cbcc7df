"""Terms proposed to the owners that they name, where an addresses file says that those are."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from parley.errors import NotOffered, ParleyError, SettingError
from parley.network.exchange.proposal_messages import LARGEST_TEXT, ProposalState, State
from parley.network.exchange.remote import RemoteOwner, remote_owner
from parley.network.identity.revocation_list import revoked_serials
from parley.network.identity.settings import OwnTable, load_addresses
from parley.network.identity.trust import check_identity
from parley.terms import Terms

AT_ONCE = 16  # owners
NOT_OFFERED = (
    "its daemon takes no proposals: it has no inbox, its Parley is an earlier one, or this is a relay's socket; send "
    "the terms file to its people"
)


@dataclass(frozen=True)
class Proposed:
    """What one owner says became of proposed terms; without a `state` the reason is why it was not told."""

    owner: str
    state: State | None
    reason: str = ""


def propose(
    terms: Terms, addresses: Path, to: Collection[str] = (), timeout: float = 20.0, ask: bool = False
) -> list[Proposed]:
    """What became of these terms at every owner that they name (or at those in `to`), to whom they are proposed unless
    the learner only wants to `ask`. Nobody's budget is touched."""
    terms.require_shared_sample()
    terms.require_release()
    if len(terms.canonical.encode()) > LARGEST_TEXT:
        raise SettingError(f"these terms are too long for an inbox, which takes {LARGEST_TEXT:,} bytes; send the file")
    text = "" if ask else terms.canonical
    return _told(_owners(terms, addresses, to), lambda owner: owner.propose(terms.hash, text, timeout))


def withdraw(terms: Terms, addresses: Path, to: Collection[str] = (), timeout: float = 20.0) -> list[Proposed]:
    """What became of these terms at every owner that they name (or at those in `to`), withdrawn where they were
    open."""
    return _told(_owners(terms, addresses, to), lambda owner: owner.withdraw(terms.hash, timeout))


def _told(owners: Sequence[RemoteOwner], call: Callable[[RemoteOwner], ProposalState]) -> list[Proposed]:
    def tell(owner: RemoteOwner) -> Proposed:
        try:
            said = call(owner)
        except NotOffered:
            return Proposed(owner.name, None, NOT_OFFERED)
        except ParleyError as error:
            return Proposed(owner.name, None, str(error).removeprefix(f"{owner.name}: "))
        finally:
            owner.close()
        return Proposed(owner.name, said.state, said.reason)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(tell, owners))


def _owners(terms: Terms, addresses: Path, to: Collection[str]) -> list[RemoteOwner]:
    """Connections to the owners that are told; nobody is called yet."""
    known = load_addresses(addresses)
    if known.identity is None:
        raise SettingError(f"{addresses}: identity: missing; who proposes terms shows a certificate (parley certs)")
    check_identity(known.identity, terms.learning.learner)
    revoked = revoked_serials(known.identity)
    found = []
    for name in to or [part.name for part in terms.owners]:
        where = known.owners.get(terms.owner(name).name)
        if where is None:
            raise SettingError(f"{addresses}: owners: expected the address of {name!r}, whom the terms name")
        if not isinstance(where, OwnTable):  # its own people need no letter
            found.append(remote_owner(name, where, known.identity, revoked))
    return found
