"""`parley forecast`: what training by a terms file would give, before any data moves."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.cli.assumptions import Differences, Speeds, Track
from parley.cli.plan import show_plan
from parley.durable import require_store
from parley.errors import SettingError
from parley.report.terminal import Terminal, console, print_json, terminal_table, warn
from parley.terms import load_terms

if TYPE_CHECKING:
    from parley.workflows.forecast import ForecastReport, InsideReport


def forecast_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file. Its owners need no `data`.")],
    pilot: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="A public pilot sample; left out: the terms' `public`.")
    ] = None,
    moments: Annotated[
        Path | None, typer.Option(metavar="JSON", help="Instead of a sample: second moments that owners released.")
    ] = None,
    assume: Annotated[
        Path | None, typer.Option(metavar="TOML", help="Instead of a sample: stated assumptions.")
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
        typer.Option(metavar="TABLE", help="For an owner's own eyes: its table. Needs --owner; nothing leaves."),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="With --inside: whose table it is.")] = None,
    differences: Differences = None,
    worth: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="With --inside: least saving that is worth it. Default: 0.005."),
    ] = None,
    speeds: Speeds = None,
    seed: Annotated[int, typer.Option(help="Seed of the pilot's resampling and runs.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw expected relative fitness against rounds.")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Print everything else that the forecast rests on.")
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
    from parley.protocol.task import task_of
    from parley.workflows.assumptions import Assumed
    from parley.workflows.forecast import forecast_terms, look_inside

    kept = {"--track": track, "--report": report, "--plot": plot}
    require_store(track)
    for option, given in {**kept, "--plan": plan, "--details": details, "--speeds": speeds}.items() if inside else ():
        if given:
            why = "what an owner sees of its rows is not kept" if option in kept else "it is of the view from outside"
            raise SettingError(f"{option}: expected no --inside beside it: {why}")
    terms = load_terms(terms_file)
    if (own := task_of(terms).command("forecast")) is not None:
        for option, given in {**kept, "--inside": inside}.items():
            if given is not None:
                raise SettingError(f"{option}: expected none for {terms.task}, whose figures --json has")
        own(terms, pilot, as_json)
        return
    if (inside is None) != (owner is None):
        raise SettingError("--inside TABLE, --owner NAME: expected both or neither")
    if worth is not None and inside is None:
        raise SettingError("--worth: expected --inside beside it")
    known = Assumed(pilot, moments, assume, differences)
    if inside is not None and owner is not None:
        view = look_inside(terms_file, inside, owner, Terminal(), known, seed=seed, worth=worth)
        if as_json:
            print_json(view.to_json(), inside=True)
        else:
            show_inside(view)
        return
    found = forecast_terms(
        terms_file,
        Terminal(),
        known,
        speeds=speeds,
        seed=seed,
        planned=plan,
        delta=delta,
        write=write,
        plot=plot,
        report=report,
        track=track,
    )
    if as_json:
        print_json(found.to_json(), inside=False)
    else:
        show(found, details)
    found.require_choice()  # where a plan has none the job was not done


def show_inside(report: "InsideReport") -> None:
    """An owner's own view, for its own eyes."""
    from parley.learning.outcome.guarantee import INSIDE
    from parley.report.words import outlook as said

    first, *others = said.inside_sentences(report.view)
    console.print(first, style="bold", soft_wrap=True)
    console.print()
    console.print(terminal_table(said.inside_rows(report.view)))
    for sentence in others:
        console.print(f"\n{sentence}", soft_wrap=True)
    console.print(INSIDE, style="dim")


def show(report: "ForecastReport", details: bool) -> None:
    """What a forecast comes to: the verdict, what joining saves each owner, and what would change it."""
    from parley.decisions.knowledge.coding import coding_warning
    from parley.report.words import outlook as said
    from parley.report.words.forecast import baseline_line, verdict_lines
    from parley.report.words.noise import plan_beside

    result, (first, *others) = report.result, report.verdict
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
    if (hint := said.inside_hint(result.outlook)) is not None:
        console.print(f"\n{hint}", markup=False, soft_wrap=True)
    console.print("More: --details", style="dim")
    if details:
        show_details(report)
    if report.proposal is not None:
        show_plan(report.proposal)
        for sentence in plan_beside(report.content["plan"]):
            console.print(sentence)


def show_details(report: "ForecastReport") -> None:
    """What a forecast rests on, and what each kind of noise would give."""
    from parley.decisions.planning.noise_terms import kind_of
    from parley.report.words import forecast as said
    from parley.report.words import noise as kinds

    result, noise, kind = report.result, report.content["noise"], kind_of(report.result.terms)
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
    console.print()
    console.print(terminal_table(kinds.kind_rows(noise), kinds.TITLE))
    console.print(f"\n{kinds.decision(noise, kind)}", markup=False)
    if kind == "two_hosts":
        console.print(kinds.two_hosts(len(result.terms.owners)))
