"""`parley certs`: a small certificate authority for a consortium."""

from pathlib import Path
from typing import Annotated, Any

import typer

from parley.durable import make_folder
from parley.numerals import counted
from parley.report.extras import extras
from parley.report.terminal import console
from parley.validate import whole

certs_app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="""Make certificates that identify organisations
to each other.

    One member runs the certificate authority, with the commands init, issue, renew and revoke. Every member makes a
    key, keeps the key secret, and sends a certificate request to the authority. Before the authority signs the
    request, the member and the authority compare the key's fingerprint over the phone.""",
)

Days = Annotated[int, typer.Option(help="Number of days for which the certificate is valid.")]
Authority = Annotated[
    Path, typer.Option(metavar="DIR", help="The authority's folder, which contains ca.crt and ca.key.")
]


@certs_app.command("init")
def init_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the authority's files.")],
    title: Annotated[str, typer.Option(help="Name of the consortium.")] = "Parley consortium",
    days: Days = 3650,
) -> None:
    """Make a new certificate authority. Give ca.crt and ca.crl to every member of the consortium. Keep ca.key offline.

    Example:  parley certs init authority --title "Loan consortium"
    """
    with extras():
        from parley.network.identity import certificate_authority
    make_folder(folder)
    made = certificate_authority.make_authority(folder, title, whole(days, "--days"))
    _show(folder / "ca.crt", made)
    console.print(f"{folder / 'ca.crl'}  the revocation list, empty for now", soft_wrap=True)
    console.print(
        "Give ca.crt and ca.crl to every member of the consortium. Keep ca.key offline, because anyone who has ca.key "
        "can certify any name.",
        soft_wrap=True,
    )


@certs_app.command("request")
def request_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The member's name, spelled as in the terms.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for NAME.key and NAME.csr.")] = Path(),
) -> None:
    """Make a member's private key and certificate request. Send the request, NAME.csr, to the authority. The private
    key, NAME.key, must stay on this machine.

    Example:  parley certs request bank-a
    """
    with extras():
        from parley.network.identity import certificate_authority, certificates
    make_folder(out)
    request = certificate_authority.make_request(out, name)
    console.print(f"{out / name}.key  the key, readable only by you")
    console.print(f"{out / name}.csr  the request, for the authority")
    console.print(f"fingerprint  {certificates.grouped(certificates.fingerprint(request))}", soft_wrap=True)
    console.print("Read the fingerprint to the authority over the phone.")


@certs_app.command("issue")
def issue_command(
    request: Annotated[Path, typer.Argument(metavar="REQUEST", help="A member's certificate request, NAME.csr.")],
    authority: Authority,
    days: Days = 365,
) -> None:
    """Sign a member's certificate request. First run parley certs show REQUEST, and compare the fingerprint with the
    member's fingerprint over the phone.

    Example:  parley certs issue bank-a.csr --authority authority
    """
    with extras():
        from parley.network.identity import certificate_authority
    path, issued = certificate_authority.issue(authority, request, whole(days, "--days"))
    _show(path, issued)


@certs_app.command("renew")
def renew_command(
    certificate: Annotated[
        Path, typer.Argument(metavar="CERTIFICATE", help="A certificate that this authority issued.")
    ],
    authority: Authority,
    days: Days = 365,
) -> None:
    """Extend a certificate. The certificate's name, key and fingerprint do not change.

    Example:  parley certs renew authority/bank-a.crt --authority authority
    """
    with extras():
        from parley.network.identity import certificate_authority
    _show(certificate, certificate_authority.renew(authority, certificate, whole(days, "--days")))


@certs_app.command("revoke")
def revoke_command(
    authority: Authority,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Member to revoke. Without NAME, the command only renews the revocation list."
        ),
    ] = None,
    days: Annotated[int, typer.Option(help="Number of days until members need a new revocation list.")] = 365,
) -> None:
    """Revoke all certificates of a member that lost its key or left the consortium. Each member keeps the revocation
    list, ca.crl, next to ca.crt.

    Example:  parley certs revoke bank-a --authority authority
    """
    with extras():
        from parley.network.identity import certificate_authority
    listed = certificate_authority.revoke(authority, name, whole(days, "--days"))
    console.print(f"{authority / 'ca.crl'}  revoked certificates: {len(listed)}", soft_wrap=True)
    until = (
        f"valid until  {listed.next_update_utc:%Y-%m-%d}; renew the revocation list before that date: parley certs "
        f"revoke --authority {authority}"
    )
    console.print(until, markup=False, soft_wrap=True)
    console.print(
        "Give ca.crl to every member. Each member replaces the previous revocation list, whose path is in the key "
        "'revoked' under [identity] of the member's settings.",
        markup=False,
        soft_wrap=True,
    )


@certs_app.command("show")
def show_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A certificate or a certificate request.")],
) -> None:
    """Show the name and fingerprint of a certificate or certificate request, and the expiry date of a certificate."""
    with extras():
        from parley.network.identity import certificate_authority, certificates
    if b"CERTIFICATE REQUEST" not in file.read_bytes():
        _show(file, certificates.read_certificate(file))
        return
    request = certificate_authority.read_request(file)
    console.print(f"{file}  a request for {certificate_authority.requested_name(request)}", soft_wrap=True)
    console.print(f"fingerprint  {certificates.grouped(certificates.fingerprint(request))}", soft_wrap=True)


def _show(path: Path, certificate: Any) -> None:
    from parley.network.identity import certificates

    console.print(f"{path}  for {', '.join(certificates.names(certificate)) or 'the authority itself'}", soft_wrap=True)
    console.print(f"fingerprint  {certificates.grouped(certificates.fingerprint(certificate))}", soft_wrap=True)
    left = counted(certificates.days_left(certificate), "day")
    console.print(f"valid until  {certificate.not_valid_after_utc:%Y-%m-%d}, {left} from now")
    warning = certificates.expiry_warning(path)
    if warning is not None:
        console.print(warning, style="yellow", soft_wrap=True)
