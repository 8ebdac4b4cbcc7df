"""Training between organisations: the same algorithm and the same loop, with owners that are elsewhere.

The learner knows the terms and the public sample. It has no table, so there is no relative fitness. Each owner scores
for itself; where the terms set a part of epsilon aside for it, owners also release a score, debited like every answer.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Algorithm, Asker, State
from parley.learning.algorithms.asynchronous import run_by_terms as run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.outcome.model import make_model
from parley.learning.outcome.notices import Watch
from parley.learning.outcome.result import OwnerOutcome, Result, ask_scores, make_result
from parley.learning.start import starting_point
from parley.network.exchange import Exchange
from parley.owner.ledger.account import Head
from parley.owner.owner import Agreement
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup, resolve
from parley.protocol.task import require_predictor
from parley.protocol.tree_folds import require_as_good
from parley.terms import Terms
from parley.validate import positive, upper

if TYPE_CHECKING:
    from parley.network.exchange.federation import Federation
    from parley.network.exchange.host_connections import RemoteHost
    from parley.network.exchange.remote import Peer


class Peers(Exchange, Protocol):
    """An exchange with owners elsewhere: what they say of themselves beside their answers."""

    @property
    def heads(self) -> Mapping[str, Head]:
        """Where the owners' ledgers ended when they were last heard."""
        ...

    def spent(self, name: str) -> float | None:
        """What an owner has spent by its own last word; None if it said none."""
        ...

    def catch_up(self) -> list[str]:
        """Hear once more from owners that were late: they have spent, too. Who cannot be reached is named."""
        ...


@dataclass(frozen=True, eq=False)
class DeployedRun:
    """One run by one learner: the setup, the algorithm, and the files where it is kept."""

    setup: Setup
    algorithm: Algorithm
    checkpoint: Path
    model: Path | None = None  # written before a score is asked: whatever becomes of the score, the model is not lost

    @property
    def start(self) -> State:
        """The state before the first round."""
        return self.algorithm.start(starting_point(self.setup))

    def begin(self, resume: bool) -> Checkpoint:
        """Where to begin: at the start, or where the checkpoint stands."""
        if not self.checkpoint.exists():
            return Checkpoint(self.setup.hash, self.start, {}, {})
        if not resume:
            raise SettingError(f"{self.checkpoint}: a run by these terms was begun; --resume goes on with it")
        return load_checkpoint(self.checkpoint, self.setup.terms, self.start, Watch(self.setup).memory())

    def finished(self, begin: Checkpoint) -> bool:
        """Whether nobody has to be asked any more: all rounds are done, and no score was agreed on."""
        return begin.state.round > self.algorithm.horizon + (self.setup.terms.privacy.score_epsilon is not None)


def prepare_run(terms: Terms, checkpoint: Path, model: Path | None = None) -> DeployedRun:
    """What a learner without a table fixes before the first question; terms that limit nothing are refused now, not in
    the last round."""
    terms.require_release()
    setup = resolve(terms)
    if not setup.parts:
        raise SettingError("owners: expected at least one")
    require_as_good(setup)
    return DeployedRun(setup, make_algorithm(setup), checkpoint, model)


class KeptRun:
    """The rounds of a run whose state is stored, durably, after each of them: only then the next is asked."""

    def __init__(self, deployed: DeployedRun, peers: Peers, begin: Checkpoint) -> None:
        self._deployed, self._peers, self._begin = deployed, peers, begin
        self.used = Counter(begin.answers)  # how many answers of each owner went into the state
        self.aborted: list[int] = []  # rounds that brought no step
        self.watch = Watch(deployed.setup, begin.watched)

    def rounds(self, progress: Callable[[State], None]) -> State:
        """All rounds from where it begins."""

        def after_round(state: State, answers: Sequence[Answer]) -> None:
            self.aborted += [] if answers or not self._deployed.setup.schedule.waits else [state.round - 1]
            self.used.update(name for answer in answers for name in answer.owners)
            self.watch.hear(answers)
            self._store(state)
            progress(state)

        setup = self._deployed.setup
        return run(
            self._deployed.algorithm, self._peers, setup.aggregation, Asker.of(setup), self._begin.state, after_round
        )

    def catch_up(self, final: State) -> list[str]:
        """Hear once more from who was late, and keep what they said; who cannot be reached is named."""
        unheard = self._peers.catch_up()
        # somebody was asked since the last round: for a score, or why it was late
        if not self._deployed.finished(self._begin):
            self._store(final)
        return unheard

    def last_spent(self) -> dict[str, float]:
        """What every owner had spent by its own last word."""
        names = self._deployed.setup.schedule.names
        reported = {name: spent for name in names if (spent := self._peers.spent(name)) is not None}
        return {**self._begin.spent, **reported}

    def _store(self, state: State) -> None:
        heads = {**self._begin.heads, **self._peers.heads}
        kept = Checkpoint(
            self._deployed.setup.hash, state, dict(self.used), self.last_spent(), heads, self.watch.memory()
        )
        kept.save(self._deployed.checkpoint)


def learn(
    deployed: DeployedRun,
    peers: Peers,
    begin: Checkpoint,
    own: Agreement | None = None,
    progress: Callable[[State], None] = lambda state: None,
) -> tuple[Result, list[str]]:
    """All rounds from `begin` on, then the score if one is agreed on: the result, and who may have spent more than it
    could be asked about.

    The state is stored, durably, after each round: only then the next is asked. A run that was interrupted before its
    score asks the same question again. `own` is the learner's own agreement if it owns a table too.
    """
    require_predictor(deployed.setup.terms)
    began = time.perf_counter()
    setup, algorithm, kept = deployed.setup, deployed.algorithm, KeptRun(deployed, peers, begin)
    final = kept.rounds(progress)
    theta, posterior, late = algorithm.model(final), algorithm.posterior(final), algorithm.late(final)
    if deployed.model is not None:
        make_model(setup.preparation, theta, setup.hash, True, posterior).save(deployed.model)
    scores = ask_scores(setup, setup.aggregation, peers, theta)
    unheard = kept.catch_up(final)
    spent = kept.last_spent()
    result = make_result(
        setup,
        theta[None, :],
        owners=[
            OwnerOutcome(
                o.name,
                o.records,
                upper(setup.terms.promised_epsilon(o.name)),
                spent.get(o.name),
                None,
                kept.used[o.name],
                upper(setup.part(o.name).step_epsilon),
                late.get(o.name, 0),
            )
            for o in setup.terms.owners
        ],
        own=own,
        moments=algorithm.released(final, setup),
        posterior=posterior,
        scores=scores,
        released=True,
        by_word=True,
        consensus_error=algorithm.consensus_error(final),
        aborted_rounds=kept.aborted,
        notices=kept.watch.notices(),
        seconds=time.perf_counter() - began,
    )
    return result, unheard


def open_federation(
    run: "DeployedRun", begin: "Checkpoint", owners: Path, deadline: float, warn: Callable[[str], None]
) -> tuple["Federation", "Agreement | None"]:
    """Connections to everybody that a run asks, and the learner's own agreement if it is an owner with its table
    here."""
    from parley.network.exchange.federation import Federation

    terms = run.setup.terms
    peers, own = find_owners(terms, owners, warn)
    patience = positive(deadline, "--deadline")
    if not run.setup.schedule.waits:
        from parley.network.exchange.federation import AsynchronousFederation

        return AsynchronousFederation(run.setup, peers, patience, warn, begin.heads, begin.answers), own
    if not terms.noise.summed:
        return Federation(run.setup, peers, patience, warn, begin.heads, begin.answers), own
    from parley.network.hosting.federation import SharedFederation

    return SharedFederation(
        run.setup, peers, find_hosts(terms, owners), patience, warn, begin.heads, begin.answers
    ), own


def find_owners(terms: Terms, addresses: Path, warn: Callable[[str], None]) -> tuple[list["Peer"], "Agreement | None"]:
    """Everybody to ask, and the learner's own agreement if it is an owner with its table here."""
    from parley.network.exchange.remote import LocalOwner, remote_owner
    from parley.network.identity.certificates import check_identity, revoked_serials
    from parley.network.identity.settings import Pinned, load_addresses, load_owner
    from parley.network.serving.acceptance import Acceptances
    from parley.network.serving.daemon import open_delivery, open_owner
    from parley.network.serving.network import identity_reminders
    from parley.network.serving.service import open_agreement

    known = load_addresses(addresses)
    revoked = frozenset[int]()
    if known.identity is not None:
        check_identity(known.identity, terms.learning.learner)
        revoked = revoked_serials(known.identity)
        for sentence in identity_reminders(known.identity)():
            warn(sentence)
    peers: list[Peer] = []
    agreement = None
    for name, address in known.owners.items():
        if isinstance(address, str | Pinned):
            peers.append(remote_owner(name, address, known.identity, revoked))
            continue
        settings = load_owner(address.own)
        if not name == settings.name == terms.learning.learner:
            raise SettingError(
                f"{addresses}: owners.{name}: only the learner's own table ({terms.learning.learner!r}) can be in "
                f"process"
            )
        owner = open_owner(settings)
        agreement = open_agreement(owner, Acceptances(settings.accepted), terms.hash)
        peers.append(LocalOwner(owner, open_delivery(settings)))
    return peers, agreement


def find_hosts(terms: Terms, addresses: Path) -> list["RemoteHost"]:
    """The hosts that the terms name, in their order."""
    from parley.network.exchange.host_connections import HostConnections
    from parley.network.identity.settings import load_addresses

    known = load_addresses(addresses)
    names = [host.name for host in terms.hosts]
    if sorted(known.hosts) != sorted(names) or known.identity is None:
        raise SettingError(f"{addresses}: hosts: expected the addresses of {names}, found {sorted(known.hosts)}")
    group = HostConnections(known.hosts, known.identity, f"{addresses}: hosts").group(terms.hosts)
    return [group.connections[host.name] for host in terms.hosts]
