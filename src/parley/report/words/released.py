"""What a release on this machine left behind, and what to type next."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from parley.decisions.outlook.worth import Worth
from parley.errors import ParleyError
from parley.learning.outcome import Result
from parley.numerals import number
from parley.owner.ledger import Ledger
from parley.owner.owner import Owner
from parley.report.words.outlook import verdict_sentence

FEW = 6  # owners whose accounts are printed
REPEATED = "Nothing new was spent: all answers were stored ones"


def foreseen_words(found: Worth) -> str:
    """What joining would mean for the owners, before a release."""
    return "" if found.outlook is None or len(found.outlook.names) < 2 else verdict_sentence(found.outlook)


def unforeseen(error: ParleyError) -> str:
    """That nothing can be forecast of a release, and why."""
    return f"Not forecast, so whether anybody gains by it is not known: {error}."


def release_lines(
    result: Result,
    owners: Sequence[Owner],
    terms: Path,
    books: Path,
    files: Sequence[Path],
    model: Path | None,
    repeated: bool = False,
) -> list[str]:
    """That it is done, which files were written, what was spent and what is left, and the next command; `repeated`: all
    answers were stored ones."""
    ledgers = [] if repeated else [books / f"{owner.name}.ledger" for owner in owners]
    written = ", ".join(str(file) for file in (*files, *ledgers)) or "nothing"
    left = {owner.name: owner.ledger for owner in owners if isinstance(owner.ledger, Ledger)}
    spent = "; ".join(
        f"{outcome.name} ε = {number(outcome.epsilon_spent, side='above')}, left of its table's lifetime "
        f"{number(left[outcome.name].lifetime[0] - left[outcome.name].reserved[0], side='below')}"
        for outcome in result.owners[:FEW]
        if outcome.name in left
    )
    more = f"; and {len(owners) - FEW} owners more" if len(owners) > FEW else ""
    judged = shlex.join(["parley", "score", str(model), str(terms), "--owner", owners[0].name])
    done = "the same model again" if repeated else "the model is released"
    return [
        f"Done: {done}. How good it is, a release does not tell; each owner's own rows do.",
        f"Written: {written}",
        f"{f'{REPEATED}. Spent before' if repeated else 'Spent'}: {spent}{more}",
        "Nothing was saved: the same command with --save model.json writes the model, from stored answers, for free."
        if model is None
        else f"Next: {judged}",
    ]
