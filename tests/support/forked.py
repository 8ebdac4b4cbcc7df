"""Commands as processes from a fork server that has imported Parley once: each is a process of its own that can be
killed, and starts at once.

A process that is started loads this file and no other of the tests.
"""

import multiprocessing
import os
import resource
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

SERVER = multiprocessing.get_context("forkserver")
LOADED = [
    "opendp.measurements",
    "parley.cli.host",
    "parley.cli.learner",
    "parley.cli.owner",
    "parley.cli.peer",
    "parley.decisions.outlook.forecast",
    "parley.learning.deployed",
    "parley.learning.deployed",
    "parley.learning.peers",
    "parley.protocol.task",
    "parley.network.exchange.federation",
    "parley.network.hosting.daemon",
    "parley.network.hosting.federation",
    "parley.network.serving.daemon",
    "parley.network.serving.log",
]  # what commands load when they are typed
SERVER.set_forkserver_preload(LOADED)


def command(arguments: list[str], out: str, log: str, largest_file: int | None = None) -> None:
    """`parley ARGUMENTS` in this process, with these files for what it says."""
    for place, path in ((1, out), (2, log)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), place)
    if largest_file is not None:
        sys.dont_write_bytecode = True  # bytecode that is cut off breaks every later import
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    sys.argv = ["parley", *arguments]
    from parley.cli import main

    main()


def parley_process(arguments: list[str], out: Path, log: Path, largest_file: int | None = None) -> BaseProcess:
    """The command `parley ARGUMENTS` in a process of its own."""
    process = SERVER.Process(target=command, args=(arguments, str(out), str(log), largest_file))
    process.start()
    return process
