"""What an organisation gets that installs the wheel: megabytes of every library, and the guide's first steps, typed as
they are written, outside the checkout.

python benchmarks/installing.py         [--python PYTHON: with another interpreter; --extras deploy,torch: with more]
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
SIZES = """
import json
from importlib.metadata import distributions
size = lambda path: path.stat().st_size if path.is_file() else 0
print(json.dumps({d.name: sum(size(d.locate_file(file)) for file in d.files or ()) for d in distributions()}))
"""


def built(folder: Path) -> Path:
    """The wheel, from a copy of the sources."""
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, folder], check=True)
    return next(folder.glob("parley_dp-*.whl"))


def patients(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    """As the guide describes them: a name or two, some cells empty, an outcome that follows from the rest."""
    age, smoker = rng.integers(18, 90, rows), rng.choice(["yes", "no"], rows)
    ill = rng.random(rows) < 1 / (1 + np.exp(-(age - 55) / 10 - (smoker == "yes")))
    return pd.DataFrame(
        {
            "age": age,
            "income": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(40, 9, rows).round(1)),
            "job": rng.choice(["clerk", "farmer", "nurse"], rows),
            "smoker": smoker,
            "outcome": np.where(ill, "diseased", "healthy"),
        }
    )


def first_steps(home: Path, folder: Path) -> None:
    """Every command of the guide's first block, in an environment that knows nothing of this one."""
    rng = np.random.default_rng(1)
    for name, rows in (("north", 2500), ("south", 1500), ("public", 400), ("new_patients", 5)):
        patients(rng, rows).to_csv(folder / f"{name}.csv", index=False)
    block = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "from_files.md").read_text(encoding="utf-8"), re.S)[0]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    for line in block.splitlines():
        begun = time.perf_counter()
        done = subprocess.run([home / "parley", *shlex.split(line)[1:]], cwd=folder, env=alone, capture_output=True)
        print(f"{time.perf_counter() - begun:6.1f} s  exit code {done.returncode}  {line}", flush=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr.decode())
    print((folder / "predicted.csv").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the new environment")
    parser.add_argument("--extras", default="", help="extras to install, with commas between them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, work = Path(folder) / "source", Path(folder) / "work"
        source.mkdir()
        work.mkdir()
        home = Path(folder) / "environment" / "bin"
        wheel = f"{built(source)}[{given.extras}]" if given.extras else str(built(source))
        subprocess.run([given.python, "-m", "venv", home.parent], check=True)
        install = [home / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-compile"]
        subprocess.run([*install, "--only-binary", ":all:", wheel], check=True)
        told = subprocess.run([home / "python", "-c", SIZES], capture_output=True, text=True, check=True).stdout
        sizes = {name: size for name, size in json.loads(told).items() if name != "pip"}
        for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
            print(f"{size / 1e6:7.1f} MB  {name}")
        print(f"{sum(sizes.values()) / 1e6:7.1f} MB  in all, {len(sizes)} distributions", flush=True)
        first_steps(home, work)


if __name__ == "__main__":
    main()
