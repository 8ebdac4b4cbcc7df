"""`parley plan`: the terms that spend the same budgets best; `parley pin`: preprocessing constants, fixed for all."""

from pathlib import Path
from typing import Annotated

import typer

from parley.cli.assumptions import Differences
from parley.report.terminal import Terminal, show


def plan_command(
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
        Path | None,
        typer.Option(metavar="TOML", help="Assumptions to use instead of a public sample, as for `parley forecast`."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            "--delta", metavar="DELTA", help="Also consider Gaussian noise with this delta. Default: the terms' delta."
        ),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="TERMS2", help="Write terms with the best plan, ready for parley train.")
    ] = None,
    differences: Differences = None,
    seed: Annotated[int, typer.Option(help="Seed of the pilot runs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Choose the algorithm, rounds, step, clip and noise that are expected to give the best model for the terms'
    budgets. The command does not read private records.

    The planner uses public rows to test the choices that the terms leave open, with noise that fits the owners'
    budgets. The planner prints the expected relative fitness of each choice. The planner changes neither any owner's
    epsilon nor the parties that draw the noise.

    Example:  parley plan terms.toml --delta 1e-6 --write planned.toml
    """
    from parley.workflows.assumptions import Assumed
    from parley.workflows.plan import plan_terms

    known = Assumed(pilot, moments, assume, differences)
    show(plan_terms(terms_file, Terminal(), known, delta=delta, write=write, seed=seed), as_json)


def pin_command(
    terms_file: Annotated[Path, typer.Argument(metavar="TERMS", help="A terms file that no party has accepted yet.")],
    write: Annotated[
        Path,
        typer.Option(metavar="TERMS2", help="File for the new terms, beside which Parley writes the public numbers."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Freeze the preprocessing constants in a file next to the new terms, so that all machines use the same constants.

    Parley computes bounds, centres, scales, principal components, whitening and the points of a basis from the terms
    and the public sample. If a sample has equal variance in several directions, machines may compute different
    constants. The new terms have a different hash, so every owner must accept the new terms. The command contacts no
    owner and spends no budget.

    Example:  parley pin terms.toml --write pinned.toml
    """
    from parley.workflows.plan import pin_terms

    show(pin_terms(terms_file, write), as_json)
