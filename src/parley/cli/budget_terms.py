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
    rows = [["owner", "ε", "δ", f"{percent(prior)} becomes at most", "except with", "bits known", "guess factor"]]
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
    console.print(
        "The table covers only releases under these terms. Other releases add to the total ε, up to the lifetime "
        "budget of each owner's ledger."
    )
    if len(found) > 1 and terms.privacy.shared_records == 1:
        console.print(
            "For a person in several owners' tables, the ε of these owners add up, unless the terms set shared_records."
        )
    console.print(caption(terms), style="dim")


def caption(terms: Terms) -> str:
    """Explain the table's columns, and for whom they hold."""
    copies, whole = terms.privacy.shared_records, terms.privacy.unit == OWNER_UNIT
    worst = (
        "Every bound holds for every owner's table, even if an adversary knows all other tables."
        if whole
        else "Every bound holds for every person, even if an adversary knows all other records."
    )
    protected = "an owner's table" if whole else "a person's records"
    shared = (
        ""
        if copies == 1
        else f" The same record may be in up to {copies} owners' tables. The columns after δ assume that the owner "
        "shares a record with the owners whose answers reveal most."
    )
    hosts = ""
    if terms.noise.hosts:
        from parley.owner.disclosure import hosts_condition  # libraries that are slow to load

        hosts = f" {hosts_condition(terms)}"
    return (
        f"{worst} 'Bits known' is the mutual information between {protected} "
        "and all releases under these terms, averaged over possible contents. 'Guess factor' is the factor by which a "
        "correct guess becomes more likely (min-entropy). The guess factor is known only if δ is 0. 'Except with' is "
        "the highest probability that the answers reveal more than the preceding column says."
        f"{shared}{hosts} Neighbouring tables: {Adjacency.from_unit(terms.privacy.unit)}."
    )


def _number_or_unknown(value: float | None) -> str:
    return "not known" if value is None else number(value, 3, "above")
