"""`parley budget explain --terms`: what terms promise of each owner's people, in chances and in bits."""

from pathlib import Path
from typing import Any

from parley.numerals import number, percent
from parley.privacy.adjacency import Adjacency
from parley.report.terminal import console, print_json, terminal_table
from parley.terms import Terms, load_terms
from parley.validate import printable


def explain_terms(file: Path, as_json: bool) -> None:
    """Print a row for every owner."""
    terms = load_terms(file)
    found = promises(terms)
    if as_json:
        print_json({"owners": found, "adjacency": Adjacency.REPLACE_ONE, "terms_hash": terms.hash}, inside=False)
        return
    rows = [["owner", "ε", "δ", "50% becomes at most", "bits known", "factor of a guess"]]
    rows += [
        [
            printable(each["owner"]),
            number(each["epsilon"], side="above"),
            number(each["delta"], side="above"),
            percent(each["posterior"]["high"], "above"),
            _said(each["mutual_information_bits"]),
            _said(each["guess_factor"]),
        ]
        for each in found
    ]
    console.print(terminal_table(rows, terms.title))
    console.print(
        "For the worst person and whoever knows everybody else's records. Bits known: mutual information of that "
        "person's records and all that leaves, on average over what they may be; a factor of a guess: by how much it "
        f"becomes likelier (min-entropy), known without a delta only. Neighbours: {Adjacency.REPLACE_ONE}.",
        style="dim",
    )


def promises(terms: Terms) -> list[dict[str, Any]]:
    """What the terms promise of each owner's people; no private record is looked at."""
    from parley.owner.record_leakage import record_leakage
    from parley.privacy.accounting.meaning import approximate_posterior, posterior_bounds
    from parley.protocol.setup import resolve

    setup, found = resolve(terms), []
    for owner in terms.owners:
        part, leakage = setup.part(owner.name), record_leakage(setup, owner.name)
        epsilon, delta, failure = float(part.epsilon), terms.privacy.delta, 0.0
        if delta > 0:
            low, high, failure = approximate_posterior(epsilon, delta, 0.5)
        else:
            low, high = posterior_bounds(epsilon, 0.5)
        found.append(
            {
                "owner": owner.name,
                "epsilon": epsilon,
                "delta": delta,
                "posterior": {"low": low, "high": high, "failure": failure},
                "mutual_information_bits": leakage.mutual_information,
                "min_entropy_bits": leakage.min_entropy,
                "guess_factor": leakage.guess_factor,
                "by": leakage.by,
            }
        )
    return found


def _said(value: float | None) -> str:
    return "not known" if value is None else number(value, 3, "above")
