"""`parley heterogeneity`: how much owners differ, from one noisy, debited answer of each."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from parley.durable import write_file
from parley.numerals import percent
from parley.report import run_options as asking
from parley.report.run_options import RunOptions
from parley.report.terminal import console, print_json, progress_bar
from parley.terms import load_terms, write_terms

if TYPE_CHECKING:
    from parley.tasks.statistics.heterogeneity.run import HeterogeneityResult


MAX_CLIPPED_SHARE = 0.05  # of the public rows: a clip that scales down more of them hides some of what differs


def heterogeneity_command(
    terms_file: Annotated[
        Path, typer.Argument(metavar="TERMS", help="Terms with privacy.difference_epsilon and a public sample.")
    ],
    save: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help="Write the result for parley forecast READY --heterogeneity JSON."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option(metavar="READY", help="Write the terms to learn by, with the rest of the budgets.")
    ] = None,
    agreement: asking.Agreement = None,
    ledgers: asking.Ledgers = None,
    lifetime: asking.Lifetime = None,
    lifetime_delta: asking.LifetimeDelta = None,
    other_books: asking.OtherBooks = None,
    owners: asking.Addresses = None,
    resume: asking.Resume = False,
    deadline: asking.Deadline = 60.0,
    seed: asking.Seed = None,
    as_json: asking.AsJson = False,
) -> None:
    """Ask the owners how much they differ from each other, for a better forecast. Each answer is noisy and is debited
    in the ledger of the owner that gave it.

    It costs each owner privacy.difference_epsilon of its epsilon: one mean of clipped gradients at the public sample's
    best fit. What these scatter beyond chance and noise is how much owners differ. READY has the rest of the budgets.

    Example:  parley heterogeneity terms.toml --ledgers books --lifetime 3 --lifetime-delta 1e-5 --save apart.json
    --write ready.toml
    """
    from parley.learning.owners import open_owners
    from parley.tasks.statistics.heterogeneity.run import (
        accepting_heterogeneity,
        ask_heterogeneity,
        heterogeneity_agreement,
        heterogeneity_result,
        prepare_heterogeneity,
    )

    terms = load_terms(terms_file)
    agreed_terms = heterogeneity_agreement(terms)
    if asking.only_agreement(agreed_terms, agreement):
        return
    options = RunOptions(ledgers, lifetime, lifetime_delta, owners, resume, deadline, seed, other_books=other_books)
    asking.require_one_way(options)
    if owners is not None:
        kept = terms_file.with_suffix(".differences.checkpoint")
        answers = asking.ask_owners_elsewhere(lambda: prepare_heterogeneity(agreed_terms, kept), agreed_terms, options)
        result, unheard = heterogeneity_result(terms, answers), list(answers.missing_owners)
    else:
        parties = (
            open_owners(agreed_terms)
            if ledgers is None
            else accepting_heterogeneity(
                terms,
                ledgers,
                lifetime,
                lifetime_delta,
                lambda: asking.announce_release(terms, ledgers, lifetime, lifetime_delta),
                other_books,
            )
        )
        with progress_bar("asking") as progress:
            result, unheard = ask_heterogeneity(terms, parties, seed, progress), []
    content = result.to_json() | {"unheard": unheard, "inside": not result.released}
    if save is not None:
        write_file(save, json.dumps(content, indent=2) + "\n")
    if write is not None:
        write_terms(result.ready, write, release_note(result))
    if as_json:
        print_json(content, inside=not result.released)
    else:
        show(result, save, write)


def show(result: "HeterogeneityResult", save: Path | None, write: Path | None) -> None:
    """Print how much owners differ, in sentences."""
    console.print(asking.cost_sentence(result.asked, result.released), style="italic")
    console.print(f"\n{result.between.sentence()}", style="bold", soft_wrap=True)
    note = clip_note(result)
    if note is not None:
        console.print(note, style="yellow", soft_wrap=True)
    console.print(asking.left_sentence(result.ready), style="dim", soft_wrap=True)
    if write is not None:
        kept = "" if save is None else f" --heterogeneity {save}"
        console.print(f"{write} contains the terms for training. Next: parley forecast {write}{kept}", soft_wrap=True)


def clip_note(result: "HeterogeneityResult") -> str | None:
    """Warn if the clip may hide heterogeneity, judged by the public sample."""
    if not result.clipped > MAX_CLIPPED_SHARE:
        return None
    return (
        f"The clip scales down {percent(result.clipped)} of the public rows' gradients: owners may differ more than "
        "the clipped answers show."
    )


def release_note(result: "HeterogeneityResult") -> tuple[str, ...]:
    """Return comment lines for the terms that follow."""
    kind = (
        "released by the owners with noise, debited in their ledgers"
        if result.released
        else "SIMULATED, with seeded noise"
    )
    return (
        f"How much owners differ was {kind}, under the terms {result.asked.hash[:16]}...:",
        result.between.sentence(),
        f"The answer cost epsilon = {result.asked.owners[0].epsilon:g} and delta = {result.asked.privacy.delta:g} of "
        "every owner.",
        "The budgets below are the remaining budgets.",
    )
