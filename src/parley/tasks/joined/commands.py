"""`parley train` under terms of joined tables: a simulation, and what each owner could do alone."""

import numpy as np

from parley.errors import SettingError
from parley.learning.outcome.guarantee import KEEP_INSIDE_NOTE
from parley.numerals import counted, number
from parley.protocol.task import RunSettings
from parley.report.run_options import RunOptions, owners_here
from parley.report.sheet import BLANK_LINE, Grid, Line, Part, Sheet, lines
from parley.report.terminal import progress_bar
from parley.tasks.joined.plan import JoinPlan
from parley.tasks.joined.run import NO_RELEASE, JoinedResult, Scored, simulate_join
from parley.terms import Terms
from parley.validate import printable, upper

FEW_PEOPLE = 5  # deviations of the noisy count: below, nothing can be said of the people


def run_joined(terms: Terms, options: RunOptions) -> Sheet:
    """Run `parley train` under terms of joined tables."""
    if options.ledgers is not None:
        raise SettingError(NO_RELEASE)
    owners = owners_here(terms, options)
    with progress_bar("matching") as progress:
        settings = RunSettings(replicates=options.replicates, seed=options.seed, progress=progress)
        result = simulate_join(terms, owners, settings)
    if options.save is not None:
        result.model.save(options.save)
    return Sheet(result.to_json(), _shown(result), inside=True)


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
        *lines([_few_people(result), _drowned(result)], "yellow", folded=True),
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
    if result.matched > FEW_PEOPLE * result.plan.law.deviation:
        return None
    return (
        f"{result.matched:,} matched people are hidden by the noise, whose standard deviation is "
        f"{number(result.plan.law.deviation)} people: use more people, fewer columns or a larger ε."
    )


def _drowned(result: JoinedResult) -> str | None:
    if not result.fits[0].drowned:
        return None
    return (
        "Some directions of the columns do not stand clear of the noise. The model is pulled towards zero along them."
    )


def guarantee_sentences(plan: JoinPlan) -> list[str]:
    """Return the guarantee of a release under these terms, and its limits."""
    terms, join, law = plan.terms, plan.join, plan.law
    epsilon, delta = number(upper(terms.common_epsilon), side="above"), number(terms.privacy.delta, side="above")
    count, rest = number(join.epsilon, side="above"), number(upper(law.epsilon), side="above")
    hosts = ", ".join(host.name for host in terms.hosts)
    return [
        f"A release under these terms is (ε, δ)-differentially private for every person, in all tables together, with "
        f"ε = {epsilon} and δ = {delta}: {count} for the number of matches that hosts see, {rest} for the moments that "
        "the learner sees.",
        "Two sets of tables are neighbours if one person's row in some of them becomes that of one newcomer, who was "
        "in none of these tables. Table sizes are public. A person replaced by two people who are already in other "
        "tables is not covered.",
        f"The guarantee holds if at most one of the hosts {hosts} looks at what it receives, no two act together, and "
        "all follow the protocol. Owners may lie about their own rows.",
        f"One person moves the {law.noise.size:,} opened numbers by at most {number(law.moved / law.unit**2)} in L2. "
        f"The noise in each has standard deviation {number(law.deviation)}.",
    ]
