"""Audits that attack terms, a daemon that serves them, or a trained model."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from parley.audit import Audit, audit_terms
from parley.durable import require_folder, write_file
from parley.errors import SettingError
from parley.protocol.task import task_of
from parley.report.extras import extras
from parley.report.sheet import BLANK_LINE, Grid, Line, Part, Sheet, lines
from parley.report.words import audit as words
from parley.report.words import membership
from parley.tasks.statistics.column_statistics.terms import column_statistics_agreement
from parley.tasks.statistics.heterogeneity.run import heterogeneity_agreement, terms_after_heterogeneity
from parley.terms import Terms, load_terms
from parley.workflows.person import Person

DEFAULT_SHADOW_MODELS = 128
USUAL_TRIES = 200


@dataclass(frozen=True)
class Attack:
    """The target of an attack, and its options."""

    runs: int | None = None
    seed: int | None = None
    terms: Path | None = None  # of a model
    owner: str | None = None
    data: Path | None = None
    population: Path | None = None
    models: int = DEFAULT_SHADOW_MODELS
    largest: int | None = None
    plot: Path | None = None
    report: Path | None = None
    poison: bool = False
    tries: int | None = None  # None: `USUAL_TRIES`, or what a wing with its own audit takes
    served: Path | None = None
    tables: int | None = None
    program: str | None = None
    at: str | None = None

    def given(self, *names: str) -> list[str]:
        """Return those of these options that were given, as they are typed."""
        usual = {each.name: each.default for each in fields(self)}
        return [f"--{name}" for name in names if getattr(self, name) != usual[name]]


@dataclass(frozen=True)
class AuditReport(Sheet):
    """The findings of an attack; `holds`: whether nothing reveals more than is promised."""

    holds: bool


def audit(file: Path, attack: Attack, person: Person) -> AuditReport:
    """Attack a terms file, or a model file; options that do nothing are refused first."""
    if attack.poison and (attack.plot is not None or attack.served is not None):
        raise SettingError("--poison: not allowed with --served or --plot; --report writes a page")
    if is_model(file):
        if useless := attack.given("runs", "poison", "served", "tables", "program", "at"):
            raise SettingError(f"{', '.join(useless)}: allowed only when auditing terms, not a model")
        return _model(file, attack, person)
    if attack.given("models", "terms", "data", "population", "largest"):
        raise SettingError("--terms, --data, --population, --models, --largest: allowed only when auditing a model")
    terms = load_terms(file)
    if "audit" in task_of(terms).commands:
        return _wings(terms, attack, person)
    if attack.served is not None and attack.plot is not None:
        raise SettingError("--plot: not available with --served; --report writes a page")
    if attack.served is None and attack.given("owner", "tables", "program", "at"):
        raise SettingError("--owner, --tables, --program, --at: allowed only with --served DIR")
    if attack.at is not None and attack.given("tables", "program"):
        raise SettingError(
            "--at: not allowed with --tables or --program, because --at audits a daemon that you start yourself"
        )
    _require_files(attack)
    if attack.served is not None:
        return _daemon(terms, attack.served, attack, person)
    return _poisoning(terms, attack, person) if attack.poison else _promise(terms, attack, person)


def _wings(terms: Terms, attack: Attack, person: Person) -> AuditReport:
    """Attack terms of a task that has an audit of its own; it takes few options."""
    useless = attack.given("plot", "report", "poison", "served", "owner", "tables", "program", "at")
    if useless:
        raise SettingError(
            f"{', '.join(useless)}: not available for the task {terms.task}; parley audit TERMS takes --runs, --seed, "
            "--tries and --json"
        )
    own: Any = task_of(terms).command("audit")
    with person.progress("attacking") as progress:
        found, holds = own(terms, attack.runs, attack.seed, attack.tries, progress, progress.says)
    return AuditReport(found.to_json(), found.parts(), inside=False, holds=holds)


def is_model(file: Path) -> bool:
    """Return whether a file is a model (JSON) rather than terms (TOML)."""
    if file.suffix.lower() == ".json":
        return True
    try:
        with file.open(encoding="utf-8") as text:
            return text.read(256).lstrip().startswith("{")
    except (OSError, UnicodeDecodeError):
        return False


def agreements_in(terms: Terms) -> list[Terms]:
    """List the agreements in these terms that are known yet: what is learned after column statistics is not."""
    if terms.privacy.scale_epsilon is not None:
        return [column_statistics_agreement(terms)]
    if terms.privacy.difference_epsilon is not None:
        return [heterogeneity_agreement(terms), terms_after_heterogeneity(terms)]
    return [terms]


def _require_files(attack: Attack) -> None:
    for file in (attack.plot, attack.report):
        require_folder(file)
    if attack.plot is not None:
        from parley.report.figures import picture  # a library that is slow to load

        picture.require_figure_name(attack.plot)


def _end(terms_hash: str, seconds: float, *limits: str) -> list[Part]:
    footer = f"terms {terms_hash[:16]}…   {seconds:.1f} s"
    return [*lines([" ".join(limits) or None], "dim"), Line(footer, "dim", folded=True)]


def _promise(terms: Terms, attack: Attack, person: Person) -> AuditReport:
    tries = USUAL_TRIES if attack.tries is None else attack.tries
    with person.progress("searching for records whose answers differ most") as progress:
        *before, last = [
            audit_terms(each, attack.runs, attack.seed, progress=progress, says=progress.says, tries=tries)
            for each in agreements_in(terms)
        ]
        found = replace(last, before=tuple(before))
    if attack.plot is not None:
        from parley.report.figures import picture
        from parley.report.figures.audit_figures import audit_figure

        picture.save(audit_figure(found.verdicts[0]), attack.plot)
    if attack.report is not None:
        from parley.report.pages.audit_page import audit_page

        write_file(attack.report, audit_page(found, terms))
    shown = [part for each in (*found.before, found) for part in _agreement(each)]
    shown += _end(terms.hash, found.seconds, words.SYNTHETIC_NOTE, words.NOT_TRIED_NOTE)
    return AuditReport(found.to_json(), shown, inside=False, holds=found.holds)


def _agreement(found: Audit) -> list[Part]:
    shown: list[Part] = [Grid(words.owner_rows(found), found.title or "Owners")]
    for held, rows in (found.exact, words.exact_rows), (found.search, words.search_rows):
        shown += [BLANK_LINE, Grid(rows(found))] if held else []
    shown += [BLANK_LINE, Grid(words.host_rows(found.hosts))] if found.hosts else []
    return [*shown, BLANK_LINE, *lines([*words.learned(found), words.promised(found.verdicts[0])])]


def _poisoning(terms: Terms, attack: Attack, person: Person) -> AuditReport:
    from parley.audit.attacks.damage import damage

    with person.progress("lying"):
        found = damage(terms, attack.seed or 0)
    if attack.report is not None:
        from parley.report.pages.audit_page import poisoning_page

        write_file(attack.report, poisoning_page(found, terms))
    shown = [Grid(words.rule_rows(found), terms.title or "Owners that lie"), BLANK_LINE, *lines(words.sentences(found))]
    return AuditReport(found.to_json(), [*shown, *_end(terms.hash, found.seconds)], inside=False, holds=True)


def _daemon(terms: Terms, folder: Path, attack: Attack, person: Person) -> AuditReport:
    """Make the tables, start the daemon or reach the running one, and attack it."""
    name = terms.owners[0].name if attack.owner is None else terms.owner(attack.owner).name
    with extras():
        from parley.audit.served import attack as served
        from parley.audit.served.attack import DEFAULT_PROGRAM
    if attack.at is not None and not folder.exists():
        table = served.prepare(terms, name, folder, attack.at, attack.seed)
        next_step = (
            f"Next: run the daemon as in production (parley owner serve {table.settings_file}), then repeat this "
            "command."
        )
        made = f"{table.settings_file.parent}  the audit table, its ledger and its certificates"
        prepared_content = {"title": terms.title, "terms_hash": terms.hash, "said": [made, next_step]}
        return AuditReport(prepared_content, lines([made, next_step]), inside=False, holds=True)
    with person.progress(f"asking {name}") as progress:
        if attack.at is not None:
            verdict = served.audit_address(terms, name, folder, attack.at, progress=progress)
        else:
            program = DEFAULT_PROGRAM if attack.program is None else shlex.split(attack.program)
            tables = served.LEAST_TABLES if attack.tables is None else attack.tables
            verdict = served.audit_served(terms, name, folder, tables, program, attack.seed, progress=progress)
    if attack.report is not None:
        from parley.report.pages.audit_page import served_page

        write_file(attack.report, served_page(verdict, terms))
    content = {"title": terms.title, "terms_hash": terms.hash, "holds": verdict.holds, "seconds": verdict.seconds}
    shown = [Grid(words.served_rows(verdict), f"{verdict.owner}, served"), BLANK_LINE]
    shown += [
        *lines(words.served_sentences(verdict)),
        *_end(terms.hash, verdict.seconds, words.TABLES_NOTE, words.LIMITS_NOTE),
    ]
    return AuditReport(content | {"owners": [verdict.to_json()]}, shown, inside=False, holds=verdict.holds)


def _model(file: Path, attack: Attack, person: Person) -> AuditReport:
    """Attack membership in a model's table, from an owner's own rows, for its own eyes."""
    from parley.audit.attacks.trained_model import MAX_SHADOW_ROWS, audit_model, own_rows
    from parley.data import read_table
    from parley.learning.outcome import load_model
    from parley.learning.owners import table_of

    _require_files(attack)
    model, owner = load_model(file), attack.owner
    terms = None if attack.terms is None else load_terms(attack.terms)
    if terms is not None:
        owner = _audited_owner(terms, owner)
        members, others = own_rows(model, terms, owner, table_of(terms.owner(owner), attack.data))
        others = others if attack.population is None else read_table(attack.population)
    elif attack.data is None or attack.population is None or owner is not None:
        raise SettingError(
            "expected either --terms and --owner, or --data with the model's training rows and --population with other "
            "rows"
        )
    else:
        members, others = read_table(attack.data), read_table(attack.population)
    with person.progress("shadow models") as progress:
        largest = attack.largest or MAX_SHADOW_ROWS
        found = audit_model(model, members, others, terms, owner, attack.models, attack.seed, progress, largest)
    if attack.plot is not None:
        from parley.report.figures import picture
        from parley.report.figures.audit_figures import own_figure

        picture.save(own_figure(found), attack.plot)
    if attack.report is not None:
        from parley.report.pages.audit_page import membership_page

        write_file(attack.report, membership_page(found))
    sentence_lines: Sequence[str] = [
        *membership.learned(found),
        membership.promised(found.membership),
        *membership.of_this_model(found),
    ]
    shown = [Grid(membership.attack_rows(found.membership), f"Models of {found.shadow_records:,} rows"), BLANK_LINE]
    shown += [Grid(membership.model_rows(found)), BLANK_LINE, *lines(sentence_lines)]
    shown += _end(found.terms_hash, found.seconds, membership.NOT_TRIED_NOTE, membership.MEMBERS_ROWS_NOTE)
    return AuditReport(found.to_json(), shown, inside=True, holds=found.holds)


def _audited_owner(terms: Terms, owner: str | None) -> str:
    if owner is not None:
        return terms.owner(owner).name
    if len(terms.owners) > 1:
        raise SettingError(
            "--owner NAME: required for terms with several owners; each owner audits its answers with its own rows"
        )
    return terms.owners[0].name
