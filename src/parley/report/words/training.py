"""A run as tables: what owners promised and spent, how good the model is, and released scores."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parley.decisions.outlook.worth import Worth
from parley.errors import ParleyError
from parley.learning.outcome import Result
from parley.learning.outcome.notices import FALSE_ALARMS
from parley.learning.outcome.result import Scores
from parley.numerals import interval_text, number, percent
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner
from parley.protocol.stages import make_schedule
from parley.report.words.outlook import verdict_sentence

if TYPE_CHECKING:
    from parley.decisions.outlook.outlook import Interval


Rows = list[list[str]]  # the first one is the head
SAME_FOR_ALL = ("r2", "d2")  # metrics that are 0 for the mean as everybody's answer
MANY_CLIPPED_SHARE = 0.2  # share of an owner's records


def owner_rows(result: Result) -> Rows:
    """Return a table of what each owner promised and spent, and for how many answers."""
    rows = [["owner", "records", "ε promised", "ε spent", "answers", "records clipped"]]
    for o in result.owners:
        promised, spent = (number(epsilon, side="above") for epsilon in (o.epsilon, o.epsilon_spent))
        why = "lost" if result.terms.lossy else "late"
        answers = f"{o.answers:,}{f' + {o.late:,} {why}' if o.late else ''}"
        rows.append([o.name, f"{o.records:,}", promised, spent, answers, percent(o.clipped_share)])
    return rows


def clip_line(result: Result) -> str | None:
    """Say what it means that many records are clipped; None if few are, or if it is unknown."""
    most = max((each.clipped_share or 0.0 for each in result.owners), default=0.0)
    if not most > MANY_CLIPPED_SHARE:
        return None
    return (
        f"Up to {percent(most)} of an owner's records are clipped: at the final model their gradients are scaled down "
        "to privacy.clip. Clipping biases the model away from clipped records. A larger privacy.clip clips fewer "
        "records but needs more noise. Run parley plan to balance bias and noise."
    )


def remote_owner_rows(result: Result, latency: Mapping[str, float | None], unheard: Collection[str]) -> Rows:
    """Return that table for remote owners with mean latency in seconds; `unheard` owners may have spent more than is
    known."""
    rows = [["owner", "records", "ε agreed", "ε spent", "answers", "latency"]]
    turns = make_schedule(result.terms)
    for o in result.owners:
        at_least = o.name in unheard and o.epsilon_spent is not None
        spent = f"{'≥ ' if at_least else ''}{number(o.epsilon_spent, side='below' if at_least else 'above')}"
        late = f" +{o.late} late" if o.late else ""
        figures = [
            f"{o.records:,}",
            number(o.epsilon, side="above"),
            spent,
            f"{o.answers}/{len(turns.rounds_of(o.name))}{late}",
        ]
        seconds = latency.get(o.name)
        rows.append([o.name, *figures, "–" if seconds is None else f"{1e3 * seconds:.0f} ms"])
    return rows


def ring_rows(result: Result) -> Rows:
    """Return a table for a run without a centre: each owner knows only its own account, so it shows the terms."""
    rows = [["owner", "records", "ε promised", "answers"]]
    return rows + [[o.name, f"{o.records:,}", number(o.epsilon, side="above"), f"{o.answers:,}"] for o in result.owners]


def ring_line(result: Result, name: str) -> str:
    """Say what the owner `name` spent, and how to judge the model if it has held-out rows."""
    own = next(owner for owner in result.owners if owner.name == name)
    spent_words = "" if own.epsilon_spent is None else f"{name} spent ε = {number(own.epsilon_spent, side='above')}. "
    spent_words += (
        "The other owners do not report how much budget they spent. Each owner gave all answers that the terms require."
    )
    if not result.terms.held_out_rows(name):
        return spent_words
    return (
        f"{spent_words}\nTo see whether the model is better for {name}, score the model on the owner's held-out rows: "
        f"parley score MODEL TERMS --owner {name} --data TABLE"
    )


def aborted_line(result: Result) -> str | None:
    """Name the rounds without a step, if any."""
    if not result.aborted_rounds:
        return None
    shown = ", ".join(map(str, result.aborted_rounds[:12])) + (" …" if len(result.aborted_rounds) > 12 else "")
    return (
        f"Aborted rounds: {shown} ({len(result.aborted_rounds)} of {result.terms.learning.horizon}). The budget of an "
        "aborted round remains spent."
    )


def notice_lines(result: Result) -> list[str]:
    """Name the owners with answers that nothing agreed explains."""
    often = f" (in {{runs:,}} of {result.replicates:,} runs)" if result.replicates > 1 else ""
    lines = [
        f"{each.owner}: {each.sentence}{often.format(runs=each.runs)}. Ask the owner which software it runs, and on "
        "which table."
        for each in result.notices
    ]
    rate = f"If all owners are honest, Parley issues a notice in at most one run in {1 / FALSE_ALARMS:,.0f}."
    return [*lines, rate] if lines else []


def consensus_line(result: Result) -> str | None:
    """Say how far owners' own points are from the model, if there is no centre."""
    if result.consensus_error is None:
        return None
    far = number(result.consensus_error, 3)
    return (
        f"The owners trained without a central learner. The model is the mean of all owners' parameters. Each owner's "
        f"parameters are at most {far} away from the model (consensus error)."
    )


def spent_rows(content: Mapping[str, Any]) -> Rows:
    """Return a table of what owners promised and spent in a release, from the JSON of `parley train`."""
    rows = [["owner", "records", "ε promised", "ε spent", "answers"]]
    for owner in content.get("owners", ()):
        promised, spent = (number(owner[key], side="above") for key in ("epsilon", "epsilon_spent"))
        rows.append([owner["name"], f"{owner['records']:,}", promised, spent, f"{owner['answers']:,}"])
    return rows


def outcome_line(content: Mapping[str, Any]) -> str:
    """Say how far a run's model is from the one without privacy, from the JSON of `parley train`."""
    fitness, runs = content.get("relative_fitness"), content.get("replicates", 1)
    if fitness is None:
        return str(content.get("relative_fitness_undefined") or "The relative fitness is not known.")
    fitness_words = f"The relative fitness is ψ = {number(fitness['mean'])}"
    return (
        f"{fitness_words}. Half of the {runs} runs ended between {number(fitness['q25'])} and "
        + (f"{number(fitness['q75'])}.")
        if runs > 1
        else f"{fitness_words}, in one run."
    )


def quality_rows(result: Result) -> Rows:
    """Return a table of the model's quality, next to the one without privacy."""
    rows = [["quality", "private", "without privacy"]]
    fitness = result.relative_fitness
    if fitness is not None:
        middle = "median" if result.terms.studied else "mean"  # of noise without a variance means do not settle
        label = "relative fitness ψ" + (", median" if result.terms.studied else "")
        rows.append([label, number(fitness[middle]), "0"])
        if result.replicates > 1:
            rows.append(["  half of the runs", interval_text(fitness["q25"], fitness["q75"]), ""])
    elif result.relative_fitness_undefined is not None:
        rows.append(["relative fitness ψ", "not defined", ""])
    rows.append(["training cost", number(result.cost), number(result.optimal_cost)])
    for name, value in result.metrics.items():
        if value is not None:
            rows.append([f"held-out {name.replace('_', ' ')}", number(value), number(result.optimal_metrics.get(name))])
    return rows


def useless_line(result: Result) -> str | None:
    """Warn that a model is worse than always predicting the mean on held-out rows; None if not, or if unknown."""
    for name in SAME_FOR_ALL:
        value, free = result.metrics.get(name), result.optimal_metrics.get(name)
        if value is not None and value < 0:
            too = (
                " The model without privacy is also worse than always predicting the mean."
                if free is not None and free < 0
                else ""
            )
            return f"This model is worse than always predicting the mean: its held-out {name} is below 0.{too}"
    return None


def missed_line(simulated: float, forecast: "Interval") -> str:
    """Say that a simulation is far above its forecast, and what to do."""
    return (
        f"ψ is {number(simulated)}, far above its forecast of {number(forecast.mean)} ({number(forecast.low)} to "
        f"{number(forecast.high)}). Either the owners' rows differ from the public sample, or the model without "
        "privacy overfits the training rows. Before a release, compare costs on held-out rows. Each owner can run "
        "parley forecast --inside on its own rows."
    )


def quality_lines(result: Result) -> list[str]:
    """Compare a simulated model on held-out rows with the one without privacy; nothing for a release."""
    if result.quality is None:
        return []
    name, value = next(((key, each) for key, each in result.metrics.items() if each is not None), ("", None))
    free, useless = result.optimal_metrics.get(name), useless_line(result)
    beside = "" if free is None else f" ({number(free)} without privacy)"
    lines = [] if value is None else [f"Held-out {name.replace('_', ' ')} {number(value)}{beside}."]
    return lines if useless is None else [*lines, useless]


def stable_rows(result: Result) -> Rows:
    """Return a table of what stable noise costs people, as published and in truth; only a head for other noise."""
    rows = [["owner", "ε in one coordinate", "ε overall, at least", "ε overall, at most", "adjacency"]]
    for name, bound in (result.stable_bounds or {}).items():
        upper = [number(each, side="above") for each in (bound.one_dimensional, bound.high)]
        rows.append([name, upper[0], number(bound.low, side="below"), upper[1], str(bound.adjacency)])
    return rows


def stable_line(result: Result) -> str | None:
    """Explain a study with stable noise and its figures; None for other noise."""
    if not result.terms.studied:
        return None
    drawn = (
        " Owners draw records in secret, but Parley claims no privacy amplification: the stated ε assumes every "
        "record in every answer."
        if result.terms.learning.poisson
        else ""
    )
    return (
        f"Stable noise with α = {result.terms.privacy.alpha:g} at δ = {result.terms.privacy.delta:g} is scaled so that "
        "ε holds in every direction. Stable noise has infinite variance, so Parley summarises several runs by medians "
        "and quartiles." + drawn
    )


def undefined_line(result: Result) -> str | None:
    """Say why a simulation has no relative fitness, if it has none."""
    why = result.relative_fitness_undefined
    return None if why is None else f"Relative fitness ψ is not defined: {why}."


def interval_rows(result: Result) -> Rows:
    """Return a table of 90% intervals of the population's coefficients; only a head if there are none."""
    intervals = result.intervals or ()
    classes = any(each.outcome is not None for each in intervals)
    rows = [[*(["class"] if classes else []), "coefficient", "estimate", "90% interval"]]
    for each in intervals:
        interval = interval_text(each.low, each.high)
        rows.append([*([each.outcome or ""] if classes else []), each.name, number(each.estimate), interval])
    return rows


def interval_line(result: Result) -> str:
    """Say what the intervals cover."""
    sure = result.model.posterior_
    words = (
        "Intervals account for the noise and for sampling, but not for clipped records (docs/fedinfer.md)."
        + _clip_words(result)
    )
    drowned = (
        " The noise hides the moments in at least one direction, so Parley regularised the moments. In a "
        "hidden direction, regularisation pulls the model towards 0, and the intervals are unreliable. A constant and "
        "one column per category name always cause a hidden direction, because the columns add up to the constant."
    )
    return words + (drowned if sure is not None and sure.repaired else "")


def _clip_words(result: Result) -> str:
    """Say which clip would clip no record, if records may be clipped; it follows from public bounds."""
    clip, free = result.terms.privacy.clip, result.moments_bound
    shares = [each.clipped_share for each in result.owners if each.clipped_share is not None]
    if clip is None or (free is not None and free.value <= clip) or (shares and not max(shares) > 0):
        return ""
    sentence = (
        f" At most {percent(max(shares))} of an owner's records were clipped."
        if shares
        else f" Some records may have been clipped to norm {number(clip)}."
    )
    if free is None:
        return (
            sentence
            + " With bounds for every column, Parley could compute a value of privacy.clip that clips no record."
        )
    largest = number(free.value, 3, side="above")
    return (
        sentence
        + f" Within the columns' bounds, no record has a norm above {largest}. Without privacy.clip, no record "
        "is clipped, but the answers need more noise."
    )


def score_title(result: Result) -> str:
    """Return the title of the table of released scores."""
    what = "Released" if result.released else "Simulated"
    return f"{what} scores ± one standard error of the noise (two standard errors cover 95%)"


def score_rows(scores: Scores) -> Rows:
    """Return a table of each owner's scores and the pooled ones, with one standard error."""
    names = list(scores.pooled.figures)
    rows = [["owner", "held-out rows", *(name.replace("_", " ") for name in names)]]
    for score in (*scores.owners, scores.pooled):
        figures = [score.figures[name] for name in names]
        shown = ["–" if f is None else f"{number(f.value, 3)} ± {number(f.standard_error, 2)}" for f in figures]
        rows.append([score.name, f"{'about ' * score.expected}{score.rows:,}", *shown])
    return rows


MAX_OWNERS_PRINTED = 6  # owners whose accounts are printed
NOTHING_NEW_NOTE = "No new budget was spent, because all answers were already stored"


def foreseen_words(found: Worth) -> str:
    """Say before a release what joining would mean for the owners."""
    return "" if found.outlook is None or len(found.outlook.names) < 2 else verdict_sentence(found.outlook)


def unforeseen(error: ParleyError) -> str:
    """Say why a release cannot be forecast."""
    return f"There is no forecast, so it is not known whether any owner gains: {error}."


def release_lines(
    result: Result,
    owners: Sequence[Owner],
    terms: Path,
    books: Path,
    files: Sequence[Path],
    model: Path | None,
    repeated: bool = False,
) -> list[str]:
    """Say what was released, written, spent and left, and the next command; `repeated`: all answers were stored."""
    ledgers = [] if repeated else [books / f"{owner.name}.ledger" for owner in owners]
    written = ", ".join(str(file) for file in (*files, *ledgers)) or "nothing"
    left = {owner.name: owner.ledger for owner in owners if isinstance(owner.ledger, Ledger)}
    spent = "; ".join(
        f"{outcome.name} ε = {number(outcome.epsilon_spent, side='above')}, remaining lifetime ε = "
        f"{number(left[outcome.name].lifetime[0] - left[outcome.name].reserved[0], side='below')}"
        for outcome in result.owners[:MAX_OWNERS_PRINTED]
        if outcome.name in left
    )
    more = f"; and {len(owners) - MAX_OWNERS_PRINTED} more owners" if len(owners) > MAX_OWNERS_PRINTED else ""
    judged = shlex.join(["parley", "score", str(model), str(terms), "--owner", owners[0].name])
    done = "the model is the same as before" if repeated else "the model is released"
    return [
        f"Done: {done}. A release does not show how good the model is. Each owner can measure the model's quality on "
        "its own rows.",
        f"Written: {written}",
        f"{f'{NOTHING_NEW_NOTE}. Spent before' if repeated else 'Spent'}: {spent}{more}",
        "The model was not saved. The same command with --save model.json writes the model from stored answers, at no "
        "privacy cost."
        if model is None
        else f"Next: {judged}",
    ]
