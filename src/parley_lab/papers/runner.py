"""What the commands of all documents do: choose what to show, compute it, draw and save it, print tables or one JSON
object."""

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.durable import require_folder
from parley.errors import SettingError
from parley.report.terminal import console, errors_console, print_json, progress_bar, terminal_table
from parley_lab.papers.document import Asked, Document, Exhibit, Parts, Shown
from parley_lab.papers.options import data_folder
from parley_lab.papers.records import Record, commit_of_source, today, write_records

MakeBench = Callable[
    [Asked], Any
]  # what all exhibits of a document share: data, settings, runs that several of them need
PICTURE_FORMATS = ("png", "svg", "pdf")
WordsByOption = Mapping[str, Sequence[str] | None]  # words by option


def show(
    document: Document,
    bench: MakeBench,
    wanted: WordsByOption,
    usual: Sequence[Exhibit] | None = None,
    given: Mapping[str, object] | None = None,
    data: Path | None = None,
    out: Path | None = None,
    plot: Path | None = None,
    as_json: bool = False,
    listing: bool = False,
    kind: str = "png",
    record: bool = False,
) -> None:
    """Show what is `wanted`; where nothing is, what is `usual`, else everything.

    `given`: options that belong to some exhibits only. `out`: a folder for pictures of one `kind` and tables; `plot`: a
    file for the only picture. `record`: keep what came out for the listing.
    """
    if listing:
        _list(document, as_json)
        return
    chosen = choose(document, wanted, usual)
    document.require_options(chosen, given or {})
    _require_place(document, chosen, out, plot, kind)
    commit = commit_of_source() if record else ""
    output, found, begun = _Told(document, out, plot, as_json, kind), dict[str, Shown](), time.monotonic()
    for exhibit, shown in computed(document, chosen, bench, data):
        output.tell(exhibit, shown)
        found[exhibit.name] = shown
    output.end()
    if record:
        _record(document, found, commit, time.monotonic() - begun)


def _record(document: Document, found: Mapping[str, Shown], commit: str, seconds: float) -> None:
    """Keep the comparisons of whatever was shown; synthetic data are refused."""
    if not all(shown.real for shown in found.values()):
        raise SettingError("--record: these data are synthetic; set PARLEY_DATA to the folder of the real ones")
    command = _command(sys.argv[1:])
    records = [
        Record(item, today(), commit, command, round(seconds, 1), tuple(comparisons))
        for item, comparisons in document.compared(found).items()
    ]
    if not records:
        raise SettingError("--record: none of these figures is compared with printed numbers")
    path = write_records(document.name, records, [each.number for each in document.printed])
    outcomes = "; ".join(f"{each.item}: {each.outcome}" for each in records)
    errors_console.print(f"{path.name}: {outcomes}", soft_wrap=True, markup=False, highlight=False)


def _command(words: Sequence[str]) -> str:
    """What was typed, without --record and without folders of this machine.

    >>> _command(["reproduce", "wu2019", "--figure", "2", "--out", "/home/me/w", "--record", "--runs", "20"])
    'parley reproduce wu2019 --figure 2 --runs 20'
    """
    kept, remaining = ["parley"], iter(words)
    for word in remaining:
        if word in ("--out", "--data", "--plot"):
            next(remaining, None)
        elif word != "--record" and not word.startswith(("--out=", "--data=", "--plot=")):
            kept.append(word)
    return shlex.join(kept)


def choose(document: Document, wanted: WordsByOption, usual: Sequence[Exhibit] | None = None) -> list[Exhibit]:
    """What was named, each once; where nothing was, what is usual."""
    found = [document.find(option, word) for option, words in wanted.items() for word in words or ()]
    return list(dict.fromkeys(found)) or list(document.exhibits if usual is None else usual)


def computed(
    document: Document, chosen: Sequence[Exhibit], bench: MakeBench, data: Path | None = None
) -> Iterator[tuple[Exhibit, Shown]]:
    """Each exhibit with what came out of it, as it comes."""
    with tempfile.TemporaryDirectory() as scratch:
        with progress_bar(document.name) as progress:
            ready = bench(Asked(tuple(each.name for each in chosen), data_folder(data), Path(scratch), progress))
        for exhibit in chosen:
            with progress_bar(exhibit.name) as progress:
                shown = document.load(exhibit.compute)(ready, exhibit.word, progress)
            yield exhibit, shown


def _require_place(
    document: Document, chosen: Sequence[Exhibit], out: Path | None, plot: Path | None, kind: str
) -> None:
    """Find out before hours of work that there is nothing to write, or nowhere to write it to."""
    if plot is not None:
        from parley.report.figures.picture import require_figure_name  # a library that is slow to load

        require_folder(plot)
        require_figure_name(plot)
    if kind not in PICTURE_FORMATS:
        raise SettingError(f"--format {kind}: expected one of {', '.join(PICTURE_FORMATS)}")
    if out is not None:
        if not document.findings and not any(exhibit.draw for exhibit in chosen):
            drawn = ", ".join(exhibit.name for exhibit in document.exhibits if exhibit.draw)
            raise SettingError(f"--out: expected something that can be drawn: {drawn}")
        out.mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, eq=False)
class _Told:
    """What was shown so far: printed as it comes, or kept for one JSON object."""

    document: Document
    out: Path | None
    plot: Path | None
    as_json: bool
    kind: str
    content: dict[str, Any] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    titles: set[str] = field(default_factory=set)
    findings: dict[str, Sequence[str]] = field(default_factory=dict)

    def tell(self, exhibit: Exhibit, shown: Shown) -> None:
        """One exhibit: its files, its fields, its words."""
        merge(self.content, shown.content)
        for row in shown.findings:  # what several exhibits find stands where the last of them does
            self.findings.pop(row[0], None)
            self.findings[row[0]] = row
        place = self.plot or (self.out and self.out / f"{self.document.prefix}{exhibit.name}.{self.kind}")
        if exhibit.draw is not None and place is not None:
            self._draw(exhibit.draw, shown, place)
        if self.out is not None:
            for name, table in shown.files.items():
                table.to_csv(self.out / f"{name}.csv", index=False)
        if not self.as_json:
            for note in shown.notes:
                if note not in self.notes:
                    console.print(note, style="dim", soft_wrap=True, markup=False)
            self._print(shown.parts)
        self.notes.update(dict.fromkeys(shown.notes))

    def _draw(self, draw: str, shown: Shown, place: Path) -> None:
        from parley.report.figures.picture import save  # a library that is slow to load

        save(self.document.load(draw)(*shown.drawn), place)
        if self.document.prefix:
            self.content["picture"] = str(place)

    def _print(self, parts: Parts) -> None:
        for part in parts:
            if isinstance(part, str):
                console.print(part, style="dim", markup=False)
            elif part.title not in self.titles:
                self.titles.add(part.title)
                console.print(terminal_table(part.rows, part.title))
        if parts:
            console.print()

    def end(self) -> None:
        """What the document's exhibits come to together, and where files lie."""
        title, columns = self.document.findings or ("", ())
        if self.as_json:
            if self.document.findings:
                found = [dict(zip(("what", *columns), row, strict=True)) for row in self.findings.values()]
                self.content.update(findings=found, notes=list(self.notes), folder=str(self.out))
            if self.document.adjacency is not None:
                self.content["adjacency"] = self.document.adjacency
            print_json(self.content, inside=False)
            return
        if self.findings:
            console.print(terminal_table([["", *columns], *self.findings.values()], title))
            console.print()
        if self.out is not None:
            console.print(f"Figures and tables: {self.out}", soft_wrap=True, markup=False)


def merge(content: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add an exhibit's fields: lists are joined, objects get its entries, anything else is taken as it comes.

    >>> content = {"figures": [1], "tables": {"a": 1}, "runs": 3}
    >>> merge(content, {"figures": [2], "tables": {"b": 2}, "runs": 3})
    >>> content
    {'figures': [1, 2], 'tables': {'a': 1, 'b': 2}, 'runs': 3}
    """
    for name, value in more.items():
        known = content.get(name)
        if isinstance(known, list):
            content[name] = [*known, *value]
        else:
            content[name] = {**known, **value} if isinstance(known, dict) else value


def _list(document: Document, as_json: bool) -> None:
    """What there is, how to ask for it, and what it takes."""
    if as_json:
        facts = ("option", "word", "line", "options", "data")
        print_json(
            {"exhibits": [{name: getattr(exhibit, name) for name in facts} for exhibit in document.exhibits]},
            inside=False,
        )
        return
    for exhibit in document.exhibits:
        option_words = f"--{exhibit.option} {exhibit.word}" if exhibit.option else exhibit.word
        takes = [f"takes {', '.join(f'--{option}' for option in exhibit.options)}"] if exhibit.options else []
        reads = [f"reads {exhibit.data}"] if exhibit.data else []
        console.print("; ".join([f"{option_words:<22}  {exhibit.line}", *takes, *reads]), soft_wrap=True, markup=False)
