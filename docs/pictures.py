"""Draw the pictures of README and documents again: python docs/pictures.py [NAME ...] [--long] [--list] [--to FOLDER]

Without names all that take a minute or two each; `--long` those that take longer, some of them hours, too. Each is
drawn by what a reader would type: terms are taken from the document that shows the picture, tables are made up or lie
in PARLEY_DATA (default ../shared/data). What cannot be drawn here, for want of a table or of a browser, is said and
left as it is. The house and the studio have scripts of their own, which are run where pictures go to docs/images.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
DOCS, IMAGES = ROOT / "docs", ROOT / "docs" / "images"
DATA = Path(os.environ.get("PARLEY_DATA", ROOT / ".." / "shared" / "data")).resolve()
SEED = 7


@dataclass(frozen=True)
class Drawing:
    """How one picture is drawn: what it needs, files beside it, and what is typed there."""

    picture: str
    typed: tuple[str, ...]  # {picture}: where it goes; {data}: PARLEY_DATA
    prepare: Callable[[Path], None] = lambda folder: None
    needs: tuple[str, ...] = ()  # of PARLEY_DATA
    modules: tuple[str, ...] = ()  # that not every installation has
    long: bool = False


def first_terms(document: str) -> str:
    """The first whole terms that a document shows."""
    blocks = re.findall(r"```toml\n(.*?)```", (DOCS / document).read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if "[[owners]]" in block)


def clinics(folder: Path) -> None:
    """Four clinics of unlike sizes and cares, and owners that are all alike."""
    rng = np.random.default_rng(SEED)
    columns = [f"measurement_{place}" for place in range(10)]
    table = pd.DataFrame(rng.uniform(-1, 1, (2000, len(columns))), columns=columns)
    table["stay"] = table.to_numpy() @ np.linspace(2, -1, len(columns)) + rng.normal(0, 1.5, len(table))
    table.head(80).to_csv(folder / "public.csv", index=False)  # of more, each would have enough by itself
    model = '[model]\nkind = "linear-regression"\ntarget = "stay"\npublic = "public.csv"\n'
    rules = '[learning]\nhorizon = 8\nstep = 1.2\n[privacy]\nmechanism = "gaussian"\ndelta = 1e-6\nclip = 16.0\n'
    unlike = (("clinic-a", 250, 60_000, 9), ("clinic-b", 330, 60_000, 4), ("clinic-c", 400, 70_000, 8),
              ("clinic-d", 300, 25_000, 14))  # fmt: skip
    alike = [(name, 400, 75_000, 14) for name in "abc"]
    for file, owners in (("clinics.toml", unlike), ("alike.toml", alike)):
        said = [
            f'[[owners]]\nname = "{name}"\nrecords = {records}\nepsilon = 4.0\nvalue = {value}\n'
            f'privacy_cost = {{ kind = "linear", weight = {weight} }}\n'
            for name, records, value, weight in owners
        ]
        (folder / file).write_text(model + rules + "".join(said))


def bureaus(folder: Path) -> None:
    """The three bureaus of docs/counts.md, at the epsilon of its picture."""
    table = pd.read_parquet(DATA / "adult.parquet").head(30_000)
    terms = first_terms("counts.md").replace("epsilon = 1.0", "epsilon = 0.05")
    before, owner = terms.split("[[owners]]")
    owners = [owner.replace("bureau-a", f"bureau-{name}").replace("a.parquet", f"{name}.parquet") for name in "abc"]
    (folder / "terms.toml").write_text("[[owners]]".join([before, *owners]))
    for place, name in enumerate("abc"):
        table[10_000 * place : 10_000 * (place + 1)].to_parquet(folder / f"{name}.parquet")


def bureau(folder: Path) -> None:
    """The one bureau of docs/trees.md."""
    pd.read_parquet(DATA / "adult.parquet").head(30_000).to_parquet(folder / "adult.parquet")
    (folder / "terms.toml").write_text(first_terms("trees.md"))


def bins(folder: Path) -> None:
    """The bureau of docs/columns.md: 24,000 rows to learn from, and a public sample of 1,000."""
    table = pd.read_parquet(DATA / "adult.parquet").drop(columns="split").sample(frac=1.0, random_state=SEED)
    table[:1000].to_parquet(folder / "public.parquet")
    table[1000:31_000].to_parquet(folder / "bureau.parquet")


BENCH = f"python {ROOT / 'benchmarks'}/"
DRAWINGS = (
    Drawing("who-gains.png", ("parley demo --out demo", "cp demo/unions.png {picture}")),
    Drawing("negotiation.png", ("parley negotiate clinics.toml --plot {picture}",), clinics),
    Drawing("number-of-owners.png", ("parley negotiate alike.toml --plot-owners {picture}",), clinics),
    Drawing("stable-noise.png", ("parley budget curve --plot {picture}",)),
    Drawing("counts.png", ("parley count terms.toml --seed 1 --plot {picture}",), bureaus, ("adult.parquet",)),
    Drawing("tree-shapes.png", ("parley train terms.toml --seed 1 --plot {picture}",), bureau, ("adult.parquet",)),
    Drawing(
        "bin-shapes.png",
        (
            "parley init bureau.parquet --target income --public public.parquet --columns bins --epsilon 1 --yes "
            "--write terms.toml",
            "parley train terms.toml --replicates 50 --seed 1 --shapes {picture}",
        ),
        bins,
        ("adult.parquet",),
    ),
    Drawing("membership.png", (BENCH + "membership.py --plot {picture}",)),
    Drawing("leakage.png", (BENCH + "leakage.py --plot {picture}",), long=True),
    Drawing("image-leakage.png", (BENCH + "image_leakage.py --plot {picture}",), long=True),
    Drawing(
        "loans-surface.png",
        ("parley reproduce wu2019 --figure 3 --data {data} --out out", "cp out/figure-3.png {picture}"),
        needs=("lendingclub.parquet",),
        long=True,
    ),
    Drawing("reservoir.png", (BENCH + "reservoir.py --plot {picture}",), long=True),
    Drawing(
        "stable-noise-trains.png",
        (BENCH + "stable_noise.py --table 1 --out {picture}",),
        needs=("adult.parquet", "lendingclub.parquet"),
        long=True,
    ),
    Drawing(
        "one-noise.png",
        (BENCH + "one_noise.py --part table --plot {picture}",),
        needs=("sba_loans.parquet",),
        long=True,
    ),
    Drawing(
        "network-owners.png",
        (BENCH + "network_owners.py --plot {picture}",),
        needs=("mnist.npz",),
        modules=("torch",),
        long=True,
    ),
    Drawing(
        "generated-digits.png",
        (BENCH + "generated_images.py --rounds 800 --plot {picture}",),
        needs=("mnist.npz",),
        modules=("torch",),
        long=True,
    ),
    *(
        Drawing(
            f"ratings-figure-{figure}.png",
            (
                f"parley reproduce pejo2018 --figure {figure} --data {{data}} --out out",
                f"cp out/ratings-figure-{figure}.png {{picture}}",
            ),
            needs=("ml1m.parquet",),
            long=True,
        )
        for figure in (3, 4, 5)
    ),
)


def scripts() -> Iterator[Path]:
    """Scripts beside this one that draw by themselves: the house, and pages as a browser shows them."""
    yield from sorted((*DOCS.glob("draw_*.py"), *DOCS.glob("take_*.py")))


def missing(drawing: Drawing) -> list[str]:
    """What a picture needs and is not here."""
    tables = [name for name in drawing.needs if not (DATA / name).exists()]
    return tables + [name for name in drawing.modules if find_spec(name) is None]


def draw(drawing: Drawing, images: Path) -> None:
    """Type what draws a picture, in a folder of its own."""
    with tempfile.TemporaryDirectory() as place:
        drawing.prepare(Path(place))
        for line in drawing.typed:
            words = line.format(picture=images / drawing.picture, data=DATA).split()
            run(words, Path(place))


def run(words: list[str], folder: Path) -> None:
    """One command, by the interpreter that runs this."""
    by = {"parley": [sys.executable, "-m", "parley"], "python": [sys.executable]}.get(words[0], [words[0]])
    subprocess.run([*by, *words[1:]], cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="pictures, by the beginning of their names; left out: all")
    parser.add_argument("--long", action="store_true", help="those that take longer, too")
    parser.add_argument("--list", action="store_true", help="say what is typed for each, and draw nothing")
    parser.add_argument("--to", type=Path, default=IMAGES, help="where pictures go")
    asked = parser.parse_args()
    asked.to.mkdir(parents=True, exist_ok=True)
    for drawing in DRAWINGS:
        if asked.names and not drawing.picture.startswith(tuple(asked.names)):
            continue
        lacks = missing(drawing)
        wanted = not drawing.long or asked.long or asked.names
        state = (
            f"left as it is, for want of {', '.join(lacks)}" if lacks else "" if wanted else "left as it is (--long)"
        )
        said = "; ".join(drawing.typed) if asked.list else state
        print(f"{drawing.picture}: {said}".rstrip(": "), flush=True)  # noqa: T201
        if not asked.list and not state:
            draw(drawing, asked.to.resolve())
    for script in scripts() if asked.to == IMAGES else ():
        if not asked.names or script.stem.endswith(tuple(asked.names)):
            done = asked.list or not subprocess.run([sys.executable, str(script)], cwd=ROOT, check=False).returncode  # noqa: S603
            print(script.name if done else f"{script.name}: left as it is", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
