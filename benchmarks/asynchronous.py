"""Nobody waits for the slow one: five banks, one twenty times slower, against the clock, at equal total privacy.

Every bank promises the same (eps, delta) in total whatever the rule. By the waiting rule a round takes as long as the
slow bank does; where answers are used as they come (`learning.staleness`) the slow bank gives one answer while the
others give up to twenty, and each bank's noise is for its own number. Rows are the time that may pass, in answers of
the slow bank. Both rules take the automatic step, and the better of the last iterate and the mean of the last half; of
the fast banks' numbers of answers (1, 5 or 20 for each of the slow one's) the best is shown, with its number. `ratio`
is how much longer the waiting rule takes to come as far. Then: the same where the slow bank has most records, other
rules for using answers as they come, and a run between processes.

    python benchmarks/asynchronous.py

Real loans lie in PARLEY_DATA; without, the market is synthetic, and the tables say so.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common.ports import free_port

import parley
import parley.network.serving.daemon
from network import certify, identity
from parley.data import split_consecutive
from parley.errors import Unavailable
from parley.learning.algorithms.algorithm import Asker, State
from parley.learning.algorithms.asynchronous import (
    ANSWERS_USED,
    STEP,
    TALLY,
    AsynchronousDescent,
    on_virtual_clock,
    run_asynchronously,
)
from parley.learning.algorithms.catalogue import make_algorithm
from parley.learning.algorithms.federated import mean
from parley.learning.deployed import learn, prepare_run
from parley.learning.outcome.metrics import Study
from parley.learning.owners import gather
from parley.learning.start import starting_point
from parley.network.exchange import InProcess
from parley.network.exchange.federation import AsynchronousFederation, Federation
from parley.network.exchange.remote import RemoteOwner
from parley.network.identity import certificate_authority
from parley.network.identity.settings import OwnerSettings
from parley.network.serving.acceptance import Acceptance, Acceptances
from parley.network.serving.daemon import serve
from parley.network.serving.log import Log
from parley.owner.owner import Agreement
from parley.privacy.mechanisms import SafeNoise
from parley.protocol.queries import Answer
from parley.validate import Floats
from parley_lab.papers.options import data_folder
from parley_lab.papers.wu2019.markets import Market, loan_market

BANKS = tuple(f"bank-{place}" for place in range(1, 6))
SLOW = BANKS[-1]
RECORDS, RUNS, DELTA, SLOWNESS = 4_000, 12, 1e-6, 20
BUDGETS = (1.0, 10.0)
WAITED = (1, 2, 4, 8, 16, 40)  # rounds of the waiting rule
PERIODS = (1, 2, 4, 8)  # answers of the slow bank
SHARES = (1, 5, 20)  # answers of a fast bank for each of the slow one's
FAST_SECONDS = 0.05  # between processes: what an answer takes
SPAWN = multiprocessing.get_context("spawn")


class AveragedGradients(AsynchronousDescent):
    """Incremental aggregated gradients: a step along the weighted mean of everybody's latest gradient."""

    def heard(self, state: State, answer: Answer) -> dict[str, Floats]:
        return {f"{STEP} of {answer.owner}": answer.value}

    def moved(self, state: State) -> Floats:
        used = state.memory[TALLY][:, ANSWERS_USED]
        latest = [
            (n, state.memory[f"{STEP} of {name}"])
            for n, name, k in zip(self.records, self.names, used, strict=True)
            if k
        ]
        return np.asarray(state.theta - self.step * (self.objective.penalty_gradient(state.theta) + mean(latest)))


class EveryAnswer(AsynchronousDescent):
    """A step along every answer, as it comes: who answers often counts often."""

    def heard(self, state: State, answer: Answer) -> dict[str, Floats]:
        gradient = self.objective.penalty_gradient(state.theta) + answer.value
        return {f"{STEP} of {name}": np.asarray(state.theta - self.step * gradient) for name in self.names}


class ByRate(AsynchronousDescent):
    """A step along every answer, weighted by the owner's records over its share of the answers so far."""

    def heard(self, state: State, answer: Answer) -> dict[str, Floats]:
        used, place = state.memory[TALLY][:, ANSWERS_USED], self.names.index(answer.owner)
        rate = (used[place] + 1) / (used.sum() + 1)
        length = self.step * self.records[place] / sum(self.records) / rate
        gradient = self.objective.penalty_gradient(state.theta) + answer.value
        return {f"{STEP} of {name}": np.asarray(state.theta - length * gradient) for name in self.names}


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        few = loan_market(data_folder(), Path(scratch))
        # all columns: some nearly depend on others
        market = replace(few, terms=few.terms.changed(model={"components": None}))
        print(f"{market.name} ({'real' if market.real else 'SYNTHETIC'}), {len(BANKS)} banks, mean psi of {RUNS} runs")
        table = market.table.iloc[: len(BANKS) * RECORDS]
        differ = table.sort_values(str(table.columns[0]))
        equal, unequal = [RECORDS] * len(BANKS), [RECORDS // 2] * 4 + [3 * RECORDS]
        against_the_clock(market, "one law", divided(table, equal))
        against_the_clock(market, "banks differ", divided(differ, equal))
        against_the_clock(market, "one law, the slow bank has most records", divided(table, unequal))
        against_the_clock(few, "one law, ten principal components", divided(table, equal))
        other_rules(market, divided(differ, equal))
        between_processes(market, table, Path(scratch))


def divided(table: pd.DataFrame, sizes: Sequence[int]) -> list[parley.Owner]:
    parts = split_consecutive(table.reset_index(drop=True), list(sizes))
    return [parley.Owner(name, rows) for name, rows in zip(BANKS, parts, strict=True)]


def terms_of(
    market: Market, owners: Sequence[parley.Owner], epsilon: float, periods: int, share: int | None, **keys: Any
) -> parley.Terms:
    """Terms for so many answers of the slow bank; `share`: of a fast one for each of them; None: rounds wait."""
    content, asynchronous = market.terms.model_dump(), share is not None
    content["model"]["radius"] = 20.0
    content["privacy"] |= {"mechanism": "gaussian", "delta": DELTA, "clip": 20.0}
    learning = {"algorithm": "gradient-descent", "decay": 0.0, "horizon": periods * (share or 1), **keys}
    parts: list[dict[str, Any]] = [
        {"name": owner.name, "records": len(owner.example), "epsilon": epsilon} for owner in owners
    ]
    if asynchronous:
        learning["staleness"] = 100_000
        parts[-1]["answers"] = periods
    return parley.Terms.from_dict({**content, "learning": learning, "owners": parts})


def psi(
    market: Market, owners: Sequence[parley.Owner], epsilon: float, periods: int, share: int | None, **keys: Any
) -> float:
    terms = terms_of(market, owners, epsilon, periods, share, **keys)
    # not faster than it has answers
    speeds = None if share is None else dict.fromkeys(BANKS, float(share)) | {SLOW: 1.0}
    result = parley.train(terms, owners, replicates=RUNS, seed=1, whole_path=False, speeds=speeds)
    return float(np.asarray(result.path)[-1].mean())


def against_the_clock(market: Market, title: str, owners: list[parley.Owner]) -> None:
    """psi when so much time has passed, by both rules; and how much longer the waiting rule takes to come as far."""

    def best_of(epsilon: float, periods: int, share: int | None) -> float:
        return min(psi(market, owners, epsilon, periods, share, average=average) for average in ("last", "tail"))

    heads = [f"eps {epsilon:g}" for epsilon in BUDGETS]
    print(
        f"\n{title}\n{'slow answers':>14s}"
        + "".join(f"{head + ': waits':>18s}{'as they come':>18s}{'ratio':>7s}" for head in heads)
    )
    waited = {epsilon: {t: best_of(epsilon, t, None) for t in WAITED} for epsilon in BUDGETS}
    for periods in PERIODS:
        cells = ""
        for epsilon in BUDGETS:
            best, share = min((best_of(epsilon, periods, share), share) for share in SHARES)
            rounds = next((t for t in WAITED if waited[epsilon][t] <= best), None)
            ratio = f"> {WAITED[-1] / periods:.0f}" if rounds is None else f"{rounds / periods:.1f}"
            cells += f"{waited[epsilon][periods]:18.2g}{f'{best:.2g} [{share}]':>18s}{ratio:>7s}"
        print(f"{periods:14d}{cells}", flush=True)


def other_rules(market: Market, owners: list[parley.Owner]) -> None:
    """psi of other ways to use answers as they come, at the automatic step and shorter ones; banks differ."""
    print("\nother rules, banks differ, 20 answers of a fast bank for each of the slow one's: psi, last iterate")
    print(f"{'slow answers':>34s}" + "".join(f"{periods:9d}" for periods in (2, 8) * 2) + "   (eps 10, eps 10,000)")
    rules: dict[str, tuple[type[AsynchronousDescent], bool]] = {
        "as the terms have it": (AsynchronousDescent, True),
        "following nothing": (AsynchronousDescent, False),
        "averaged gradients": (AveragedGradients, False),
        "every answer a step": (EveryAnswer, False),
        "weighted by rates": (ByRate, False),
    }
    for name, rule in rules.items():
        for shorter in (1, 5, 20):
            agreed = [terms_of(market, owners, epsilon, periods, 20) for epsilon in (10.0, 1e4) for periods in (2, 8)]
            cells = "".join(f"{psi_by(*rule, shorter, owners, terms):9.2g}" for terms in agreed)
            print(f"  {name:22s} step / {shorter:<3d}{cells}", flush=True)


def psi_by(
    rule: type[AsynchronousDescent], follows: bool, shorter: float, owners: list[parley.Owner], terms: parley.Terms
) -> float:
    """psi of a study by another rule; infinite where it diverges."""
    parties, agreements, replicates = gather(terms, owners, RUNS, 1)
    setup = agreements[0].setup
    step = vars(make_algorithm(setup))["step"] / shorter
    usual = vars(make_algorithm(setup.under(terms.changed(learning={"step": float(f"{step:.6g}")}))))
    algorithm = rule(**usual | ({} if follows else {"follow": None}))
    exchange, begin = (
        on_virtual_clock(InProcess(parties), setup.schedule),
        algorithm.start(starting_point(setup), replicates),
    )
    try:
        return measured(agreements, run_asynchronously(algorithm, exchange, Asker.from_setup(setup), begin).theta)
    except parley.errors.SettingError:
        return float("inf")


def measured(agreements: Sequence[Agreement], theta: Floats) -> float:
    """The mean psi of models [replicates, P], by somebody who has all the tables."""
    study = Study(agreements)
    study.record(theta)
    path = study.quality(theta).path
    return float("nan") if path is None else float(path[-1].mean())


class Slowly(SafeNoise):
    """Safe noise that takes its time: an owner whose answers do."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def gaussian(self, value: Floats, sigma: float) -> Floats:
        time.sleep(self._seconds)
        return super().gaussian(value, sigma)


def daemon(settings: OwnerSettings, seconds: float) -> None:
    """An owner's daemon, as `parley owner serve` runs it, that takes so many seconds an answer."""

    def slow_owner(settings: OwnerSettings, _: str | None = None) -> parley.Owner:
        return parley.Owner(
            settings.name, str(settings.table), ledger=parley.Ledger(settings.ledger), noise=Slowly(seconds)
        )

    parley.network.serving.daemon.open_owner = slow_owner
    with Path(os.devnull).open("w") as stream, Log(stream) as log:
        serve(settings, threading.Event(), log)


def between_processes(market: Market, table: pd.DataFrame, folder: Path) -> None:
    """Three banks behind daemons with mutual TLS, the last twenty times slower: seconds on the wall, and psi."""
    names, sizes = (BANKS[0], BANKS[1], SLOW), [RECORDS] * 3
    tables = dict(zip(names, split_consecutive(table.reset_index(drop=True), sizes), strict=True))
    owners = [parley.Owner(name, rows) for name, rows in tables.items()]
    waits, comes = terms_of(market, owners, 10.0, 16, None), terms_of(market, owners, 10.0, 3, 20)
    certificate_authority.make_authority(folder, "Benchmark", 30)
    for name in (*names, "learner"):
        certify(folder, name)
    settings = {name: settle(folder, name, rows, (waits, comes)) for name, rows in tables.items()}
    daemons = [
        SPAWN.Process(target=daemon, args=(each, FAST_SECONDS * (SLOWNESS if name == SLOW else 1)))
        for name, each in settings.items()
    ]
    for process in daemons:
        process.start()
    took = f"{FAST_SECONDS * SLOWNESS:g} s an answer and the others {FAST_SECONDS:g} s"
    print(f"\nbetween processes, mutual TLS, {len(names)} banks, one taking {took}, eps 10")
    try:
        seconds = []
        for title, terms, kind in (("waits", waits, Federation), ("as they come", comes, AsynchronousFederation)):
            taken, fitness, spent = deployed(folder, terms, settings, kind, owners, title)
            seconds.append(taken)
            print(f"  {title:14s}{taken:7.2f} s  psi {fitness:.2g}  answers and eps of each bank: {spent}", flush=True)
        print(f"  ratio {seconds[0] / seconds[1]:.1f}")
    finally:
        for process in daemons:
            process.kill()
            process.join()


def settle(folder: Path, name: str, rows: pd.DataFrame, agreed: Sequence[parley.Terms]) -> OwnerSettings:
    """A bank's table, books and acceptances."""
    rows.to_parquet(folder / f"{name}.parquet")
    settings = OwnerSettings(
        name=name,
        table=folder / f"{name}.parquet",
        ledger=folder / f"{name}.ledger",
        accepted=folder / f"accepted-{name}",
        listen=f"127.0.0.1:{free_port()}",
        identity=identity(folder, name),
    )
    ledger = parley.Ledger(settings.ledger, lifetime=20.0, lifetime_delta=2 * DELTA)
    owner = parley.Owner(name, str(settings.table), ledger=ledger)
    for terms in agreed:
        owner.accept(terms)
        Acceptances(settings.accepted).store(Acceptance(terms))
    ledger.close()
    return settings


def deployed(
    folder: Path,
    terms: parley.Terms,
    settings: dict[str, OwnerSettings],
    kind: Callable[..., Federation],
    owners: list[parley.Owner],
    title: str,
) -> tuple[float, float, str]:
    """(seconds from the first question on, psi, what the owners' ledgers say)."""
    run = prepare_run(terms, folder / f"{title}.checkpoint")
    peers = [RemoteOwner(name, str(each.listen), identity(folder, "learner")) for name, each in settings.items()]
    for peer in peers:
        while True:  # until the daemon has read its table
            try:
                peer.statement(terms.hash, "learner", 5)
                break
            except Unavailable:
                time.sleep(0.2)
    federation = kind(run.setup, peers, 60.0, lambda sentence: print(sentence, file=sys.stderr))
    try:
        federation.fetch_statements()
        began = time.perf_counter()
        result, _ = learn(run, federation, run.begin(resume=False))
        seconds = time.perf_counter() - began
    finally:
        federation.close()
    spent = ", ".join(f"{o.answers} for {o.epsilon_spent:g}" for o in result.owners)
    return seconds, measured([owner.prepare(terms) for owner in owners], result.theta), spent


if __name__ == "__main__":
    main()
