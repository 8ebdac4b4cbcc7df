"""Gossip between organisations without a centre: one owner's peer asks its own owner and hears its neighbours.

A peer computes its own row of `Gossip`, so all peers get what one learner would, to the bit, on the same machine. On
different machines they first compare public numbers, step and start, which must agree up to rounding.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from parley.errors import ContradictionError, SettingError
from parley.learning.algorithms.algorithm import Asker, State, run
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.algorithms.gossip import POINT, Gossip, mix_rows
from parley.learning.checkpoint import Checkpoint, load_checkpoint
from parley.learning.outcome.model import make_model
from parley.learning.outcome.result import OwnerOutcome, Result, ask_scores, make_result
from parley.learning.start import starting_point
from parley.network.exchange.answer_checks import Scrutiny
from parley.network.exchange.federation import Federation
from parley.network.peering.neighbourhood import Graph, Neighbourhood, Place, Run, require_short
from parley.protocol.aggregation import EachOwner
from parley.protocol.queries import Answer, Query
from parley.protocol.setup import Setup, resolve
from parley.protocol.task import require_prediction
from parley.protocol.tree_folds import require_as_good
from parley.terms import Terms
from parley.validate import Floats, upper

MIXING_STEPS = (0, 1)  # what is said in a round: towards trackers, towards points
SAID_KEY, SCORE_KEY, OVER_KEY = "said", "score", "over"


@dataclass(frozen=True)
class PeerGossip(Gossip):
    """One owner's row of `Gossip`, mixed over the network."""

    owner: str
    neighbourhood: Neighbourhood = field(compare=False)

    @classmethod
    def from_gossip(cls, whole: Gossip, neighbourhood: Neighbourhood) -> "PeerGossip":
        known = {each.name: getattr(whole, each.name) for each in fields(Gossip)}
        return cls(**known, owner=neighbourhood.owner, neighbourhood=neighbourhood)

    @property
    def mine(self) -> tuple[str, ...]:
        return (self.owner,)

    @cached_property
    def row(self) -> Floats:
        """This owner's weights of those it hears, itself included [1, J]."""
        near = {self.owner, *self.neighbourhood.graph.neighbours(self.owner)}
        neighbours = [k for k, name in enumerate(self.names) if name in near]
        return self.weights[[self.names.index(self.owner)]][:, neighbours]

    def mix(self, points_sent: Floats, number: int, step: int) -> Floats:
        return mix_rows(self.row, self.neighbourhood.exchange((number, step), points_sent))

    def update(self, state: State, combined: Floats, answers: Sequence[Answer] = ()) -> State:
        """Update as everybody does, and remember what was sent, for neighbours that receive it later."""
        after = super().update(state, combined, answers)
        board = self.neighbourhood.board
        points_sent = {
            f"{SAID_KEY} {step}": words[0]
            for step in MIXING_STEPS
            if (words := board.read((state.round, step), 0)) is not None
        }
        return replace(after, memory={**after.memory, **points_sent})


class OwnAnswer(EachOwner):
    """The owner's own answer, or none in a round in which it is not asked."""

    def combine(self, answers: Sequence[Answer]) -> Floats:
        return np.empty(0)


@dataclass(frozen=True, eq=False)
class PeerRun:
    """One owner's part of a run: the setup, the whole algorithm, and its files."""

    setup: Setup
    whole: Gossip
    owner: str
    checkpoint: Path
    model: Path | None = None

    @cached_property
    def graph(self) -> Graph:
        return Graph(self.whole.names, self.whole.joined)

    @cached_property
    def run(self) -> Run:
        """What neighbours must agree on."""
        numbers, own = self.setup.numbers, {"step": np.array([self.whole.step]), "start": starting_point(self.setup)}
        return Run(self.setup.hash, self.whole.step, replace(numbers, arrays={**numbers.arrays, **own}))

    @property
    def agreed_file(self) -> Path:
        """The file with the end of the run: every owner's point and score."""
        return self.checkpoint.with_name(f"{self.checkpoint.name}.agreed")

    @property
    def points_round(self) -> int:
        """The round number under which final points are passed on; scores follow, then the end."""
        return self.whole.horizon + 1

    @property
    def end(self) -> Place:
        return self.whole.horizon + 3, 0

    def start(self) -> State:
        """The state before the first round."""
        whole = self.whole.start(starting_point(self.setup))
        own = {key: value for key, value in whole.memory.items() if key.endswith(f" of {self.owner}")}
        return State(1, whole.theta, own | {f"{SAID_KEY} {step}": np.zeros_like(whole.theta) for step in MIXING_STEPS})

    def begin(self, resume: bool) -> Checkpoint:
        """Begin at the start, or at the checkpoint."""
        if not self.checkpoint.exists():
            return Checkpoint(self.setup.hash, self.start(), {}, {})
        if not resume:
            raise SettingError(
                f"{self.checkpoint}: this checkpoint is from an earlier run; continue that run with --resume"
            )
        return load_checkpoint(self.checkpoint, self.setup.terms, self.start())

    def agreed(self) -> Checkpoint | None:
        """Return what all peers agreed on; None if this peer did not get that far."""
        if not self.agreed_file.exists():
            return None
        numbers = np.zeros(self.setup.parameters)
        like = {f"{POINT} of {name}": numbers for name in self.whole.names}
        if self.setup.terms.privacy.score_epsilon is not None:
            like |= {
                f"{SCORE_KEY} of {name}": np.zeros(part.stages[1].question.size)
                for name, part in self.setup.parts.items()
            }
        return load_checkpoint(self.agreed_file, self.setup.terms, State(1, numbers, like | {OVER_KEY: np.zeros(1)}))


def prepare_peer(terms: Terms, owner: str, checkpoint: Path, model: Path | None = None) -> PeerRun:
    """Fix everything before the first question."""
    if owner not in {part.name for part in terms.owners}:
        raise SettingError(
            f"owner.toml: these terms have no owner {owner!r}; correct the owner's name, or give other terms"
        )
    require_prediction(terms)
    terms.require_release()
    setup = resolve(terms)
    require_as_good(setup)
    algorithm = make_algorithm(setup)
    if not isinstance(algorithm, Gossip):
        raise SettingError("learning.algorithm: peers run only 'gossip'; run other algorithms with parley learner run")
    peer = PeerRun(setup, algorithm, owner, checkpoint, model)
    graph, numbers = peer.graph, max(setup.parameters, *(stage.question.size for stage in setup.part(owner).stages))
    for name in (owner, *graph.neighbours(owner)):  # now rather than when all rounds were paid for
        require_short(max(len(graph.at(name, far)) for far in range(max(1, graph.diameter))), numbers)
    return peer


class OwnOwner:
    """An `Exchange` with one's own owner alone. It is asked questions for everybody, and its answers are passed on."""

    def __init__(
        self, peer: PeerRun, federation: Federation, neighbourhood: Neighbourhood, scores: Mapping[str, Floats] | None
    ) -> None:
        self._peer, self._federation, self._neighbourhood = peer, federation, neighbourhood
        self.scores = scores  # of everybody, once they were asked for

    def ask(self, questions: Mapping[str, Query]) -> list[Answer]:
        """Return the owner's own answer or none in training, and everybody's for a score."""
        owner = self._peer.owner
        if set(questions) <= {owner}:
            return self._federation.ask(questions) if questions else []
        query, parts = questions[owner], self._peer.setup.parts
        if self.scores is None:
            own = self._federation.ask({owner: query})[0].value
            self.scores = self._neighbourhood.spread(self._peer.points_round + 1, own)
            for name, value in self.scores.items():
                Scrutiny(parts[name], gaps=True).check_value(query, value)
        return [
            Answer(query.id, name, parts[name].stage(query.round).question.records, self.scores[name])
            for name in questions
        ]


@dataclass(frozen=True, eq=False)
class PeerOutcome:
    """What a peer ends with: the result that all agree on, and its own owner's point."""

    owner: str
    result: Result
    point: Floats


class KeptPeer:
    """A peer's rounds and end, stored durably: a round's messages are kept with its state before the next are sent."""

    def __init__(self, peer: PeerRun, federation: Federation, neighbourhood: Neighbourhood, begin: Checkpoint) -> None:
        self._peer, self._federation, self._neighbourhood, self._begin = peer, federation, neighbourhood, begin
        self._ended = peer.agreed()
        scores = None if self._ended is None else remembered(self._ended.state, SCORE_KEY, peer.whole.names)
        self.exchange = OwnOwner(peer, federation, neighbourhood, scores)
        self.used = Counter(begin.answers)
        for step in MIXING_STEPS if begin.state.round > 1 else ():
            neighbourhood.board.say((begin.state.round - 1, step), begin.state.memory[f"{SAID_KEY} {step}"][None])

    def points(self, progress: Callable[[State], None]) -> Mapping[str, Floats]:
        """Run the remaining rounds and return everybody's final point."""
        peer = self._peer
        known = None if self._ended is None else remembered(self._ended.state, POINT, peer.whole.names)
        if known is not None:
            self._neighbourhood.repeat(peer.points_round, known)
            self._neighbourhood.repeat(peer.points_round + 1, self.exchange.scores or {})
            return known

        def after_round(state: State, answers: Sequence[Answer]) -> None:
            self.used.update(answer.owner for answer in answers)
            self._store(state, peer.checkpoint)
            self._neighbourhood.board.forget(state.round - 1)
            progress(state)

        if self._begin.state.round <= peer.whole.horizon:
            self._neighbourhood.agree(self._begin.state.round)
        else:  # nobody is asked any more, and some may have gone home
            self._neighbourhood.agreed()
        own = PeerGossip.from_gossip(peer.whole, self._neighbourhood)
        final = run(own, self.exchange, OwnAnswer(), Asker.from_setup(peer.setup), self._begin.state, after_round)
        points = self._neighbourhood.spread(peer.points_round, final.memory[f"{POINT} of {peer.owner}"])
        _require_in_box(points, peer.setup)
        return points

    def finish(self, ended: State, finished_neighbours: set[str]) -> list[str]:
        """Store the end, and stay until the neighbours have theirs; return the names of those not reached."""
        if self._ended is not None and self._ended.state.memory[OVER_KEY].any():
            return []
        scores = {f"{SCORE_KEY} of {name}": value for name, value in (self.exchange.scores or {}).items()}

        def store(over: bool) -> None:
            memory = {**ended.memory, **scores, OVER_KEY: np.full(1, float(over))}
            self._store(replace(ended, memory=memory), self._peer.agreed_file)

        store(False)
        unreached = self._neighbourhood.finish(self._peer.end, finished_neighbours)
        store(not unreached)
        return unreached

    def spent(self) -> float | None:
        """Return its own owner's spending, by the last statement."""
        known = self._federation.spent(self._peer.owner)
        return known if known is not None else self._begin.spent.get(self._peer.owner)

    def _store(self, state: State, path: Path) -> None:
        spent = {} if (known := self.spent()) is None else {self._peer.owner: known}
        heads = {**self._begin.heads, **self._federation.heads}
        Checkpoint(self._peer.setup.hash, state, dict(self.used), spent, heads).save(path)


def learn_as_peer(
    peer: PeerRun,
    federation: Federation,
    neighbourhood: Neighbourhood,
    finished_neighbours: set[str],
    begin: Checkpoint,
    report: Callable[[PeerOutcome], None],
    progress: Callable[[State], None] = lambda state: None,
) -> list[str]:
    """Run all rounds from `begin`, share points and the score if one is agreed on, and `report` the outcome. Then stay
    until the neighbours have it too; return those not heard to have it. `finished_neighbours` know that this peer has
    finished. A killed peer continues with the same messages."""
    began, setup, kept = time.perf_counter(), peer.setup, KeptPeer(peer, federation, neighbourhood, begin)
    points = kept.points(progress)
    ended = _gather_state(peer, points)
    if peer.model is not None:
        make_model(setup.preparation, ended.theta, setup.hash, True).save(peer.model)
    scores = ask_scores(setup, setup.aggregation, kept.exchange, ended.theta)
    result = make_result(
        setup,
        ended.theta[None, :],
        owners=_outcomes(peer, kept.spent(), kept.used[peer.owner]),
        scores=scores,
        released=True,
        by_word=True,
        consensus_error=peer.whole.consensus_error(ended),
        seconds=time.perf_counter() - began,
    )
    report(PeerOutcome(peer.owner, result, points[peer.owner]))
    return kept.finish(ended, finished_neighbours)


def remembered(state: State, what: str, names: Sequence[str]) -> dict[str, Floats] | None:
    """Return a state's memory of everybody; None if it has none."""
    found = {name: state.memory[f"{what} of {name}"] for name in names if f"{what} of {name}" in state.memory}
    return found or None


def _gather_state(peer: PeerRun, points: Mapping[str, Floats]) -> State:
    """Return the state one learner would have: everybody's points, and their mean as the model."""
    theta = peer.whole.mean(np.stack([points[name] for name in peer.whole.names]))
    return State(peer.points_round, theta, {f"{POINT} of {name}": value for name, value in points.items()})


def _require_in_box(points: Mapping[str, Floats], setup: Setup) -> None:
    radius = setup.limits.radius
    for name, point in points.items():
        if radius is not None and not (np.abs(point) <= radius).all():
            raise ContradictionError(
                f"{name}: this peer's final parameters are larger than the agreed model.radius; ask the operators of "
                "this peer and of the peers that passed the parameters on"
            )


def _outcomes(peer: PeerRun, spent: float | None, answers: int) -> list[OwnerOutcome]:
    """Return the owners' outcomes: its own by its statement, others' by the terms, because nobody here knows them."""
    outcomes = []
    for part in peer.setup.terms.owners:
        own, turns = part.name == peer.owner, len(peer.setup.schedule.rounds_of(part.name))
        promised, step = (
            upper(peer.setup.terms.promised_epsilon(part.name)),
            upper(peer.setup.part(part.name).step_epsilon),
        )
        outcomes.append(
            OwnerOutcome(
                part.name, part.records, promised, spent if own else None, None, answers if own else turns, step
            )
        )
    return outcomes
