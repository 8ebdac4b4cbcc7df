"""Images of Z's networks: MNIST, CIFAR-10 and chest X-rays where they are at hand, else ten shapes of nobody's data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parley.validate import whole

CHANNEL_STATISTICS = np.array([[0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]])  # CIFAR-10's means and deviations


@dataclass(frozen=True, eq=False)
class Images:
    """Rows of pixels [n, width] with their classes [n]: to learn from, and to be judged by."""

    called: str
    X: NDArray[np.float32]
    y: NDArray[np.int64]
    held_out: NDArray[np.float32]
    held_out_y: NDArray[np.int64]

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def first(self, rows: int | None) -> "Images":
        """So many of the images to learn from, the first ones; all where none is said."""
        most = None if rows is None else whole(rows, "rows")
        return Images(self.called, self.X[:most], self.y[:most], self.held_out, self.held_out_y)


def table_images(word: str, folder: Path | None, rows: int | None = None) -> Images:
    """The images of table 4.1, 4.3 or 4.5 in the folder of real data; generated ones where they are not there."""
    read = {"4.1": _digits, "4.3": _objects, "4.5": _x_rays}[word]
    found = None if folder is None else read(folder)
    if found is None:
        found = _generated(3072 if word == "4.3" else 784, 2 if word == "4.5" else 10, rows or 2000)
    return found.first(rows)


def _digits(folder: Path) -> Images | None:
    stored = _stored(folder / "mnist.npz", ("x_train", "y_train", "x_test", "y_test"))
    if stored is None:
        return None
    X, y, test_X, test_y = stored
    return Images("MNIST", *_scaled(X, y, 0.1307, 0.3081), *_scaled(test_X, test_y, 0.1307, 0.3081))


def _x_rays(folder: Path) -> Images | None:
    names = ("train_images", "train_labels", "test_images", "test_labels")
    stored = _stored(folder / "pneumoniamnist.npz", names)
    if stored is None:
        return None
    X, y, test_X, test_y = stored
    return Images("PneumoniaMNIST", *_scaled(X, y, 0.5, 0.5), *_scaled(test_X, test_y, 0.5, 0.5))


def _objects(folder: Path) -> Images | None:
    stored = _stored(folder / "cifar10.npz", ("x_train", "y_train", "x_test", "y_test"))  # rows by columns by colours
    if stored is not None:
        X, y, test_X, test_y = (each.transpose(0, 3, 1, 2) if each.ndim == 4 else each for each in stored)
    else:
        inside = folder / "cifar-10-batches-bin"
        files = [*(inside / f"data_batch_{place}.bin" for place in range(1, 6)), inside / "test_batch.bin"]
        if not all(file.is_file() for file in files):
            return None
        parts = [np.fromfile(file, dtype=np.uint8).reshape(-1, 3073) for file in files]
        whole, test = np.concatenate(parts[:5]), parts[5]
        X, y, test_X, test_y = whole[:, 1:], whole[:, 0], test[:, 1:], test[:, 0]
    mean, deviation = (np.repeat(each, 1024) for each in CHANNEL_STATISTICS)
    return Images("CIFAR-10", *_scaled(X, y, mean, deviation), *_scaled(test_X, test_y, mean, deviation))


def _stored(file: Path, names: tuple[str, ...]) -> list[NDArray[Any]] | None:
    if not file.is_file():
        return None
    with np.load(file, allow_pickle=False) as stored:
        return [np.asarray(stored[name]) for name in names]


def _scaled(
    images: NDArray[Any], classes: NDArray[Any], centre: Any, scale: Any
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    rows = images.reshape(len(images), -1) / 255.0
    return ((rows - centre) / scale).astype(np.float32), classes.reshape(-1).astype(np.int64)


def _generated(width: int, classes: int, count: int, seed: int = 0) -> Images:
    """A random shape for every class, dimmed at random, in noise; a sixth as many for the test."""
    rng = np.random.default_rng(seed)
    side = 28 if width == 784 else 32
    coarse = rng.random((classes, width // side**2, side // 4, side // 4)) < 0.35
    shapes = np.kron(coarse, np.ones((4, 4))).reshape(classes, -1)
    total = count + max(count // 6, 1)
    y = rng.integers(0, classes, total)
    X = (shapes[y] * rng.uniform(0.5, 1.5, (total, 1)) + rng.normal(0, 0.5, (total, width))).astype(np.float32)
    return Images("GENERATED images", X[:count], y[:count], X[count:], y[count:])
