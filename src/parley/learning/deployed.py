"""Training between organisations, and asking owners anywhere for something other than a model.

The learner has no table, so there is no relative fitness. Each owner scores the model itself; if the terms set epsilon
aside for it, owners also release a score, debited like every answer.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from parley.errors import SettingError
from parley.learning.algorithms.algorithm import Algorithm, Asker, Progress, State
from parley.learning.algorithms.asynchronous import run_by_terms as run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.outcome.model import make_model
from parley.learning.outcome.notices import Watch
from parley.learning.outcome.result import OwnerOutcome, Result, ask_scores, make_result
from parley.learning.owners import exchange_with, gather, in_order
from parley.learning.start import starting_point
from parley.network.exchange import Exchange
from parley.owner.ledger.account import Head
from parley.owner.ledger.witnessed import SignedEnd
from parley.owner.owner import Agreement, Owner
from parley.protocol.aggregation import aggregation_of
from parley.protocol.queries import Answer
from parley.protocol.setup import Setup, resolve
from parley.protocol.task import require_predictor
from parley.protocol.tree_folds import require_as_good
from parley.terms import Terms
from parley.validate import Floats, positive, upper

if TYPE_CHECKING:
    from parley.network.exchange.federation import Federation
    from parley.network.exchange.host_connections import RemoteHost
    from parley.network.exchange.remote import Peer


class Peers(Exchange, Protocol):
    """An exchange with owners elsewhere, with their statements beside their answers."""

    @property
    def heads(self) -> Mapping[str, Head]:
        """The ends of the owners' ledgers when they were last reached."""
        ...

    @property
    def ends(self) -> Mapping[str, SignedEnd]:
        """The signed ends of the hosts' journals when they were last reached."""
        ...

    def spent(self, name: str) -> float | None:
        """Return an owner's spending by its own last statement; None without one."""
        ...

    def catch_up(self) -> list[str]:
        """Reach late owners once more, because they have spent too; return the names of those who cannot be reached."""
        ...


@dataclass(frozen=True, eq=False)
class DeployedRun:
    """One learner's run: the setup, the algorithm, and its files."""

    setup: Setup
    algorithm: Algorithm
    checkpoint: Path
    model: Path | None = None  # written before a score is asked: whatever becomes of the score, the model is not lost

    @property
    def start(self) -> State:
        """The state before the first round."""
        return self.algorithm.start(starting_point(self.setup))

    def begin(self, resume: bool) -> Checkpoint:
        """Begin at the start, or at the checkpoint."""
        if not self.checkpoint.exists():
            return Checkpoint(self.setup.hash, self.start, {}, {})
        if not resume:
            raise SettingError(
                f"{self.checkpoint}: this checkpoint is from an earlier run; continue that run with --resume"
            )
        return load_checkpoint(self.checkpoint, self.setup.terms, self.start, Watch(self.setup).memory())

    def finished(self, begin: Checkpoint) -> bool:
        """Whether no owner needs to be asked any more: all rounds are done, and no score was agreed on."""
        return begin.state.round > self.algorithm.horizon + (self.setup.terms.privacy.score_epsilon is not None)


def prepare_run(terms: Terms, checkpoint: Path, model: Path | None = None) -> DeployedRun:
    """Fix everything before the first question, and refuse terms that limit nothing; the learner needs no table."""
    terms.require_release()
    setup = resolve(terms)
    if not setup.parts:
        raise SettingError("owners: expected at least one owner in the terms")
    require_as_good(setup)
    return DeployedRun(setup, make_algorithm(setup), checkpoint, model)


class KeptRun:
    """The rounds of a run whose state is stored durably after each, before the next is asked."""

    def __init__(self, deployed: DeployedRun, peers: Peers, begin: Checkpoint) -> None:
        self._deployed, self._peers, self._begin = deployed, peers, begin
        self.used = Counter(begin.answers)  # how many answers of each owner went into the state
        self.aborted: list[int] = []  # rounds that brought no step
        self.watch = Watch(deployed.setup, begin.watched)

    def rounds(self, progress: Callable[[State], None]) -> State:
        """Run all remaining rounds."""

        def after_round(state: State, answers: Sequence[Answer]) -> None:
            self.aborted += [] if answers or not self._deployed.setup.schedule.waits else [state.round - 1]
            self.used.update(name for answer in answers for name in answer.owners)
            self.watch.hear(answers)
            self._store(state)
            progress(state)

        setup = self._deployed.setup
        return run(
            self._deployed.algorithm,
            self._peers,
            setup.aggregation,
            Asker.from_setup(setup),
            self._begin.state,
            after_round,
        )

    def catch_up(self, final: State) -> list[str]:
        """Reach late owners once more and store their statements; return the names of those who cannot be reached."""
        missing_owners = self._peers.catch_up()
        # somebody was asked since the last round: for a score, or why it was late
        if not self._deployed.finished(self._begin):
            self._store(final)
        return missing_owners

    def last_spent(self) -> dict[str, float]:
        """Return each owner's spending by its own last statement."""
        names = self._deployed.setup.schedule.names
        reported = {name: spent for name in names if (spent := self._peers.spent(name)) is not None}
        return {**self._begin.spent, **reported}

    def _store(self, state: State) -> None:
        heads = {**self._begin.heads, **self._peers.heads}
        ends = {**self._begin.ends, **self._peers.ends}
        kept = Checkpoint(
            self._deployed.setup.hash, state, dict(self.used), self.last_spent(), heads, self.watch.memory(), ends
        )
        kept.save(self._deployed.checkpoint)


def learn(
    deployed: DeployedRun,
    peers: Peers,
    begin: Checkpoint,
    own: Agreement | None = None,
    progress: Callable[[State], None] = lambda state: None,
) -> tuple[Result, list[str]]:
    """Run all rounds from `begin` on, then ask for the score if one is agreed on. Return the result, and the owners who
    may have spent more than is known. `own` is the learner's own agreement if it also owns a table.

    The state is stored durably after each round, before the next is asked. A run interrupted before its score asks the
    same question again.
    """
    require_predictor(deployed.setup.terms)
    began = time.perf_counter()
    setup, algorithm, kept = deployed.setup, deployed.algorithm, KeptRun(deployed, peers, begin)
    final = kept.rounds(progress)
    theta, posterior, late = algorithm.model(final), algorithm.posterior(final), algorithm.late(final)
    if deployed.model is not None:
        make_model(setup.preparation, theta, setup.hash, True, posterior).save(deployed.model)
    scores = ask_scores(setup, setup.aggregation, peers, theta)
    missing_owners = kept.catch_up(final)
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
    return result, missing_owners


def open_federation(
    run: "DeployedRun", begin: "Checkpoint", owners: Path, deadline: float, warn: Callable[[str], None]
) -> tuple["Federation", "Agreement | None"]:
    """Connect to everybody that a run asks; also return the learner's own agreement if it owns a table here."""
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
        run.setup, peers, find_hosts(terms, owners), patience, warn, begin.heads, begin.answers, begin.ends
    ), own


def find_owners(terms: Terms, addresses: Path, warn: Callable[[str], None]) -> tuple[list["Peer"], "Agreement | None"]:
    """Find everybody to ask, and the learner's own agreement if it owns a table here."""
    from parley.network.exchange.remote import LocalOwner, remote_owner
    from parley.network.identity.certificates import Signer, check_identity, revoked_serials
    from parley.network.identity.settings import Pinned, load_addresses, load_owner
    from parley.network.serving.acceptance import Acceptances
    from parley.network.serving.daemon import open_delivery, open_owner
    from parley.network.serving.network import identity_reminders
    from parley.network.serving.service import open_agreement, open_witnesses

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
                f"{addresses}: owners.{name}: only the learner's own table ({terms.learning.learner!r}) can be "
                "used without a daemon; give the addresses of other owners"
            )
        owner = open_owner(settings)
        agreement = open_agreement(owner, Acceptances(settings.accepted), terms.hash)
        signer = None if settings.identity is None else Signer(settings.identity)
        witnesses = open_witnesses(owner, signer)
        peers.append(LocalOwner(owner, open_delivery(settings, witnesses), witnesses))
    return peers, agreement


def find_hosts(terms: Terms, addresses: Path) -> list["RemoteHost"]:
    """Find the hosts named in the terms, in their order."""
    from parley.network.exchange.host_connections import HostConnections
    from parley.network.identity.settings import load_addresses

    known = load_addresses(addresses)
    names = [host.name for host in terms.hosts]
    if sorted(known.hosts) != sorted(names) or known.identity is None:
        raise SettingError(f"{addresses}: hosts: expected the addresses of {names}, found {sorted(known.hosts)}")
    group = HostConnections(known.hosts, known.identity, f"{addresses}: hosts").group(terms.hosts)
    return [group.connections[host.name] for host in terms.hosts]


@dataclass(frozen=True, eq=False)
class Asked:
    """The outcome of asking owners for something other than a model: the last state, and its cost."""

    setup: Setup
    final: State
    spent: Mapping[str, float | None]  # by the owners' ledgers; None: one elsewhere that could not be asked
    released: bool
    seconds: float
    missing_owners: tuple[str, ...] = ()  # owners elsewhere that were not heard of at the end


def ask_here(
    terms: Terms,
    owners: Sequence[Owner],
    begin: Callable[[Setup], tuple[Algorithm, Floats]],
    replicates: int = 1,
    seed: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Asked:
    """Ask owners on this machine, by the algorithm and from the point that `begin` returns. Owners with durable ledgers
    release, and each must have accepted the terms; owners without take part in a study."""
    began = time.perf_counter()
    parties, agreements, shape = gather(terms, in_order(terms, owners), replicates, seed)
    setup = agreements[0].setup
    algorithm, origin = begin(setup)
    with exchange_with(setup, parties, seed) as exchange:
        final = run(
            algorithm,
            exchange,
            aggregation_of(terms),
            Asker.from_setup(setup),
            algorithm.start(origin, shape),
            lambda state, _: progress(state.round - 1, algorithm.horizon),
        )
    spent = {party.name: upper(party.ledger.account(setup.hash).spent) for party in parties}
    return Asked(setup, final, spent, parties[0].releases, time.perf_counter() - began)


def ask_elsewhere(
    deployed: DeployedRun, peers: Peers, begin: Checkpoint, progress: Callable[[State], None] = lambda state: None
) -> Asked:
    """Ask owners behind daemons, by the algorithm of the prepared run."""
    began, kept = time.perf_counter(), KeptRun(deployed, peers, begin)
    final = kept.rounds(progress)
    missing_owners, spent = kept.catch_up(final), kept.last_spent()
    spent_by_owner = {name: spent.get(name) for name in deployed.setup.schedule.names}
    return Asked(deployed.setup, final, spent_by_owner, True, time.perf_counter() - began, tuple(missing_owners))
