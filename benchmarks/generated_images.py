"""Likenesses of another owner's digit, drawn by a generator against the joint network (Hitaj et al. 2017): how they are
recognised, by what hides the victim.

    python benchmarks/generated_images.py [--rounds 400] [--runs 1] [--device cpu] [--plot digits.png] [--data DIR]

With `--side 28 --rows 25000 --batch 512 --rounds 4000 --pursuit 2 --runs 5 --device cuda` at length. Wanted: without
protection images are taken for the victim's digit and lie nearest to it, with noise that hides the owner they do
neither, and the control does neither. What noise that hides a record does is printed: it promises nothing about
a digit.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from parley.report.figures import picture
from parley_lab.papers.aarhus2020.digits import load_digits
from parley_lab.papers.document import Titled
from parley_lab.papers.options import data_folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--rows", type=int, default=3000, help="images of either owner")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--side", type=int, default=14)
    parser.add_argument("--target", type=int, default=3)
    parser.add_argument("--pursuit", type=int, default=1, help="steps of the generator in a round")
    parser.add_argument("--epsilon", type=float, nargs="*", default=[100.0, 8.0, 1.0], help="of a record")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--data", type=Path, default=None, help="folder with mnist.npz; left out: PARLEY_DATA")
    options = parser.parse_args()

    from parley_lab.papers.hitaj2017 import pictures  # which need torch, as what they draw does
    from parley_lab.papers.hitaj2017.exhibits import CONTROL_NAME, Study, digits
    from parley_lab.papers.hitaj2017.parties import Protection, Settings

    unprotected, of_owner = Protection(), Protection(8.0, "owner")
    names = ("side", "rows", "batch", "rounds", "target", "pursuit", "device")
    settings = Settings(**{name: getattr(options, name) for name in names})
    hidden = (unprotected, *map(Protection, options.epsilon), of_owner)
    study = Study(load_digits(data_folder(options.data)), settings, hidden, options.runs)
    shown = digits(study, "digits", lambda done, total: None)
    for part in shown.parts:
        for row in part.rows if isinstance(part, Titled) else [[part]]:
            print(f"{row[0]:48}" + "".join(f"{cell:>26}" for cell in row[1:]))
    if options.plot is not None:
        picture.save(pictures.digits(*shown.drawn), options.plot)
    require(shown.content["attacks"], {unprotected.name: True, of_owner.name: False, CONTROL_NAME: False})


def require(attacks: dict[str, list[list[dict[str, float]]]], wanted: dict[str, bool]) -> None:
    """End with what does not succeed as wanted, or does so against that."""
    wrong = [name for name, each in wanted.items() if succeeds(attacks[name]) != each]
    if wrong:
        raise SystemExit(f"not as wanted: {', '.join(wrong)}")


def succeeds(runs: Sequence[Sequence[dict[str, float]]]) -> bool:
    """Whether at their best, on average over runs, more images than chance has are taken for the digit, and lie clearly
    nearer to it than to any other."""
    recognised = np.mean([max(look["recognised"] for look in looks) for looks in runs])
    return bool(recognised > 0.2 and np.mean([min(look["nearness"] for look in looks) for looks in runs]) < 0.97)


if __name__ == "__main__":
    main()
