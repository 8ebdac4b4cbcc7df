import pytest
from typer.testing import CliRunner

from parley.cli.app import app
from parley.errors import SettingError
from parley.network.identity.settings import load_addresses, load_owner


@pytest.fixture
def settings(tmp_path):
    """As `owner init` writes them, without a certificate in the folder."""
    (tmp_path / "t.csv").write_text("y\n1\n")
    made = ["owner", "init", str(tmp_path / "a"), "--name", "a", "--table", str(tmp_path / "t.csv"), "--lifetime", "1"]
    assert CliRunner().invoke(app, made).exit_code == 0
    return tmp_path / "a" / "owner.toml"


@pytest.mark.parametrize(
    "listen", ["localhost", "0.0.0.0", "7443", ":7443", "localhost:", "a b:1", "::1:7443", "localhost:port", ""]
)
def test_an_address_says_host_and_port(settings, listen):
    settings.write_text(settings.read_text().replace("0.0.0.0:7443", listen))
    with pytest.raises(SettingError, match=r"owner.toml: listen: expected host:port, such as"):
        load_owner(settings)
    addresses = settings.with_name("addresses.toml")
    pinned = f'a = {{ address = "{listen}", fingerprint = "{"0" * 64}" }}'
    addresses.write_text(f"[owners]\n{pinned}\n")
    with pytest.raises(SettingError, match=r"owners.a.pinned.address: expected host:port"):
        load_addresses(addresses)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "localhost:7443", "[::]:7443"])
def test_addresses_of_all_kinds_are_read(settings, listen):
    settings.write_text(settings.read_text().replace("0.0.0.0:7443", listen))
    assert load_owner(settings).listen == listen


def test_new_settings_name_the_list_and_who_stays_off_the_network_needs_no_certificates(settings):
    assert load_owner(settings).identity.revoked == settings.parent / "ca.crl"
    settings.write_text(settings.read_text().replace("listen =", "# listen ="))
    assert load_owner(settings).identity is None
    served = CliRunner().invoke(app, ["owner", "serve", str(settings)])
    assert "expected `listen`, `socket` or both" in str(served.exception)


def test_only_the_steps_to_a_certificate_that_remain_are_told(tmp_path):
    """Whoever follows the tutorial has made the key before the ledger."""
    for held, told, untold in (
        ((), ("Next, run parley certs request a", "Then send", "ca.crt, ca.crl, a.crt."), ()),
        (("a.key", "ca.crt"), ("Send", "from the authority into", "ca.crl, a.crt."), ("certs request", "Then")),
        (("a.key", "ca.crt", "ca.crl", "a.crt"), (), ("certs request", "the certificate authority")),
    ):
        home = tmp_path / str(len(held))
        home.mkdir()
        (home / "t.csv").write_text("x,y\n1,2\n")
        for file in held:
            (home / file).touch()
        made = ["owner", "init", str(home), "--name", "a", "--table", str(home / "t.csv"), "--lifetime", "1"]
        done = CliRunner().invoke(app, made)
        assert done.exit_code == 0, done.output
        assert all(words in done.stdout for words in told), done.output
        assert not any(words in done.stdout for words in untold), done.output
