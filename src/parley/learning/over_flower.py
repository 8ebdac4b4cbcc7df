"""The learner as the ServerApp of a Flower federation: the same rounds, carried by Flower
(`network/exchange/flower.py`).

Run settings: terms, save, report and checkpoint (paths at the server), deadline (seconds). An interrupted run continues
from its checkpoint. The report is what `parley learner run --json` prints, less the latencies.
"""

import json
import logging
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from parley.durable import require_folder, write_file
from parley.learning.deployed import learn, prepare_run
from parley.network.exchange.federation import Federation
from parley.network.exchange.flower import Carrier, find_owners
from parley.terms import load_terms

server_app = ServerApp()


@server_app.main()  # type: ignore[untyped-decorator, unused-ignore]
def main(grid: Grid, context: Context) -> None:
    """Train by the terms and save the model."""
    settings = context.run_config
    for key in ("save", "report", "checkpoint"):
        require_folder(Path(str(settings[key])))
    deadline, kept = float(settings["deadline"]), Path(str(settings["checkpoint"]))
    terms = load_terms(str(settings["terms"]))
    run = prepare_run(terms, kept, Path(str(settings["save"])))
    begin = run.begin(resume=True)
    peers = find_owners(Carrier(grid), [part.name for part in terms.owners], deadline)
    warn = logging.getLogger("parley").warning
    federation = Federation(run.setup, peers, deadline, warn, begin.heads, begin.answers)
    try:
        if not run.finished(begin):
            federation.fetch_statements()
        result, _ = learn(run, federation, begin)
    finally:
        federation.close()
    write_file(str(settings["report"]), json.dumps(result.to_json(), indent=1, allow_nan=False) + "\n")


APP_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "parley-relay"
version = "1.0.0"
description = "Carries Parley's messages to the owners' daemons"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "parley"

[tool.flwr.app.components]
serverapp = "parley_relay.learner:server_app"
clientapp = "parley_relay.relay:client_app"

[tool.flwr.app.config]
terms = "terms.toml"
save = "model.json"
report = "report.json"
checkpoint = "terms.checkpoint"
deadline = 120.0
""",
    "parley_relay/__init__.py": "",
    "parley_relay/learner.py": """\
from parley.learning.over_flower import server_app

__all__ = ["server_app"]
""",
    "parley_relay/relay.py": """\
from parley.network.exchange.flower import client_app

__all__ = ["client_app"]
""",
}


def write_app(folder: Path) -> None:
    """Write the Flower app that `flwr run` submits. It holds names only: each party runs its own Parley."""
    for name, text in APP_FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
