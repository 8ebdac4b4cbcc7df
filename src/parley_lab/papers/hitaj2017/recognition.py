"""What drawn images look like to somebody who has seen digits, but neither the victim's nor the joint network."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neural_network import MLPClassifier

from parley.tasks.networks.question import NetworkRows
from parley.validate import Floats
from parley_lab.papers.hitaj2017.collaboration import Images

DIGITS, NONE = np.arange(10), 10.0


@dataclass(frozen=True, eq=False)
class Judge:
    """A network of another kind than the joint one, trained without privacy on others' images, and the mean image of
    each digit among them [10, pixels]. It may say that an image is no digit: it has seen some that are none."""

    network: MLPClassifier
    means: Floats

    @classmethod
    def trained(cls, rows: NetworkRows, epochs: int = 20, seed: int = 0) -> "Judge":
        """So many times through these rows and half as many images of no digit."""
        no_digits = _no_digits(rows.X[: len(rows) // 2], np.random.default_rng(seed))
        X, y = np.concatenate([rows.X, no_digits]), np.concatenate([rows.y, np.full(len(no_digits), NONE)])
        network = MLPClassifier((128,), random_state=seed)
        for _ in range(epochs):
            network.partial_fit(X, y, classes=[*DIGITS, NONE])
        return cls(network, np.array([rows.X[rows.y == digit].mean(axis=0) for digit in DIGITS]))

    def says(self, images: Images) -> NDArray[np.int64]:
        """The digit that it takes each image for, 10 where it sees none [n]."""
        return np.asarray(self.network.predict(images))

    def recognised(self, images: Images, digit: int) -> float:
        """The share of images that it takes for this digit."""
        return float(np.mean(self.says(images) == digit))

    def nearness(self, images: Images, digit: int) -> float:
        """Images' mean distance to the digit's mean image over that to the nearest other digit's: below 1, they are
        nearer to this digit than to any other."""
        far = np.array([np.linalg.norm(images - mean, axis=1).mean() for mean in self.means])
        return float(far[digit] / np.delete(far, digit).min())


def _no_digits(images: Images, rng: np.random.Generator) -> Images:
    """As many images as these of no digit: pixels in any order, quarters of different images side by side, and dots as
    dense as chance has it."""
    shuffled, mixed, dots = np.array_split(images, 3)
    side = round(images.shape[1] ** 0.5)
    half = side // 2
    squares = mixed.reshape(-1, side, side).copy()
    for rows in (slice(half), slice(half, None)):
        for columns in (slice(half), slice(half, None)):
            squares[:, rows, columns] = rng.permutation(squares[:, rows, columns])
    dense = np.where(rng.random(dots.shape) < rng.random((len(dots), 1)), 1.0, -1.0)
    parts = rng.permuted(shuffled, axis=1), squares.reshape(len(mixed), -1), dense
    return np.concatenate(parts).astype(np.float32)
