"""Images read off gradients of networks: how like the true ones they are, by the epsilon of one answer.

    python benchmarks/image_leakage.py [--images 5] [--steps 300] [--plot image-leakage.png]

Digits of MNIST, each alone in its batch, at the public start of two networks: one whose first layer is dense, read by
division, and one of convolutions, read by optimisation. Likeness is the correlation of pixels. Beside it, how often
somebody who knows two candidate images names the right one, and how often the noise allows it at most. Needs PyTorch
and mnist.npz.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from parley.report.figures import picture
from parley.report.figures.colours import GRID, INK, MUTED
from parley.validate import Floats
from parley_lab.papers.aarhus2020.digits import SIDE_PIXELS, Digits, load_digits
from parley_lab.papers.options import data_folder

NETWORKS = {"dense": ("mlp", (64, 32)), "convolutions": ("chase-large", ())}
UNCLIPPED, CLIP, DELTA = 1e6, 0.5, 1e-5
EPSILONS = (np.inf, 1e6, 1e5, 1e4, 1e3, 100.0, 8.0)
GUESSES, GUESSED = 2000, (1000.0, 100.0, 8.0, 1.0)  # draws of either image; at these epsilons
COLUMNS = ["not clipped", *("clipped" if np.isinf(epsilon) else f"ε = {epsilon:,.0f}" for epsilon in EPSILONS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5, help="digits, one of each class from 0 on")
    parser.add_argument("--steps", type=int, default=300, help="of each reconstruction")
    parser.add_argument("--plot", type=Path, default=None)
    options = parser.parse_args()

    from parley_lab.attacks.network_gradients import likeness  # needs PyTorch

    folder = data_folder(None)
    digits = load_digits(folder, None) if folder else None
    if digits is None or not digits.real:
        raise SystemExit("mnist.npz: not found; set PARLEY_DATA to the folder that holds it")
    places = [int(np.flatnonzero(digits.labels == digit)[0]) for digit in range(options.images)]
    found = {name: read(name, digits, places, options.steps) for name in NETWORKS}
    print(f"{'likeness, mean':>22}" + "".join(f"{column:>14}" for column in COLUMNS))
    for name, (pictures, told) in found.items():
        pairs = [list(zip(row, digits.images[places], strict=True)) for row in zip(*pictures, strict=True)]
        means = [np.mean([likeness(image, true) for image, true in column]) for column in pairs]
        print(f"{name:>22}" + "".join(f"{mean:14.3f}" for mean in means))
        print(f"{'labels read':>22}" + "".join(f"{share:14.0%}" for share in told))
    print(f"{'ε':>6}{'right guesses':>16}{'at most':>10}")
    guesses = [(epsilon, guessed(digits, epsilon)) for epsilon in GUESSED]
    for epsilon, each in guesses:
        print(f"{epsilon:6.0f}{each.right:16.3f}{each.most:10.3f}")
    if options.plot is not None:
        pictures_by_network = {name: pictures for name, (pictures, _) in found.items()}
        picture.save(drawn(digits.images[places], pictures_by_network), options.plot)
    wrong = [str(epsilon) for epsilon, each in guesses if not each.holds]
    if wrong:
        raise SystemExit(f"more right guesses than ε allows at {', '.join(wrong)}")


def network(name: str, clip: float) -> tuple[Any, Any, Floats]:
    """A network, the clipped gradients of single records, and the public start."""
    from parley.tasks.networks.architectures import Architecture, cross_entropy
    from parley.tasks.networks.clipping import RecordGradients

    kind, layers = NETWORKS[name]
    made = Architecture.from_name(kind, SIDE_PIXELS**2, 10, layers)
    return made, RecordGradients(made.module(), cross_entropy, (SIDE_PIXELS**2,), clip, "l2", 1.0), made.initial(0)


def read(name: str, digits: Digits, places: Sequence[int], steps: int) -> tuple[list[list[Floats]], list[float]]:
    """What is read of each image in each column [images][columns], and the share of labels read right by column."""
    from parley.tasks.networks.architectures import set_parameters
    from parley_lab.attacks.network_gradients import noisy_gradients, read_input, read_label, reconstruct

    rows, right = [], np.zeros((len(places), len(COLUMNS)))
    for row, place in enumerate(places):
        image, label, read_images = digits.images[place], int(digits.labels[place]), list[Floats]()
        for column, (clip, epsilon) in enumerate([(UNCLIPPED, np.inf), *((CLIP, epsilon) for epsilon in EPSILONS)]):
            made, gradients, theta = network(name, clip)
            (gradient,), _ = noisy_gradients(gradients, image, label, theta, epsilon, DELTA, 1, seed=row)
            module = made.module()
            set_parameters(module, theta)
            told = read_label(module, gradient)
            right[row, column] = told == label
            dense = name == "dense"
            found = read_input(module, gradient) if dense else reconstruct(module, gradient, told, SIDE_PIXELS, steps)
            read_images.append(np.asarray(found, dtype=float))
        rows.append(read_images)
    return rows, right.mean(axis=0).tolist()


def guessed(digits: Digits, epsilon: float) -> Any:
    """Guesses between an image of 0 and one of 1, whose clipped gradients lie far apart."""
    from parley_lab.attacks.network_gradients import guess

    pair = [int(np.flatnonzero(digits.labels == digit)[0]) for digit in (0, 1)]
    _, gradients, theta = network("dense", CLIP)
    labels = digits.labels[pair].astype(np.int64)
    return guess(gradients, digits.images[pair], labels, theta, epsilon, DELTA, GUESSES)


def drawn(true: Floats, read: dict[str, list[list[Floats]]], shown: Sequence[int] = (0, 3)) -> Figure:
    """Some of the true images, and what is read of each off either network's gradient in every column."""
    rows = [(name, place) for place in shown if place < len(true) for name in read]
    figure = Figure(figsize=(9.6, 1.03 * len(rows) + 0.55), layout="constrained", facecolor="white")
    axes = figure.subplots(len(rows), 1 + len(COLUMNS), squeeze=False)
    for line, (name, place) in zip(axes, rows, strict=True):
        for axis, image in zip(line, [true[place], *read[name][place]], strict=True):
            axis.imshow(np.clip(image, 0, 1).reshape(SIDE_PIXELS, SIDE_PIXELS), cmap="Greys", vmin=0, vmax=1)
            axis.set_xticks([])
            axis.set_yticks([])
            for side in axis.spines.values():
                side.set_color(GRID)
        line[0].set_ylabel(name, color=MUTED, fontsize=9)
    for axis, title in zip(axes[0], ["the image", *COLUMNS], strict=True):
        axis.set_title(title, color=MUTED, fontsize=9)
    figure.suptitle("One image, read off one answer of a network", x=0.01, ha="left", color=INK, fontweight="bold")
    return figure


if __name__ == "__main__":
    main()
