"""`parley peer`: one owner's part of training without a centre, beside its daemon."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.assumptions import Differences, Force
from parley.network.identity.settings import OwnerSettings, load_owner
from parley.report.extras import extras
from parley.report.terminal import Terminal, show
from parley.terms import load_terms
from parley.validate import positive

if TYPE_CHECKING:
    from parley.learning.algorithms.algorithm import State
    from parley.learning.checkpoint import Checkpoint
    from parley.learning.peers import PeerOutcome, PeerRun
    from parley.network.serving.log import Log

PROGRESS_INTERVAL_S = 2.0  # seconds between two lines about progress

peer_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="""For an owner under gossip terms, which need no central
learner: get noisy gradients from the owner's daemon, and mix parameters with neighbouring peers.

    Every owner runs its daemon (parley owner serve) and one peer. No central process talks to all owners. With
    --resume, a killed peer continues where it stopped.""",
)


@peer_app.callback()
def peer() -> None:
    """Keeps `run` a command of its own."""


@peer_app.command("run")
def run_command(
    terms_file: Annotated[
        Path,
        typer.Argument(metavar="TERMS", help='The terms file that every owner accepted, with algorithm = "gossip".'),
    ],
    settings_file: Annotated[
        Path,
        typer.Option(
            "--owner", metavar="OWNER", help="The owner's settings, owner.toml, which list the peer and its neighbours."
        ),
    ],
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint, if one exists.")] = False,
    deadline: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Seconds without a reply after which a neighbour counts as late."),
    ] = 60.0,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the run's state. Default: a file next to TERMS.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the joint model as JSON.")] = None,
    differences: Differences = None,
    anyway: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run one owner's part of training without a central learner. In each round, the peer mixes parameters with its
    neighbours and uses one noisy gradient from its owner's daemon.

    Before training, each owner accepts the terms with `parley owner accept --peer` and runs `parley owner serve`. Peers
    may start in any order, because each peer waits for its neighbours. If a peer is killed at any moment, the same
    command with --resume continues with the same questions, answers and messages. Every peer ends with the same model,
    the mean of all owners' parameters. The peer logs JSON lines on stderr.

    Example:  parley peer run terms.toml --owner bank-a/owner.toml --resume --save model.json
    """
    terms = load_terms(terms_file)  # before the libraries that the rest needs
    terms.require_shared_sample()
    deadline_s = positive(deadline, "--deadline")
    settings = load_owner(settings_file)
    from parley.workflows.release import require_worth_spending
    from parley.workflows.train_report import PeerReport

    with extras():
        from parley.learning.peers import prepare_peer
        from parley.network.serving.log import process_log
    checkpoint_path = checkpoint if checkpoint is not None else terms_file.with_suffix(f".{settings.name}.checkpoint")
    run = prepare_peer(terms, settings.name, checkpoint_path, save)
    begin = run.begin(resume)
    if not (anyway or checkpoint_path.exists()):  # nothing was spent yet
        require_worth_spending(terms, differences, Terminal())
    with process_log() as log:
        run_peer(run, settings, begin, deadline_s, lambda outcome: show(PeerReport(outcome), as_json), log)


def run_peer(
    run: "PeerRun",
    settings: OwnerSettings,
    begin: "Checkpoint",
    deadline: float,
    report: Callable[["PeerOutcome"], None],
    log: "Log",
) -> None:
    """Exchange messages with neighbours until everybody has the model."""
    from parley.learning.peers import learn_as_peer
    from parley.network.exchange.federation import Federation
    from parley.network.identity.certificates import check_identity
    from parley.network.peering.neighbourhood import Board, Neighbourhood
    from parley.network.peering.service import PeerService, listening, neighbour_connections, own_daemon, peer_settings

    place, identity = peer_settings(settings)
    check_identity(identity, settings.name)
    connections, keys = neighbour_connections(settings, run.graph)
    board = Board(max(1, begin.state.round - 1))
    service = PeerService(run.owner, run.run, keys, board, run.end, log)
    warn = warning_of(log)
    stops = run.setup.terms.learning.straggler == "stop"
    federation = Federation(
        run.setup, [own_daemon(settings)], deadline, warn, begin.heads, begin.answers, only=run.owner
    )
    neighbourhood = Neighbourhood(run.owner, run.graph, run.run, connections, board, deadline, warn, stops)
    try:
        with listening(run.owner, identity, place.listen, service, len(connections), log) as port:
            log("serving", peer=run.owner, pid=os.getpid(), listen=f"{place.listen.rpartition(':')[0]}:{port}")
            if run.agreed() is None:  # else nobody is asked any more
                federation.fetch_statements()
            for name in learn_as_peer(
                run, federation, neighbourhood, service.told, begin, report, progress_of(run, log)
            ):
                warn(
                    f"{name}: this neighbour did not report that it finished; if {name} still needs messages, run the "
                    "same command again with --resume"
                )
    finally:
        neighbourhood.close()
        federation.close()


def warning_of(log: "Log") -> Callable[[str], None]:
    """Return a function that writes warnings to this log."""
    return lambda sentence: log("warning", reason=sentence)


def progress_of(run: "PeerRun", log: "Log") -> Callable[["State"], None]:
    """Return a function that logs the round from time to time."""
    last_logged = time.monotonic()

    def progress(state: "State") -> None:
        nonlocal last_logged
        if time.monotonic() - last_logged > PROGRESS_INTERVAL_S or state.round > run.whole.horizon:
            last_logged = time.monotonic()
            log("round", done=state.round - 1, of=run.whole.horizon)

    return progress
