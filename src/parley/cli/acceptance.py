"""What `parley owner` and `parley host` share: folder checks, and terms that a person reads and accepts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from parley.durable import exposed
from parley.report.terminal import console, errors_console, print_json, warn
from parley.terms.file import TermsWarning

TermsFile = Annotated[Path, typer.Argument(metavar="TERMS", help="The terms file to read and accept.")]
Certificate = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Learner's certificate: only the holder of the certificate's key may ask questions."
    ),
]
Peer = Annotated[
    bool, typer.Option("--peer", help="With gossip terms: answer questions only from this owner's own peer.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Accept without confirmation, because a person has read and approved the terms.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and the terms' summary on stderr.")
]


class Acceptable(Protocol):
    """Terms and a party's own facts, as a person reads them before accepting."""

    @property
    def summary(self) -> Sequence[str]: ...
    @property
    def warnings(self) -> Sequence[TermsWarning]: ...
    def accept(self) -> None: ...
    def to_json(self) -> Mapping[str, Any]: ...


def warn_if_exposed(folder: Path) -> None:
    """Warn if other accounts may look into the folder."""
    if exposed(folder):
        warn(f"{folder}: other accounts have access to this folder; run chmod 700 {folder}")


def show_certificates_next(folder: Path, name: str) -> None:
    """Print the next steps that remain: how to make the key, and where certificates go."""
    missing = [file for file in ("ca.crt", "ca.crl", f"{name}.crt") if not (folder / file).exists()]
    send = "Send"
    if not (folder / f"{name}.key").exists():
        send = "Then send"
        request = f"run parley certs request {name} --out {folder} to make {name}'s key, which stays in this folder"
        console.print(f"Next, {request}.", soft_wrap=True)
    if missing:
        console.print(
            f"{send} {folder / name}.csr to the certificate authority, and put these files from the authority into "
            f"{folder}: {', '.join(missing)}.",
            soft_wrap=True,
        )


def show_summary(offer: Acceptable, as_json: bool) -> None:
    """Print the acceptance summary and warnings; with JSON on stderr."""
    for sentence in offer.summary:
        (errors_console if as_json else console).print(sentence, markup=False, soft_wrap=True)
    for warning in offer.warnings:
        warn(warning.line)


def accept_or_exit(offer: Acceptable, terms_hash: str, agreed: bool, as_json: bool, inside: bool) -> None:
    """Accept if a person agreed; otherwise exit with code 1."""
    if agreed:
        offer.accept()
        (errors_console if as_json else console).print(f"Accepted: terms {terms_hash}", soft_wrap=True)
    else:
        errors_console.print("Nothing was accepted.")
    if as_json:
        print_json({**offer.to_json(), "accepted": agreed}, inside=inside)
    if not agreed:
        raise typer.Exit(1)
