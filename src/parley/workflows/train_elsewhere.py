"""Train one joint model with remote owners, each behind its own daemon."""

from pathlib import Path

from parley.durable import require_store
from parley.errors import SettingError
from parley.protocol.task import task_of
from parley.report.extras import extras
from parley.report.run_options import RunOptions
from parley.report.sheet import Report
from parley.report.terminal import watched
from parley.terms import Terms, load_terms
from parley.terms.file import require_expected
from parley.workflows.person import Person
from parley.workflows.release import require_worth_spending
from parley.workflows.train_report import DeployedReport


def train_elsewhere(
    terms_file: Path,
    options: RunOptions,
    person: Person,
    differences: str | None = None,
    track: Path | None = None,
    expect: str | None = None,
) -> Report:
    """Run the rounds with the owners at `options.addresses`; wings may have their own way. The forecast check applies
    when a run begins, not when it resumes."""
    terms = load_terms(terms_file)
    require_expected(terms, expect)
    terms.require_shared_sample()
    require_store(track)
    if (other := task_of(terms).command("learner run")) is not None:
        if track is not None:
            raise SettingError(f"--track: not available for the task {terms.task}; --json prints the figures")
        wings: Report = other(terms, options)
        return wings
    return _learned(terms, options, person, differences, track)


def _learned(
    terms: Terms, options: RunOptions, person: Person, differences: str | None, track: Path | None
) -> DeployedReport:
    from parley.learning.deployed import learn, open_federation, prepare_run

    run = prepare_run(terms, options.checkpoint, options.save)
    begin = run.begin(options.resume)
    if not (options.resume or options.anyway):
        require_worth_spending(terms, differences, person)
    if options.addresses is None:
        raise SettingError("--owners: missing; name the file with the owners' addresses")
    with extras():
        federation, own = open_federation(run, begin, options.addresses, options.deadline, person.warn)
    if options.save_own is not None and own is None:
        federation.close()
        raise SettingError(
            f"--save-own: available only if the learner is an owner with its own table in {options.addresses}"
        )
    try:
        if not run.finished(begin):  # a finished run needs nobody
            federation.fetch_statements()
        with watched(terms, federation) as progress:
            result, unheard = learn(run, federation, begin, own, progress)
    finally:
        federation.close()
    if options.save_own is not None and result.own_model is not None:
        result.own_model.save(options.save_own)
    if track is not None:
        from parley.report.tracking import tracked_training, write_run

        write_run(tracked_training(result, "parley learner run", heads=federation.heads), track)
    latency = {name: status.mean_seconds for name, status in federation.status.items()}
    return DeployedReport(result, latency, unheard)
