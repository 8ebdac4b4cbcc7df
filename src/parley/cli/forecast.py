"""`parley forecast`: what training by a terms file would give, before any data moves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.assumptions import Differences, Speeds, read_differences, read_paces
from parley.cli.track import Track, require_store
from parley.durable import write_file
from parley.errors import SettingError
from parley.report.terminal import console, print_json, progress_bar, terminal_table, warn
from parley.terms import Terms, load_terms, write_terms
from parley.terms.file import NOTES

if TYPE_CHECKING:
    from parley.decisions.knowledge.heterogeneity import Heterogeneity
    from parley.decisions.knowledge.sources import Source
    from parley.decisions.outlook.forecast import Forecast
    from parley.decisions.planning.planner import Proposal


def forecast_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file. Its owners need no `data`.")],
    pilot: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="A public pilot sample; left out: the terms' `public`.")
    ] = None,
    moments: Annotated[
        Path | None,
        typer.Option(
            metavar="JSON",
            help="Instead of a sample: second moments that owners released, as `parley train --json` printed them "
            "under terms with "
            'algorithm = "sufficient-statistics".',
        ),
    ] = None,
    assume: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML",
            help="Instead of a sample: stated assumptions, with the keys curvature (the Hessian's eigenvalues), "
            "least_cost, and distance (from the start to the optimum).",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="The same as `parley plan`, below the forecast.")] = False,
    delta: Annotated[
        float | None,
        typer.Option("--delta", metavar="DELTA", help="With --plan: consider Gaussian noise at this delta too."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="TERMS2", help="With --plan: write terms with the best choice, ready for parley train."),
    ] = None,
    inside: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="For an owner's own eyes: its table. What would joining add for its own rows? Nothing leaves. "
            "Needs --owner.",
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="With --inside: whose table it is.")] = None,
    differences: Differences = None,
    worth: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="With --inside: what joining must save to be worth a budget, beside the owner's privacy cost over its "
            "value where the terms have both, as a share of what own rows cost alone. Default: 0.005.",
        ),
    ] = None,
    speeds: Speeds = None,
    seed: Annotated[int, typer.Option(help="Of the pilot's resampling and runs.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw expected relative fitness against rounds.")
    ] = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Print all else: relative fitness, costs, kinds of noise, what it rests on."),
    ] = False,
    track: Track = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the forecast (.html), with its figures.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Forecast the joint model from public knowledge: the terms and a pilot sample. No private record is looked at.

    The verdict comes first: join where it is worth it in 90 % of what may come out, stay where it is in 10 %, else
    unsure, with what would settle it.

    Example:  parley forecast parley-demo/terms.toml --plan --write better.toml
    """
    from parley.decisions.outlook.forecast import forecast
    from parley.decisions.outlook.noise_kinds import compare_noise
    from parley.decisions.outlook.remedies import remedies
    from parley.decisions.planning.noise_terms import kind_of
    from parley.decisions.planning.planner import plan as make_plan
    from parley.decisions.planning.planner import require_rounds
    from parley.report.words import noise as kinds
    from parley.report.words.forecast import remedy_line
    from parley.report.words.outlook import verdict_sentence

    terms = load_terms(terms_file)
    paces = read_paces(terms, speeds)
    require_store(track)
    kept = {"--track": track, "--report": report, "--plot": plot}
    for option, given in {**kept, "--plan": plan, "--details": details, "--speeds": speeds}.items() if inside else ():
        if given:
            why = "what an owner sees of its rows is not kept" if option in kept else "it is of the view from outside"
            raise SettingError(f"{option}: expected no --inside beside it: {why}")
    if plot is not None:
        from parley.report.figures import picture  # a library that takes its time

        picture.require_figure_name(plot)
    if (delta is not None or write is not None) and not plan:
        raise SettingError("--delta, --write: expected --plan beside them")
    if plan:
        require_rounds(terms)
    from parley.protocol.task import task_of

    if (own := task_of(terms).command("forecast")) is not None:
        for option, given in {**kept, "--inside": inside}.items():
            if given is not None:
                raise SettingError(f"{option}: expected none for {terms.task}, whose figures --json has")
        own(terms, pilot, as_json)
        return
    known = source(pilot, moments, assume)
    if (inside is None) != (owner is None):
        raise SettingError("--inside TABLE, --owner NAME: expected both or neither")
    if worth is not None and inside is None:
        raise SettingError("--worth: expected --inside beside it")
    heterogeneity = read_differences(differences)
    if inside is not None and owner is not None:
        _show_inside(terms, owner, inside, known, seed, worth, heterogeneity, as_json)
        return
    with progress_bar("reading the pilot") as progress:
        result = forecast(
            terms, known, seed, differences=heterogeneity, progress=progress, doing=progress.says, speeds=paces
        )
        progress.says("weighing coalitions, looking for break-even budgets")
        content = result.to_json()
        progress.says("comparing kinds of noise")
        compared = compare_noise(result)
        noise = compared.to_json()
        progress.says("looking for terms that would be worth it")
        settled = result.verdict.verdict == "join" or len(terms.owners) < 2
        better = None if settled else remedies(result, compared)
        verdict = [verdict_sentence(result.outlook, str(terms_file))]
        some = "join" in result.outlook.verdicts
        verdict += [] if better is None else [remedy_line(better, some, len(terms.owners))]
        content |= {"sentences": verdict, "would_join": None if better is None else better.to_json()}
    proposal = planned = None
    if plan:
        with progress_bar("planning") as progress:
            proposal = make_plan(terms, known, delta, seed, progress=progress)
            planned = proposal.to_json()
        if write is not None and proposal.best is not None:
            write_terms(proposal.terms, write, notes=NOTES)
    if plot is not None:
        from parley.report.pages.forecast_page import fitness_figure

        picture.save(fitness_figure(result), plot)
    if report is not None:
        from parley.report.pages.forecast_page import forecast_page

        write_file(report, forecast_page(result, noise, verdict, proposal, planned))
    if track is not None:
        from parley.report.tracking import tracked_forecast, write_run

        write_run(tracked_forecast(result, "parley forecast", seed), track)
    if as_json:
        print_json(content | {"noise": noise, "plan": planned}, inside=False)
        if proposal is not None:
            proposal.require_choice()
        return
    show(result, verdict)
    if details:
        show_details(result)
        console.print()
        console.print(terminal_table(kinds.kind_rows(noise), kinds.TITLE))
        console.print(f"\n{kinds.decision(noise, kind_of(terms))}", markup=False)
        if kind_of(terms) == "two_hosts":
            console.print(kinds.two_hosts(len(terms.owners)))
    if proposal is not None and planned is not None:
        show_plan(proposal)
        for sentence in kinds.plan_beside(planned):
            console.print(sentence)
    if proposal is not None:
        proposal.require_choice()  # where there is none the job was not done


def _show_inside(
    terms: Terms,
    owner: str,
    table: Path,
    known: "str | Source | None",
    seed: int,
    worth: float | None,
    differences: "Heterogeneity | None",
    as_json: bool,
) -> None:
    """An owner's own view, for its own eyes; without `worth`, beside what its privacy costs by the terms."""
    from parley.data.sources import held_table
    from parley.decisions.knowledge.privacy_cost import price_note
    from parley.decisions.outlook.inside_view import inside_view
    from parley.learning.outcome.guarantee import INSIDE
    from parley.learning.outcome.verdict import LEAST_GAIN
    from parley.owner.owner import Owner
    from parley.report.words import outlook as said

    note = price_note(terms, owner)
    if note is not None:
        warn(f"Note: {note}.")
    with progress_bar("own rows, judged") as progress:
        least = LEAST_GAIN if worth is None else worth
        view = inside_view(terms, Owner(owner, held_table(table)), known, seed, least, differences, progress)
    if as_json:
        print_json(view.to_json() | {"terms_hash": terms.hash}, inside=True)
        return
    first, *others = said.inside_sentences(view)
    console.print(first, style="bold", soft_wrap=True)
    console.print()
    console.print(terminal_table(said.inside_rows(view)))
    for sentence in others:
        console.print(f"\n{sentence}", soft_wrap=True)
    console.print(INSIDE, style="dim")


def source(pilot: Path | None, moments: Path | None, assume: Path | None) -> "str | Source | None":
    """What the options say is known."""
    from parley.decisions.knowledge.sources import ReleasedMoments, Stated

    if sum(option is not None for option in (pilot, moments, assume)) > 1:
        raise SettingError("--pilot, --moments, --assume: expected at most one of them")
    if moments is not None:
        return ReleasedMoments.load(moments)
    if assume is not None:
        return Stated.load(assume)
    return None if pilot is None else str(pilot)


def show(result: "Forecast", verdict: Sequence[str]) -> None:
    """Print what a forecast comes to: the verdict, what joining saves each owner, and what would change it."""
    from parley.decisions.knowledge.coding import coding_warning
    from parley.report.words import outlook as said
    from parley.report.words.forecast import baseline_line, verdict_lines

    first, *others = verdict
    console.print(first, style="bold", markup=False, soft_wrap=True)
    console.print()
    if len(result.terms.owners) > 1:
        console.print(terminal_table(said.gain_rows(result.outlook), said.TITLE))
    else:
        console.print(baseline_line(result.worth, result.expected_cost))
        for sentence in verdict_lines(result):
            console.print(sentence, style="bold yellow", markup=False)
    for sentence in others:
        console.print(f"\n{sentence}", markup=False, soft_wrap=True)
    for warning in result.warnings:
        console.print(f"Note: {warning}.", style="yellow")
    if (coding := coding_warning(result.terms)) is not None:
        warn(coding)
    console.print("More: --details", style="dim")


def show_details(result: "Forecast") -> None:
    """Print what a forecast rests on."""
    from parley.report.words import forecast as said

    console.print(f"\n{said.headline(result)}", style="bold")
    for detail in said.details(result):
        console.print(detail, style="dim")
    console.print(said.baseline_line(result.worth, result.expected_cost))
    for sentence in said.verdict_lines(result):
        console.print(sentence, style="bold yellow", markup=False)
    console.print()
    console.print(terminal_table(said.owner_rows(result), said.owner_title(result)))
    console.print(f"\n{said.assumption(result)}", style="dim", soft_wrap=True)
    without = said.better_without(result)
    if without is not None:
        console.print(f"\n{without}")
    console.print(said.CAVEAT, style="dim")


def show_plan(proposal: "Proposal") -> None:
    """What the planner tried, and the lines to put into the terms."""
    from parley.report.words import forecast as said

    console.print()
    bold = None if proposal.best is None else proposal.choices.index(proposal.best)
    console.print(terminal_table(said.plan_rows(proposal), said.PLAN, bold=bold))
    console.print()
    console.print(said.plan_advice(proposal), markup=False)
    console.print(said.plan_rests_on(proposal), style="dim", markup=False, soft_wrap=True)
    for sentence in said.unjudged_lines(proposal):
        console.print(sentence, style="yellow", markup=False, soft_wrap=True)
