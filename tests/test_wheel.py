"""What an organisation installs: the wheel, with the newest versions of what it says it needs, and nothing else of this
machine."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest
from samples import regression_table

import parley
from parley.report.extras import _EXTRAS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "parley"
LABORATORY = ROOT / "src" / "parley_lab"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LABORATORY_PROJECT = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    "adbc_driver_duckdb": "duckdb",
    "google": "protobuf",
    "grpc": "grpcio",
    "parley": "parley-dp",
    "grpc_health": "grpcio-health-checking",
    "sklearn": "scikit-learn",
}
# A statement that imports names what it takes from first, one a line: to parse all files takes seconds.
IMPORT = re.compile(
    r"^[ \t]*(?:from ([a-z][\w.]*) import\b|import ([a-z][\w.]*)(?: as \w+)?[ \t]*(?:#.*)?$)", re.MULTILINE
)
TERMS = """
[model]
kind = "linear-regression"
target = "y"
features = ["x0", "x1", "x2"]
bounds = { x0 = [-1, 1], x1 = [-1, 1], x2 = [-1, 1], y = [-3, 3] }
holdout = 0.2
[learning]
horizon = 3
step = 0.3
[privacy]
mechanism = "gaussian"
delta = 1e-6
clip = 4.0
[[owners]]
name = "a"
records = 200
epsilon = 1.0
data = "a.csv"
"""


def imported(package):
    """Every library that the package imports anywhere, by the name of what is installed for it, and one file that
    does."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        for names in IMPORT.findall(file.read_text(encoding="utf-8")):
            name = "".join(names).partition(".")[0]
            if name not in sys.stdlib_module_names and name != package.name:
                found.setdefault(DISTRIBUTIONS.get(name, name.replace("_", "-")), file.relative_to(ROOT))
    return found


def declared(requirements):
    return {re.match(r"[A-Za-z0-9-]+", requirement)[0].lower() for requirement in requirements}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    """`constraints.txt` would hide a library that comes along with another today."""
    core, found = declared(PROJECT["dependencies"]), imported(PACKAGE)
    users = ("deploy", "flower", "cluster", "ratings", "sql", "studio", "torch")
    extras = set().union(*(declared(PROJECT["optional-dependencies"][name]) for name in users)) - {"parley-dp"}
    assert {name: str(file) for name, file in found.items() if name not in core | extras} == {}
    assert sorted((core | extras) - set(found)) == []
    for module, extra in _EXTRAS.items():  # what a command says is missing is what the extra brings
        wanted = DISTRIBUTIONS.get(module, module.replace("_", "-"))
        assert wanted in declared(PROJECT["optional-dependencies"][extra])
        assert wanted not in core


def test_the_laboratory_declares_what_it_imports_and_needs_its_own_version_of_parley():
    torch = declared(PROJECT["optional-dependencies"]["torch"])  # of some exhibits, which say that it is missing
    assert declared(LABORATORY_PROJECT["dependencies"]) == imported(LABORATORY).keys() - torch
    assert f"parley-dp=={parley.__version__}" in LABORATORY_PROJECT["dependencies"]
    assert PROJECT["optional-dependencies"]["lab"] == [LABORATORY_PROJECT["name"]]


TOP = ("*.in", "*.md", "pyproject.toml", "conftest.py", "constraints.txt", "LICENSE", "Makefile")
BUILD = """
import os, sys, tarfile
builder, backend, source, out = sys.argv[1:]
sys.path.append(builder)
built = __import__(backend, fromlist=["build_sdist"])
os.chdir(source)
name = built.build_sdist(out)
with tarfile.open(f"{out}/{name}") as opened:
    opened.extractall(out, filter="data")
os.chdir(f"{out}/{name.removesuffix('.tar.gz')}")
built.build_wheel(out)
os.chdir("lab")
built.build_wheel(out)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the source distribution and both wheels, built from it and nothing else, from a copy: nothing is
    left behind in the sources. Skipped where pip finds nothing to build with."""
    folder = tmp_path_factory.mktemp("built")
    system = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    got = pip("install", "--no-compile", "--only-binary", ":all:", "--target", folder / "builder", *system["requires"])
    if got.returncode != 0:
        pytest.skip(f"pip cannot install anything here: {got.stderr.strip().splitlines()[-1:]}")
    for file in source_files():
        (folder / "source" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / "source" / file)
    words = map(str, (folder / "builder", system["build-backend"], folder / "source", folder))
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BUILD, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def source_files():
    """What the source distribution is made of, as it lies here: files at the top and those of its folders."""
    top = [file for name in TOP for file in ROOT.glob(name)]
    inside = [
        file
        for folder in ("benchmarks", "deploy", "docs", "lab", "src", "tests")
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and not any(part.startswith((".", "__pycache__")) for part in file.relative_to(ROOT).parts)
    ]
    made = (".egg-info", "deploy/rehearsal/")
    return [file.relative_to(ROOT) for file in top + inside if not any(part in str(file) for part in made)]


def test_nobody_is_told_to_install_what_others_called_parley():
    told = re.compile(r"pip install[^\n`#]* '?parley\b(?!-dp)|\bparley\[[a-z]")
    files = [file for file in source_files() if file.suffix in (".md", ".py", ".service", ".toml", ".yml", "")]
    assert [str(file) for file in files if told.search((ROOT / file).read_text(encoding="utf-8"))] == []


@pytest.fixture(scope="module")
def wheel(built):
    return next(built.glob("parley_dp-*.whl"))


def pip(*words):
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_CONSTRAINT")}
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=plain)


def install(wheel, python, report):
    """The wheel and the newest of what it needs, and nothing else, in that environment. What this one has in the same
    version is linked: pip unpacked it once."""
    install = ("--python", python, "install", "--only-binary", ":all:")
    resolved = pip(*install, "--dry-run", "--report", report, wheel)
    assert resolved.returncode == 0, resolved.stderr[-2000:]
    [there], other = python.parents[1].glob("lib/*/site-packages"), []
    for needed in json.loads(report.read_text())["install"]:
        name, version = needed["metadata"]["name"], needed["metadata"]["version"]
        here = next(iter(distributions(name=name)), None)
        if name == "parley-dp" or here is None or here.version != version:
            other.append(needed["download_info"]["url"])
            continue
        for part in {file.parts[0] for file in here.files} - {"..", "__pycache__"}:
            (there / part).symlink_to(here.locate_file(part))
    done = pip(*install, "--no-compile", "--no-deps", *other)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(("package", "name"), [(PACKAGE, "parley_dp"), (LABORATORY, "parley_dp_lab")])
def test_a_wheel_holds_every_file_of_its_package_and_no_other(built, package, name):
    files = {
        str(file.relative_to(package.parent))
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    [wheel] = built.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert {file for file in opened.namelist() if ".dist-info/" not in file} == files


def test_the_source_distribution_holds_what_the_repository_does(built):
    with tarfile.open(next(built.glob("parley_dp-*.tar.gz"))) as opened:
        held = {name.partition("/")[2] for name in opened.getnames()}
    assert {str(file) for file in source_files()} - held == set()


def test_the_page_of_the_package_leads_nowhere_that_is_not_there(wheel):
    """Whoever reads it has no repository around it."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        page = opened.read(name).decode()
    assert "Name: parley-dp\n" in page
    assert "# Parley\n" in page
    assert re.findall(r"\]\((?!https://)[^)]*\)", page) == []
    extras = set(re.findall(r"parley-dp\[(\w+)\]`", page))
    ours = {"bench", "browser", "dev", "docs", "hooks", "notebooks"}  # for who works on Parley
    assert extras == PROJECT["optional-dependencies"].keys() - ours
    for file in re.findall(r"`((?:docs/)?\w+\.md)`", page):
        assert (ROOT / file).is_file(), file


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A new environment without pip, without byte code and without constraints: what is not declared is not there."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    home = folder / ("Scripts" if os.name == "nt" else "bin")
    install(wheel, home / "python", folder / "report.json")
    return home


def commands_of(home, folder):
    """`parley WORDS...` of that environment, typed in that folder."""
    alone = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COVERAGE"))
    }

    def parley(*words):
        return subprocess.run(
            [home / "parley", *words], cwd=folder, env=alone, capture_output=True, text=True, check=False, timeout=600
        )

    return parley


def test_the_wheel_starts_trains_and_releases_with_the_newest_of_what_it_needs(environment, tmp_path):
    parley = commands_of(environment, tmp_path)
    regression_table(200).to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "terms.toml").write_text(TERMS)
    said = parley("--help")
    assert said.returncode == 0, said.stderr
    assert "Should we train together" in said.stdout
    pages = parley("man", "--to", "pages")
    assert pages.returncode == 0, pages.stderr
    assert (tmp_path / "pages" / "parley-owner-accept.1").read_text().startswith(".TH PARLEY")
    options = parley("train", "--help")
    assert "--ledgers" in options.stdout, options.stderr
    simulated = parley("train", "terms.toml", "--seed", "1", "--json")
    assert simulated.returncode == 0, simulated.stderr
    assert json.loads(simulated.stdout)["released"] is False
    released = parley(
        "train", "terms.toml", "--ledgers", "books", "--lifetime", "1", "--lifetime-delta", "1e-6", "--force", "--json"
    )
    assert released.returncode == 0, released.stderr
    content = json.loads(released.stdout)
    assert (content["released"], content["safe_noise"], content["owners"][0]["answers"]) == (True, True, 3)
    assert (tmp_path / "books" / "a.ledger").is_file()
    wrong = parley("train", "terms.toml", "--sed", "1")
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
    (tmp_path / "owner.toml").write_text("")
    without = parley("owner", "serve", "owner.toml")
    assert without.returncode == 2
    assert "this command needs the extra 'deploy'" in " ".join(without.stderr.split())
    without = parley("reproduce", "wu2019", "--list")
    assert without.returncode == 2
    assert "this command needs the extra 'lab'" in " ".join(without.stderr.split())
