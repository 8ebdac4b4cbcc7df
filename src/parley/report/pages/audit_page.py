"""Audits as pages for a privacy officer: of terms, a model, a served owner, or lying owners."""

from parley.audit import Audit
from parley.audit.attacks.damage import Damage
from parley.audit.attacks.trained_model import ModelAudit
from parley.audit.served.noise_law import ServedVerdict
from parley.report.figures.audit_figures import audit_figure, own_figure
from parley.report.figures.picture import svg
from parley.report.pages.page import Section, page
from parley.report.words import audit as words
from parley.report.words import membership
from parley.report.words.audit import (
    HOSTS_NOTE,
    LIMITS_NOTE,
    POISONING_LEAD,
    TABLES_NOTE,
    host_rows,
    rule_rows,
    sentences,
    served_rows,
    served_sentences,
)
from parley.terms import Terms


def audit_page(audit: Audit, terms: Terms) -> str:
    """Return the HTML page of an audit."""
    first = audit.verdicts[0]
    sections = [
        Section("What was learned?", words.learned(audit), words.owner_rows(audit), svg(audit_figure(first))),
        *(
            [Section("What did the audit compute exactly?", [words.EXACT_NOTE], words.exact_rows(audit))]
            if audit.exact
            else []
        ),
        *(
            [
                Section(
                    "Which pair of tables comes closest to the claim?", words.searched(audit), words.search_rows(audit)
                )
            ]
            if audit.search
            else []
        ),
        *([Section("What does a host see?", [HOSTS_NOTE], host_rows(audit.hosts))] if audit.hosts else []),
        Section("What did the audit test?", words.tried(audit, terms)),
        Section("What does the guarantee say?", [words.promised(first)]),
        Section("What did the audit not test?", [words.NOT_TRIED_NOTE, f"The audit took {audit.seconds:.0f} seconds."]),
    ]
    return page(
        f"Audit: {terms.title or 'an agreement'}", words.headline(audit), sections, f"Parley · terms {terms.hash}"
    )


def poisoning_page(found: Damage, terms: Terms) -> str:
    """Return the HTML page of what lying owners can do."""
    moved, undetectable, named, *learner = sentences(found)
    sections = [
        Section("How far can lies shift a round's answer?", [moved], rule_rows(found)),
        Section("Which lies does Parley notice?", [undetectable, named]),
        *([Section("What if the learner lies?", learner)] if learner else []),
    ]
    return page(
        f"Lying owners: {terms.title or 'an agreement'}", POISONING_LEAD, sections, f"Parley · terms {terms.hash}"
    )


def served_page(verdict: ServedVerdict, terms: Terms) -> str:
    """Return the HTML page of an audit of a served owner."""
    sections = [
        Section("What was seen?", served_sentences(verdict)[1:], served_rows(verdict)),
        Section(
            "What did the audit not test?", [TABLES_NOTE, LIMITS_NOTE, f"The audit took {verdict.seconds:.0f} seconds."]
        ),
    ]
    title = f"Audit of {verdict.owner}'s daemon: {terms.title or 'an agreement'}"
    return page(title, served_sentences(verdict)[0], sections, f"Parley · terms {terms.hash}")


def membership_page(audit: ModelAudit) -> str:
    """Return the HTML page of a model's audit, with a place to sign."""
    findings = audit.membership
    drawn = svg(own_figure(audit))
    sections = [
        Section("What was learned?", membership.learned(audit), membership.attack_rows(findings), drawn),
        Section(
            "What did the attacks find on this model?", membership.of_this_model(audit), membership.model_rows(audit)
        ),
        Section("What did the audit test?", membership.tried(audit)),
        Section("What does the guarantee say?", [membership.promised(findings)]),
        Section(
            "What did the audit not test?",
            [membership.NOT_TRIED_NOTE, f"The audit took {audit.seconds:.0f} seconds.", membership.MEMBERS_ROWS_NOTE],
        ),
        Section("Read by", ["Name, date, signature: ______________________________"]),
    ]
    title = f"Audit of a model: {audit.target}"
    return page(title, membership.headline(audit), sections, f"Parley · {audit.kind} · terms {audit.terms_hash}")
