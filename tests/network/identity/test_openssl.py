"""The guide's way to certificates without `parley certs`: its OpenSSL commands, and a run with what they made."""

import shutil
import subprocess
from pathlib import Path

import pytest
from consortium import Consortium

from parley.errors import CertificateError
from parley.network.identity.certificates import check_identity

SCRIPT = Path(__file__).parents[3] / "deploy" / "openssl-ca.sh"
REVOKE = "openssl ca -config ca.cnf -cert ca.crt -keyfile ca.key"


@pytest.fixture
def bank(tmp_path):
    """A consortium whose certificates are OpenSSL's."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    consortium = Consortium(tmp_path, names="a")
    for file in [*tmp_path.glob("*.key"), *tmp_path.glob("*.c*r*")]:
        file.unlink()
    typed(f"sh '{SCRIPT}' a learner", tmp_path)
    yield consortium
    consortium.close()


def typed(line, folder):
    said = subprocess.run(["sh", "-e", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    return said.stdout


def listed(bank, name):
    return bank.identity(name).model_copy(update={"revoked": bank.folder / "ca.crl"})


def test_openssl_stands_in_for_parley_certs(bank, tmp_path):
    terms = bank.write_terms(horizon=2)
    bank.accept(terms)
    bank.start()
    for name in ("a", "learner"):
        check_identity(listed(bank, name), name)
    assert len(bank.learn()["theta"]) == 3
    with pytest.raises(CertificateError, match="the certificate is for learner, not for 'a'"):
        check_identity(bank.identity("learner"), "a")
    typed(f"{REVOKE} -revoke learner.crt && {REVOKE} -gencrl -out ca.crl", tmp_path)
    with pytest.raises(CertificateError, match="the authority revoked this certificate"):
        check_identity(listed(bank, "learner"), "learner")
