"""`parley budget explain --terms`: the promise to each owner's people, in probabilities and bits."""

from pathlib import Path

from parley.numerals import number, percent
from parley.privacy.events import Adjacency
from parley.report.terminal import console, print_json, terminal_table
from parley.terms import Terms, load_terms
from parley.terms.sections import OWNER_UNIT
from parley.validate import printable


def explain_terms(file: Path, prior: float, as_json: bool) -> None:
    """Print one row per owner."""
    from parley.owner.disclosure import promises, protected_unit  # libraries that the help of commands need not load

    terms = load_terms(file)
    found, adjacency = promises(terms, prior), Adjacency.from_unit(terms.privacy.unit)
    protected = protected_unit(terms)
    if as_json:
        facts = {"prior": prior, "protected": protected, "adjacency": adjacency, "terms_hash": terms.hash}
        print_json({"owners": found, **facts}, inside=False)
        return
    rows = [["owner", "ε", "δ", f"{percent(prior)} becomes at most", "except with", "bits known", "factor of a guess"]]
    rows += [
        [
            printable(each["owner"]),
            number(each["epsilon"], side="above"),
            number(each["delta"], side="above"),
            percent(each["posterior"]["high"], "above"),
            number(each["posterior"]["failure"], 3, "above"),
            _number_or_unknown(each["mutual_information_bits"]),
            _number_or_unknown(each["guess_factor"]),
        ]
        for each in found
    ]
    console.print(terminal_table(rows, terms.title))
    console.print(f"Protected: {protected}.")
    console.print("This is for these terms alone. Other releases add to it, up to each ledger's lifetime budget.")
    if len(found) > 1 and terms.privacy.shared_records == 1:
        console.print("Someone in several of these tables has the sum of their ε, unless the terms set shared_records.")
    console.print(caption(terms), style="dim")


def caption(terms: Terms) -> str:
    """Explain the table's columns, and for whom they hold."""
    copies, whole = terms.privacy.shared_records, terms.privacy.unit == OWNER_UNIT
    worst = (
        "For the worst table of an owner and someone who knows all other tables. Bits known: mutual information of it"
        if whole
        else "For the worst person and someone who knows everybody else's records. Bits known: mutual information of "
        "that person's records"
    )
    shared = (
        ""
        if copies == 1
        else f" {copies} owners may hold the same record: ε is the owner's own; the other columns are about a record "
        f"shared with the owners whose answers reveal most."
    )
    return (
        f"{worst} with all that leaves under these terms, on average over its possible content. Factor of a guess: how "
        "much likelier it becomes (min-entropy), known only without a delta. Except with: with a delta, the highest "
        f"probability with which an answer reveals more than the column before it says.{shared} Neighbours: "
        f"{Adjacency.from_unit(terms.privacy.unit)}."
    )


def _number_or_unknown(value: float | None) -> str:
    return "not known" if value is None else number(value, 3, "above")
