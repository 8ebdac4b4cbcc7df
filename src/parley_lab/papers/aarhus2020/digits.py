"""Handwritten digits: MNIST where it is at hand, otherwise ten shapes with noise, and the table says so."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from parley.data import split_consecutive
from parley.owner.owner import Owner
from parley.validate import Floats

SIDE_PIXELS = 28
PIXELS = tuple(f"p{place}" for place in range(SIDE_PIXELS**2))
CLASSES = tuple(str(digit) for digit in range(10))


@dataclass(frozen=True, eq=False)
class Digits:
    """Images [n, 784] with pixels from 0 to 1, and their digits [n]: to learn from, and to be judged by."""

    images: Floats
    labels: NDArray[np.uint8]
    test_images: Floats
    test_labels: NDArray[np.uint8]
    real: bool

    def owners(self, count: int) -> list[Owner]:
        """The images to learn from, in their order, among so many owners alike: the same owners each time, who prepare
        them once."""
        return _owners(self, count)

    def accuracy(self, theta: Floats) -> Floats:
        """The share of test images whose digit has the largest margin, for models [runs, 10 x 785]."""
        models = theta.reshape(len(theta), len(CLASSES), -1)
        margins = models[..., :-1] @ self.test_images.T + models[..., -1:]
        return np.asarray(np.mean(margins.argmax(axis=1) == self.test_labels, axis=-1))


@lru_cache(maxsize=2)
def _owners(digits: Digits, count: int) -> list[Owner]:
    table = pd.DataFrame(digits.images, columns=list(PIXELS)).assign(digit=digits.labels.astype(str))
    each = len(table) // count
    return [Owner(f"owner-{i + 1}", part) for i, part in enumerate(split_consecutive(table, [each] * count))]


def load_digits(folder: Path | None, most: int | None = None) -> Digits:
    """MNIST from mnist.npz in the folder, of which at most so many images are kept; without it, shapes made of nobody's
    data."""
    file = None if folder is None else folder / "mnist.npz"
    if file is None or not file.is_file():
        return synthetic_digits(60_000 if most is None else most)
    with np.load(file) as stored:
        parts = [np.asarray(stored[name]) for name in ("x_train", "y_train", "x_test", "y_test")]
    images, labels, test_images, test_labels = parts
    return Digits(_rows(images[:most]), labels[:most], _rows(test_images), test_labels, real=True)


def synthetic_digits(count: int, seed: int = 0) -> Digits:
    """Ten blurred random shapes, shifted and dimmed at random, a sixth as many for the test."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((10, 7, 7)) < 0.35
    shapes = np.kron(coarse, np.ones((4, 4))).reshape(10, -1)
    total = count + max(count // 6, 1)
    labels = rng.integers(0, 10, total).astype(np.uint8)
    images = np.clip(
        shapes[labels] * rng.uniform(0.3, 1.0, (total, 1)) + rng.normal(0, 0.35, (total, SIDE_PIXELS**2)), 0, 1
    )
    return Digits(images[:count], labels[:count], images[count:], labels[count:], real=False)


def _rows(images: NDArray[np.uint8]) -> Floats:
    return np.asarray(images.reshape(len(images), -1) / 255.0)
