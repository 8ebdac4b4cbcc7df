"""Every figure and table of all source documents: what it shows, whether it comes out here, and what to type for it."""

from collections import Counter
from collections.abc import Sequence

from parley.report.terminal import console, print_json
from parley_lab.papers.document import Document
from parley_lab.papers.printed import Outcome, Printed


def show_printed(documents: Sequence[Document], as_json: bool) -> None:
    """Print them, document by document, and how many there are of each outcome; or one JSON object."""
    if as_json:
        print_json(
            {"printed": [_facts(document, each) for document in documents for each in document.printed]}, inside=False
        )
        return
    for document in documents:
        console.print(f"{document.name}: {document.title}", style="bold", soft_wrap=True, markup=False)
        for each in document.printed:
            _print(document, each)
        console.print()
    counts = Counter(each.outcome for document in documents for each in document.printed)
    console.print("; ".join(f"{outcome}: {counts[outcome]}" for outcome in Outcome), soft_wrap=True, markup=False)


def _facts(document: Document, printed: Printed) -> dict[str, str | bool | None]:
    return {
        "document": document.name,
        "number": printed.number,
        "title": document.title_of(printed),
        "outcome": printed.outcome,
        "why": printed.why,
        "command": document.command_of(printed),
        "quick": printed.quick,
    }


def _print(document: Document, printed: Printed) -> None:
    why = f" ({printed.why})" if printed.why else ""
    said = f"{printed.number:<14}{document.title_of(printed)}: {printed.outcome}{why}"
    console.print(said, soft_wrap=True, markup=False, highlight=False)
    command = document.command_of(printed)
    if command is not None:
        console.print(f"{'':<14}{command}", style="dim", soft_wrap=True, markup=False, highlight=False)
