"""Rounds in which owners and hosts are in one process: real debits, real shares, the noise of the protocol."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from parley.errors import ContradictionError, GuaranteeError, LedgerError
from parley.network.exchange.share_bundle import Opening, pack
from parley.network.exchange.simulated_sum import sum_answer
from parley.network.hosting.assignment import HostAssignment, assignment_of
from parley.network.hosting.in_process import InProcessHosts
from parley.network.hosting.known_heads import require_known_heads
from parley.owner.owner import Owner
from parley.privacy.mechanisms.extent import UNLIKELY
from parley.privacy.mechanisms.shared_noise import SharedNoise
from parley.privacy.sharing import opening
from parley.protocol.queries import Answer, Query
from parley.protocol.setup import Setup


class HostedSum:
    """An `Exchange` of owners that release, with their hosts beside them, whose journals lie in `folder`.

    Formal guarantee: as `host.Host` says, for as long as the journals are kept. Journals of an earlier time are refused
    (`journal`): a question might get a second noise. For the same reason ledgers that know answers by these terms are
    not taken up with journals that do not.
    """

    def __init__(self, setup: Setup, owners: Sequence[Owner], folder: Path) -> None:
        self._setup, self._owners = setup, {owner.name: owner for owner in owners}
        assignment = assignment_of(setup)
        folder.mkdir(mode=0o700, exist_ok=True)
        self._hosts = InProcessHosts(assignment, folder)
        journals = self._hosts.journals
        require_known_heads(
            folder.with_name(f"{folder.name}.heads"), dict(zip(assignment.hosts, journals, strict=True))
        )
        if not all(journal.begun(setup.hash) for journal in journals):
            if any(owner.ledger.account(setup.hash).answers for owner in owners):
                raise LedgerError(
                    f"{folder}: the hosts' journals by these terms are not here, but owners have answered: put the "
                    "journals back, or agree on new terms"
                )
            for journal in journals:
                journal.begin(setup.hash)

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """The one answer of the round; `AbortedRound` if it cannot be finished any more."""
        for name, query in questions.items():
            contribution, _ = self._owners[name].contribute(query)
            if contribution.shares is None:
                raise GuaranteeError(f"{name}: an owner that only studies shares nothing with hosts")
            self._hosts.receive(pack(query, name, contribution.noise, contribution.shares))
        query = next(iter(questions.values()))
        openings = self._hosts.open(query.round, query.content)
        return [open_answer(self._setup, self._hosts.assignment, query, openings)]

    def close(self) -> None:
        """Close the hosts and their journals."""
        self._hosts.close()


def open_answer(setup: Setup, assignment: HostAssignment, query: Query, openings: Sequence[Opening]) -> Answer:
    """What a learner makes of the openings of all hosts, in their order, if they are about the same; else
    `ContradictionError`."""
    turn = assignment.turn(query.round)
    agreed = {(each.terms_hash, each.round, each.content, each.owners) for each in openings}
    names = openings[0].owners
    known = len(set(names)) == len(names) >= turn.quorum and set(names) <= set(turn.records)
    if (
        len(openings) != len(assignment.hosts)
        or agreed != {(query.terms_hash, query.round, query.content, names)}
        or not known
    ):
        raise ContradictionError(
            f"round {query.round}: the hosts opened something else than what was asked; ask their operators"
        )
    if any(each.words.shape != (turn.shape.size,) for each in openings):
        raise ContradictionError(f"round {query.round}: a host opened numbers of another size; ask its operator")
    words = opening.open_words([opening.Opening(each.words, each.digest) for each in openings])
    noise = setup.part(names[0]).stage(query.round).series.mechanism
    if not isinstance(noise, SharedNoise):
        raise GuaranteeError("privacy.noise: expected 'shared'")
    answer = sum_answer(query.id, noise, names, sum(turn.records[name] for name in names), words)
    _require_possible(setup, answer, noise, query.round)
    return answer


def _require_possible(setup: Setup, answer: Answer, noise: SharedNoise, number: int) -> None:
    """Refuse a sum that the agreed bounds and the noise cannot make, but once in 10^12 rounds."""
    loosest = max(
        (setup.part(name).stage(number).question.extent for name in answer.owners), key=lambda extent: extent.size
    )
    if not loosest.noisy(noise.over(answer.records), answer.value.size, UNLIKELY).holds(answer.value):
        raise ContradictionError(
            f"round {number}: the opened sum is larger than the agreed bounds and the noise can make it: an owner "
            f"shared something else"
        )
