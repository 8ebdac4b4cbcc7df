"""`parley forecast`: what training under terms would give, before any data moves."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.assumptions import Differences, Speeds, Track
from parley.errors import SettingError
from parley.report.terminal import Terminal, show


def forecast_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="The terms file, in which owners' `data` may be missing.")
    ],
    pilot: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Public sample. Default: the sample under `public` in the terms."),
    ] = None,
    moments: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help="Owners' released second moments, to use instead of a public sample."),
    ] = None,
    assume: Annotated[
        Path | None, typer.Option(metavar="TOML", help="Assumptions to use instead of a public sample.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Also print the result of `parley plan`.")] = False,
    delta: Annotated[
        float | None,
        typer.Option("--delta", metavar="DELTA", help="With --plan: also consider Gaussian noise with this delta."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(metavar="TERMS2", help="With --plan: write terms with the best plan, ready for parley train."),
    ] = None,
    inside: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE", help="Forecast with this private table; nothing leaves this machine. Needs --owner."
        ),
    ] = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="With --inside: the table's owner.")] = None,
    differences: Differences = None,
    worth: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="With --inside: smallest relative saving that justifies joining. Default: 0.005."
        ),
    ] = None,
    speeds: Speeds = None,
    seed: Annotated[int, typer.Option(help="Seed of the pilot's resampling and runs.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the expected relative fitness by round.")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Also print the forecast's assumptions.")] = False,
    track: Track = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page about the forecast (.html), with its figures.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Forecast the joint model's worth to each owner from public knowledge, such as the terms and a public sample.
    Without --inside, the command does not read private records.

    The verdict is 'join' if joining is worthwhile in at least 90% of the forecast's random draws. The verdict is 'stay'
    if joining is worthwhile in at most 10% of the forecast's random draws, and 'unsure' otherwise. If the verdict is
    not 'join', the command looks for other terms under which joining is worthwhile.

    Example:  parley forecast parley-demo/terms.toml --plan --write better.toml
    """
    from parley.workflows.assumptions import Assumed
    from parley.workflows.forecast import forecast_terms, look_inside

    known = Assumed(pilot, moments, assume, differences)
    if (inside is None) != (owner is None):
        raise SettingError("--inside TABLE, --owner NAME: only one of the two options is given; give both or neither")
    if inside is None or owner is None:
        if worth is not None:
            raise SettingError("--worth: allowed only with --inside; add --inside and --owner, or remove --worth")
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
            details=details,
        )
        show(found, as_json)
        return
    kept = {"--track": track, "--report": report, "--plot": plot}
    for option, given in {**kept, "--plan": plan, "--details": details, "--speeds": speeds}.items():
        if given:
            why = (
                "Parley never saves a forecast from private rows"
                if option in kept
                else "only public forecasts use this option"
            )
            raise SettingError(f"{option}: not allowed with --inside, because {why}; remove {option}")
    show(look_inside(terms_file, inside, owner, Terminal(), known, seed=seed, worth=worth), as_json)
