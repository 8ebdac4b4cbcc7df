"""What lies in deploy/, checked with the tools of those who will use it where they are installed; and the guide's own
commands."""

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from parley.cli.app import PART_BY_COMMAND, app
from parley.network.identity.certificates import check_identity
from parley.network.identity.settings import load_owner
from parley.terms import load_terms

ROOT = Path(__file__).parents[2]
DEPLOY, DOCS = ROOT / "deploy", ROOT / "docs"
PAGES = [DOCS / "deployment.md", DOCS / "runbook.md", *sorted((DOCS / "roles").glob("*.md"))]
GUIDE = "".join(page.read_text() for page in PAGES)
UNITS, CONTAINER = (
    [DEPLOY / f"parley-{party}@.service" for party in ("owner", "host", "peer")],
    DEPLOY / "Containerfile",
)


def tool(name):
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return name


def said(*command, cwd=None):
    ran = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_alert_rules_fire_when_they_should_and_only_then(tmp_path):
    promtool = tool("promtool")
    for file in (
        DEPLOY / "prometheus-rules.yml",
        DEPLOY / "prometheus.yml",
        ROOT / "tests" / "deploy" / "rules_test.yml",
    ):
        shutil.copy(file, tmp_path)
    said(promtool, "check", "config", "prometheus.yml", cwd=tmp_path)
    said(promtool, "test", "rules", "rules_test.yml", cwd=tmp_path)


def test_every_metric_in_the_rules_and_in_the_guide_is_on_the_page():
    """By name, as the code writes them."""
    code = "".join(
        (ROOT / "src" / "parley" / file).read_text()
        for file in ("network/serving/metrics.py", "network/hosting/daemon.py")
    )
    used = set(re.findall(r"\bparley_[a-z_]+", (DEPLOY / "prometheus-rules.yml").read_text() + GUIDE)) - {"parley_"}
    parts = set(re.findall(r'"(?:parley_)?([a-z_]+)"', code))
    for name in used:
        stem = re.sub(r"_(total|info)$", "", name.removeprefix("parley_"))
        assert stem in parts or stem.removeprefix("agreement_") in parts, name


@pytest.mark.parametrize("source", UNITS, ids=lambda path: path.stem)
def test_the_unit_is_sound_and_leaves_little_open(tmp_path, source):
    analyze = tool("systemd-analyze")
    text = source.read_text()
    unit = tmp_path / source.name.replace("@", "@bank-a")
    unit.write_text(text.replace("/opt/parley/bin/parley", "/bin/true"))
    assert source.stem not in said(analyze, "verify", str(unit))  # it prints what it finds fault with
    verdict = re.search(r"exposure level.*?: ([\d.]+)", said(analyze, "security", "--offline=true", str(unit)))
    assert float(verdict[1]) < 2.0
    for word in ("NoNewPrivileges=yes", "ProtectSystem=strict", "LimitCORE=0", "MemoryMax=", "User=parley"):
        assert word in text


@pytest.mark.parametrize("source", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_a_command_that_there_is_and_names_what_it_is_for(source):
    party = source.stem.removeprefix("parley-").removesuffix("@")
    (command,) = re.findall(
        r"^ExecStart=/opt/parley/bin/parley (\w+ \w+) /var/lib/parley/%i/(\w+)\.toml(.*)$", source.read_text(), re.M
    )
    does, file = ("run", "terms") if party == "peer" else ("serve", party)
    assert command[:2] == (f"{party} {does}", file)
    shown = CliRunner().invoke(app, [*command[0].split(), "--help"])
    assert shown.exit_code == 0
    assert all(option in shown.output for option in re.findall(r"--\w+", command[2]))
    hardened = [
        set(re.findall(r"^((?:No|Protect|Private|Restrict|SystemCall|Capab|Limit)\w*=.*)$", u.read_text(), re.M))
        for u in UNITS
    ]
    assert hardened[0] == hardened[1] == hardened[2]
    assert len(hardened[0]) > 20


def test_containers_run_as_nobody_and_name_no_registry():
    lines = [line for line in CONTAINER.read_text().splitlines() if line and not line.startswith("#")]
    images = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert all(re.fullmatch(r"[a-z]+(:[\w.-]+)?", image) for image in images)
    assert "USER 10001:10001" in lines
    after = lines[lines.index("USER 10001:10001") :]
    assert not [line for line in after if line.startswith(("USER 0", "USER root", "RUN"))]
    if shutil.which("hadolint"):
        said("hadolint", str(CONTAINER))


def option_words(words):
    """The options of `parley WORDS...`, or a failure where there is no such command."""
    group, inner = PART_BY_COMMAND[words[0]].load(), words[1]
    return {option for param in group.commands[inner].params for option in param.opts}


def test_the_rehearsal_has_two_owners_three_hosts_a_learner_and_a_database():
    """Every party starts a command that there is, in a container as hardened as the guide's."""
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((DEPLOY / "compose.yml").read_text())["services"]
    started = {name: service["command"] for name, service in services.items() if name != "postgres"}
    kinds = sorted(" ".join(words[:2]) for words in started.values())
    assert kinds == ["host serve"] * 3 + ["learner run"] + ["owner serve"] * 2 + ["owner snapshot"]
    for name, words in started.items():
        assert {word for word in words if word.startswith("--")} <= option_words(words), name
        party = services[name]
        assert party["read_only"] is True
        assert (party["cap_drop"], party["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
        networks = ["bank-a"] if name == "snapshot" else ["consortium"]
        assert party["networks"] == networks, name
    assert services["postgres"]["networks"] == ["bank-a"]


def test_what_prepares_the_rehearsal_is_a_script_of_commands_that_there_are(tmp_path):
    script = DEPLOY / "rehearsal.sh"
    said("sh", "-n", str(script))
    words = [line.split() for line in re.findall(r"(?:^ *|\$\()party \S+ (.+)$", script.read_text(), re.M)]
    assert len(words) >= 9
    for line in words:
        options = {word for word in line if word.startswith("--")}
        assert options <= option_words(line), line
    terms = re.search(r"terms\.toml <<END\n(.*?)\nEND", script.read_text(), re.S)[1]
    hosts = "".join(f'\n[[hosts]]\nname = "{name}"' for name in ("h0", "h1", "h2"))
    (tmp_path / "terms.toml").write_text(terms + hosts)
    assert [owner.name for owner in load_terms(tmp_path / "terms.toml").owners] == ["bank-a", "bank-b"]


def test_guide_and_readme_say_what_lies_in_deploy():
    for file in DEPLOY.iterdir():
        assert f"(../deploy/{file.name})" in GUIDE, file.name
    assert "(deploy)" in (ROOT / "README.md").read_text()


def test_the_guide_leaves_one_copy_of_a_key(tmp_path, monkeypatch):
    """Its commands, as typed: from certificates to an identity that serves."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("y\n1\n")
    copies = re.findall(r"^\S+\$\s+cp (.*?)(?:\s+#.*)?$", GUIDE, re.M)
    assert copies
    assert not [line for line in copies if ".key" in line]
    run = CliRunner()
    for command in (
        "certs init authority",
        "certs request bank-a --out bank-a",
        "certs issue bank-a/bank-a.csr --authority authority",
        "owner init bank-a --name bank-a --table t.csv --lifetime 3",
    ):
        assert run.invoke(app, command.split()).exit_code == 0, command
    for file in ("ca.crt", "ca.crl", "bank-a.crt"):
        shutil.copy(tmp_path / "authority" / file, tmp_path / "bank-a")
    check_identity(load_owner(tmp_path / "bank-a" / "owner.toml").identity, "bank-a")
    assert [path.name for path in tmp_path.rglob("bank-a.key")] == ["bank-a.key"]
    assert (tmp_path / "bank-a").stat().st_mode & 0o777 == 0o700


def test_the_guides_way_to_clean_a_table_touches_each_row_by_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE, re.S)
    public = pd.DataFrame(
        {"annual_inc": [10.0, 20.0, 60.0], "dti": [1.0, 2.0, 3.0], "home_ownership": ["RENT", "OWN", "OTHER"]}
    )
    public.to_csv("public_loans.csv", index=False)
    raw = pd.DataFrame(
        {"annual_inc": [None, 7.0, None], "dti": [5.0, None, 6.0], "home_ownership": ["RENT", None, "OWN"]}
    )

    def cleaned(table):
        table.to_csv("raw.csv", index=False)
        exec(code, {})
        return pd.read_parquet("bank_a.parquet")

    first = cleaned(raw)
    assert first.annual_inc.tolist() == [20.0, 7.0, 20.0]
    assert first.annual_inc_missing.tolist() == [1, 0, 1]
    assert first.home_ownership.tolist() == ["RENT", "OTHER", "OWN"]
    other = raw.copy()
    other.loc[1] = [1e9, 1e9, "RENT"]
    pd.testing.assert_frame_equal(cleaned(other).drop(1), first.drop(1))
