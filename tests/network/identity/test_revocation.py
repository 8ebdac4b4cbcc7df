"""The list that a running daemon follows."""

import pytest

from parley.errors import CertificateError
from parley.network.identity import certificate_authority, certificates
from parley.network.identity.certificates import Revocations
from parley.network.identity.settings import Identity


@pytest.fixture
def folder(tmp_path):
    certificate_authority.make_authority(tmp_path, "Test", 3650)
    for name in ("a", "b"):
        certificate_authority.make_request(tmp_path, name)
        certificate_authority.issue(tmp_path, tmp_path / f"{name}.csr", 365)
    return tmp_path


def follow(folder):
    warnings = []
    identity = Identity(
        authority=folder / "ca.crt", certificate=folder / "a.crt", key=folder / "a.key", revoked=folder / "ca.crl"
    )
    return Revocations(identity, warnings.append), warnings


def put(folder, content):
    """In the place of the file, as a new one: its version changes even within one tick of the clock."""
    (folder / "fresh").write_bytes(content)
    (folder / "fresh").replace(folder / "ca.crl")


def test_an_older_list_takes_nothing_back_and_a_later_one_does(folder):
    thief = certificates.read_certificate(folder / "b.crt")
    revocations, warnings = follow(folder)
    lists = [(folder / "ca.crl").read_bytes()]
    assert not revocations.revokes(thief)
    certificate_authority.revoke(folder, "b", 30)
    lists.append((folder / "ca.crl").read_bytes())
    assert revocations.revokes(thief)
    for wrong, sentence in (
        (lists[0], "not newer than the list in force"),
        (lists[0] + lists[1], "more than one PEM block"),
    ):
        put(folder, wrong)
        assert revocations.revokes(thief)
        assert revocations.revokes(thief)
        assert sentence in warnings.pop()
        assert not warnings
    (folder / "ca.crl").unlink()
    # an authority that lost its list: the first number again, and then the second
    certificate_authority.revoke(folder, None, 30)
    certificate_authority.revoke(folder, None, 30)
    assert certificates.list_number(certificates.read_revocations(folder / "ca.crl", revocations._authority)) == 2
    assert revocations.revokes(thief)
    assert "not newer than the list in force" in warnings.pop()
    put(folder, lists[1])  # the same once more is no news
    assert revocations.revokes(thief)
    certificate_authority.revoke(folder, "a", 30)
    assert revocations.revokes(thief)
    assert not warnings


def test_a_list_that_the_settings_name_has_to_be_there(folder):
    (folder / "ca.crl").unlink()
    with pytest.raises(CertificateError, match=r"ca.crl: no such file; expected the authority's revocation list"):
        follow(folder)
