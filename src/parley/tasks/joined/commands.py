"""`parley train` under terms of joined tables: a simulation, and what each owner could do alone."""

from collections.abc import Sequence

import numpy as np

from parley.learning.deployed import prepare_run
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.numerals import counted, number
from parley.protocol.task import RunSettings
from parley.report.run_options import (
    RunOptions,
    ask_owners_elsewhere,
    owners_here,
    require_one_way,
    unheard_lines,
)
from parley.report.sheet import BLANK_LINE, Grid, Line, Part, Sheet, lines
from parley.report.terminal import progress_bar
from parley.tasks.joined.guarantee import guarantee_sentences
from parley.tasks.joined.law import JoinedLaw
from parley.tasks.joined.release import JoinedRelease, release_joined
from parley.tasks.joined.run import JoinedResult, Scored, simulate_join
from parley.terms import Terms
from parley.validate import printable

FEW_PEOPLE = 5  # deviations of the noisy count: below, nothing can be said of the people


def run_joined(terms: Terms, options: RunOptions) -> Sheet:
    """Run `parley train` and `parley learner run` under terms of joined tables."""
    require_one_way(options)
    if options.addresses is not None:
        answers = ask_owners_elsewhere(lambda: prepare_run(terms, options.checkpoint), terms, options)
        return _released(JoinedRelease.from_answers(answers), answers.missing_owners, options)
    owners = owners_here(terms, options)
    if options.ledgers is not None:
        with progress_bar("matching") as progress:
            release = release_joined(terms, owners, progress)
        return _released(release, (), options)
    with progress_bar("matching") as progress:
        settings = RunSettings(replicates=options.replicates, seed=options.seed, progress=progress)
        result = simulate_join(terms, owners, settings)
    if options.save is not None:
        result.model.save(options.save)
    return Sheet(result.to_json(), _shown(result), inside=True)


def _released(release: JoinedRelease, missing_owners: Sequence[str], options: RunOptions) -> Sheet:
    """Return what a release shows, and save its model."""
    if options.save is not None:
        release.model.save(options.save)
    terms, law = release.terms, release.plan.law
    people = f"About {number(release.moments.people)} people are in all tables, give or take {number(law.deviation)}."
    shown: list[Part] = [
        Line("Released, debited.", "italic", folded=True),
        BLANK_LINE,
        Grid(release_rows(release), terms.title or "Owners"),
        Line(people, folded=True),
        *lines(
            [_hidden(release.moments.people, law), DROWNED if release.fitted.drowned else None], "yellow", folded=True
        ),
        BLANK_LINE,
        *lines(guarantee_sentences(release.plan), "dim", folded=True),
        *unheard_lines(missing_owners),
        Line(f"terms {terms.hash[:16]}…   {release.seconds:.1f} s", "dim"),
    ]
    return Sheet(release.to_json() | {"unheard": list(missing_owners)}, shown, inside=False)


def release_rows(release: JoinedRelease) -> list[list[str]]:
    """Return a table of the owners: rows and what their ledgers have spent."""
    rows = [["owner", "rows", "ε spent"]]
    for owner in release.terms.owners:
        spent = release.spent.get(owner.name)
        rows.append([printable(owner.name), f"{owner.records:,}", "unknown" if spent is None else number(spent)])
    return rows


def _shown(result: JoinedResult) -> list[Part]:
    terms = result.terms
    simulation = f"Simulation, not a release: no ledger was debited, and no host took part. {KEEP_INSIDE_NOTE}"
    people = (
        f"{result.matched:,} people are in all tables and train the model. "
        f"{counted(result.held_out, 'more person', 'more people')} in all tables "
        f"{'is' if result.held_out == 1 else 'are'} held out."
    )
    return [
        Line(simulation, "italic", folded=True),
        BLANK_LINE,
        Grid(owner_rows(result), terms.title or "Owners"),
        Line(people, folded=True),
        BLANK_LINE,
        Grid(model_rows(result), "On held-out people"),
        *lines([_few_people(result), DROWNED if result.fits[0].drowned else None], "yellow", folded=True),
        BLANK_LINE,
        *lines(guarantee_sentences(result.plan), "dim", folded=True),
        Line(f"terms {terms.hash[:16]}…   {len(result.fits)} run(s), {result.seconds:.1f} s", "dim"),
    ]


def owner_rows(result: JoinedResult) -> list[list[str]]:
    """Return a table of the owners: rows, the columns that theirs become, and the clip of a row."""
    plan, law = result.plan, result.plan.law
    rows = [["owner", "rows", "numbers of a row", "clip", "target"]]
    for owner, part, clip in zip(plan.owners, result.terms.owners, law.clips, strict=True):
        target = "yes" if owner.outcomes else ""
        rows.append([printable(owner.name), f"{part.records:,}", f"{owner.width:,}", number(clip / law.unit), target])
    return rows


def model_rows(result: JoinedResult) -> list[list[str]]:
    """Return a table of the models: the joined one, the same without noise, and each owner's columns without noise."""
    metrics = [name for name in result.joined.metrics[0] if not np.isnan(result.without_noise.values(name)).any()]
    rows = [["model", "people", *(name.replace("_", " ") for name in metrics)]]
    for scored in (result.joined, result.without_noise, *result.alone):
        rows.append([printable(scored.name, 60), f"{scored.people:,.0f}", *(_cell(scored, name) for name in metrics)])
    return rows


def _cell(scored: Scored, metric: str) -> str:
    """Return a mean, and of several runs the middle half."""
    values = scored.values(metric)
    if np.isnan(values).any():
        return "–"
    if len(values) == 1:
        return number(float(values[0]))
    low, high = np.quantile(values, (0.25, 0.75))
    return f"{number(float(values.mean()))} ({number(float(low))} to {number(float(high))})"


def _few_people(result: JoinedResult) -> str | None:
    return _hidden(result.matched, result.plan.law)


def _hidden(people: float, law: JoinedLaw) -> str | None:
    if people > FEW_PEOPLE * law.deviation:
        return None
    return (
        f"{number(people)} matched people are hidden by the noise, whose standard deviation is "
        f"{number(law.deviation)} people: use more people, fewer columns or a larger ε."
    )


DROWNED = "Some directions of the columns do not stand clear of the noise. The model stays near its start along them."
