"""An agreement under attack: every promise of its terms, and which larger faults the attack would have noticed."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.audit.exact.enumeration import ExactVerdict, exact_verdicts, size_verdicts
from parley.audit.exact.other_instructions import search_with_others
from parley.audit.exact.pair_search import Searched, search_owner
from parley.audit.runs import Verdict, audit_owner
from parley.audit.served.one_host import HostVerdict, audit_hosts
from parley.errors import TermsError
from parley.learning.algorithms.algorithm import Progress
from parley.protocol.setup import Setup, resolve
from parley.terms import Terms

OWN = {"name", "data", "value", "privacy_cost", "records"}  # of an owner's part: its promise does not depend on them
FEWER = 5  # times fewer trials with each of the processor's other instructions
CONTROLS = (2, 4, 8)  # times the budget, and about as much less noise
HOST_DRAWS = 2**15  # of either answer, where hosts draw one noise


@dataclass(frozen=True)
class Audit:
    """What was found about every owner, and what would have been noticed."""

    title: str
    terms_hash: str
    verdicts: tuple[Verdict, ...]
    exact: tuple[ExactVerdict, ...]  # of the first owner's answers, by their law
    controls: Mapping[int, bool]  # whether noise for so many times the budget was caught, by the same attack
    seconds: float
    search: tuple[Searched, ...] = ()  # for pairs of tables that the first owner's answers tell apart too well
    hosts: tuple[HostVerdict, ...] = ()  # what each of them sees of one answer, with the learner
    score: Verdict | None = None  # of the first owner's score, where one is agreed on
    before: "tuple[Audit, ...]" = ()  # of what is asked, by an agreement of its own, before these terms

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts any claim."""
        kinds = (self.verdicts, self.exact, self.search, self.hosts, [self.score] if self.score else [], self.before)
        return all(verdict.holds for found in kinds for verdict in found)

    @property
    def noticed(self) -> int | None:
        """The least excess of the controls that was caught; None: none was, so that this audit had hardly any power."""
        return next((factor for factor, caught in self.controls.items() if caught), None)

    def to_json(self) -> dict[str, Any]:
        """The object that `parley audit --json` prints."""
        return {
            "title": self.title,
            "terms_hash": self.terms_hash,
            "holds": self.holds,
            "owners": [verdict.to_json() for verdict in self.verdicts],
            "exact": [verdict.to_json() for verdict in self.exact],
            "search": [found.to_json() for found in self.search],
            "hosts": [verdict.to_json() for verdict in self.hosts],
            "score": None if self.score is None else self.score.to_json(),
            "before": [audit.to_json() for audit in self.before],
            "mutants": {control_name(factor): caught for factor, caught in self.controls.items()},
            "seconds": self.seconds,
        }


def control_name(factor: int) -> str:
    """What a control is called."""
    return f"noise for {factor} times the budget"


def audit_terms(
    terms: Terms,
    runs: int | None = None,
    seed: int | None = None,
    confidence: float = 0.99,
    progress: Progress = lambda done, total: None,
    says: Callable[[str], None] = lambda label: None,
    tries: int = 0,
) -> Audit:
    """Attack every owner's answers by these terms, whatever they ask. Owners with the same promise are looked at once.

    All verdicts hold together at `confidence`. The controls are the same attack on the first owner's
    answers with noise for 2, 4 and 8 times the budget, up to the first that is caught. `runs`: None for as many as take
    a minute (`audit_owner`). `tries`: of a search over pairs of tables and questions about the first owner
    (`pair_search`), and a fifth as many with each of the processor's other instructions.
    """
    terms.require_release()
    began = time.perf_counter()
    alike, scored = owners_alike(terms), terms.privacy.score_epsilon is not None
    seeds = iter(np.random.SeedSequence(seed).generate_state(len(alike) + len(CONTROLS) + 1).tolist())
    each = 1 - (1 - confidence) / (len(alike) + scored + terms.noise.hosts)
    found: dict[str, Verdict] = {}
    for first, names in alike.items():
        says(f"attacking {first}")
        verdict = audit_owner(terms, first, runs, next(seeds), each, progress)
        found.update({name: replace(verdict, owner=name, confidence=confidence) for name in names})
    controls: dict[int, bool] = {}
    name = terms.owners[0].name
    for factor in CONTROLS:
        says(f"with noise for {factor} times the budget")
        caught = _caught(terms, name, factor, found[name].runs, next(seeds), each, progress)
        if caught is not None:
            controls[factor] = caught
        if caught:
            break
    score = None
    if scored:
        says(f"attacking the score of {name}")
        score = replace(audit_owner(terms, name, runs, next(seeds), each, progress, stage=1), confidence=confidence)
    setup = resolve(terms)
    if terms.noise.hosts:
        says("looking at what hosts see")
    hosts = audit_hosts(terms, HOST_DRAWS, seed, each) if terms.noise.hosts else ()
    verdicts = tuple(found[part.name] for part in terms.owners)
    exact = (*exact_verdicts(setup, name), *size_verdicts(setup.part(name).stages))
    searched = tuple(_searched(setup, name, tries, seed or 0, progress, says))
    took = time.perf_counter() - began
    return Audit(terms.title, terms.hash, verdicts, exact, controls, took, searched, hosts, score)


def _searched(
    setup: Setup, name: str, tries: int, seed: int, progress: Progress, says: Callable[[str], None]
) -> Iterator[Searched]:
    """What searches find, here and with other instructions."""
    if not tries:
        return
    says("searching pairs of tables")
    yield from search_owner(setup, name, tries, seed, progress)
    if tries >= FEWER:
        says("searching with other instructions of this processor")
        yield from search_with_others(setup.terms, name, tries // FEWER, seed, progress)


def owners_alike(terms: Terms) -> dict[str, list[str]]:
    """The owners by who has the same promise, each under the first of them."""
    groups: dict[object, list[str]] = {}
    for part in terms.owners:
        key = tuple(getattr(part, field) for field in type(part).model_fields if field not in OWN)
        groups.setdefault(key, []).append(part.name)
    return {names[0]: names for names in groups.values()}


def _caught(
    terms: Terms, name: str, factor: int, runs: int, seed: int, confidence: float, progress: Progress
) -> bool | None:
    """Whether answers with noise for so many times every budget are shown to cost more than the terms say; None: there
    are no such terms."""
    try:
        loud = terms.changed(owners={part.name: {"epsilon": factor * part.epsilon} for part in terms.owners})
        verdict = audit_owner(loud, name, runs, seed, confidence, progress)
    except TermsError:
        return None
    return max(verdict.lower_bound, verdict.by_noise) > terms.training_epsilon(name)
