"""An image off a network's gradient: exactly where the first layer is dense, by optimisation where it convolves, and no
better than epsilon allows once there is noise (Z section 6.1).

Clipping alone hides nothing: a clipped gradient points where the gradient does.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr

from parley.audit.distinguishing import rates
from parley.errors import SettingError
from parley.privacy.mechanisms import Bounded, FastNoise
from parley.privacy.mechanisms.gaussian import Gaussian
from parley.tasks.networks.architectures import cross_entropy
from parley.tasks.networks.clipping import RecordGradients
from parley.validate import Floats, whole

Module = Any  # torch.nn.Module
Tensor = Any  # torch.Tensor
STEP, SMOOTHNESS = 0.1, 1e-4  # first step of a pixel; weight of differences between neighbouring pixels
STEP_SHARES = (0.375, 0.625, 0.875)  # shares of all steps after which steps are a tenth as long
CONFIDENCE_MISS = 0.01  # chance that `right_at_least` is too high


def read_label(module: Module, gradient: Floats) -> int:
    """Return the class of the one record whose gradient [P] this is: the last layer's constants have slopes p - e_y, of
    which that of the true class alone is negative."""
    return int(np.argmin(_pieces(module, gradient)[-1]))


def read_input(module: Module, gradient: Floats) -> Floats:
    """Return the numbers of the one record whose gradient [P] this is, if the first layer is dense: each row of its
    weights' gradient is a multiple of the record, by the slope of that row's constant."""
    weight, constant = _pieces(module, gradient)[:2]
    if weight.ndim != 2 or constant.shape != weight.shape[:1]:
        raise SettingError("module: expected a first layer that is dense and has constants")
    unit = int(np.argmax(np.abs(constant)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.nan_to_num(weight[unit] / constant[unit]))


def reconstruct(
    module: Module, gradient: Floats, label: int, side: int, steps: int, seed: int = 0
) -> NDArray[np.float32]:
    """Return pixels [side x side] from 0 to 1 whose gradient points where this one [P] does (Geiping and others 2020):
    the cosine is blind to lengths, and so to clipping."""
    parameters = [each.detach().requires_grad_() for each in module.parameters()]
    names = [name for name, _ in module.named_parameters()]
    wanted = torch.tensor(gradient, dtype=torch.float32)
    target, start = torch.tensor([label]), np.random.default_rng(seed).uniform(0.4, 0.6, (1, side * side))
    image = torch.tensor(start, dtype=torch.float32, requires_grad=True)
    optimiser = torch.optim.Adam([image], STEP)
    turns = [int(share * whole(steps, "steps")) for share in STEP_SHARES]
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, turns, gamma=0.1)
    for _ in range(steps):
        outputs = torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (image,))
        slopes = torch.autograd.grad(cross_entropy(outputs, target).sum(), parameters, create_graph=True)
        found = torch.cat([slope.reshape(-1) for slope in slopes])
        cosine = found @ wanted / (found.norm() * wanted.norm() + 1e-12)
        (image.grad,) = torch.autograd.grad(1 - cosine + SMOOTHNESS * _roughness(image, side), image)
        image.grad.sign_()
        optimiser.step()
        schedule.step()
        with torch.no_grad():
            image.clamp_(0, 1)
    return np.asarray(image.detach().numpy()[0])


def _roughness(image: Tensor, side: int) -> Tensor:
    """Differences between neighbouring pixels, added up."""
    square = image.reshape(side, side)
    return (square[1:] - square[:-1]).abs().sum() + (square[:, 1:] - square[:, :-1]).abs().sum()


def likeness(found: Floats, true: Floats) -> float:
    """Return the correlation of two images' pixels; 0 where one is plain.

    >>> round(likeness(np.array([0.0, 0.5, 1.0]), np.array([0.0, 1.0, 2.0])), 9), likeness(np.ones(3), np.arange(3.0))
    (1.0, 0.0)
    """
    a, b = (each - each.mean() for each in (np.asarray(found, float), np.asarray(true, float)))
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else 0.0


def _pieces(module: Module, gradient: Floats) -> list[Floats]:
    shapes = [tuple(each.shape) for each in module.parameters()]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    return [piece.reshape(shape) for piece, shape in zip(np.split(gradient, ends), shapes, strict=True)]


@dataclass(frozen=True)
class Guessed:
    """How often somebody who knows that a noisy gradient is of one of two images names the right one, and how often
    the noise allows it at most."""

    right: float  # share of right guesses, at even odds
    right_at_least: float  # of the true share, at 99 %
    most: float

    @property
    def holds(self) -> bool:
        """Whether nothing was found that contradicts the claim."""
        return self.right_at_least <= self.most


def noisy_gradients(
    gradients: RecordGradients,
    row: Floats,
    label: int,
    theta: Floats,
    epsilon: float,
    delta: float,
    draws: int,
    seed: int,
) -> tuple[Floats, Gaussian]:
    """Return clipped gradients [draws, P] of one record alone, each with Gaussian noise that makes it (epsilon, delta)-
    DP for one record replaced, and the mechanism; without noise for an infinite epsilon."""
    value = _own(gradients, row, label, theta)
    many, sensitivity = np.broadcast_to(value, (draws, len(value))), 2 * gradients.clip * (1 + gradients.rounding(1))
    if np.isinf(epsilon):
        return many, Gaussian(0.0, sensitivity)
    mechanism = Gaussian.calibrate(Fraction(str(epsilon)), delta, sensitivity)
    return mechanism.release(Bounded(many, sensitivity, "l2"), FastNoise(seed)), mechanism


def _own(gradients: RecordGradients, row: Floats, label: int, theta: Floats) -> Floats:
    """The clipped gradient [P] of one record."""
    return gradients.clipped_sum(theta, np.asarray(row, np.float32)[None], np.array([float(label)]))


def guess(
    gradients: RecordGradients,
    images: Floats,
    labels: NDArray[np.int64],
    theta: Floats,
    epsilon: float,
    delta: float,
    draws: int,
    seed: int = 0,
) -> Guessed:
    """Attack `draws` noisy gradients of either of two images [2, pixels]: name the one whose own is nearer.

    Formal guarantee of what is attacked: gradients at most s apart with noise sigma are told apart with at most
    Phi(s/(2 sigma)) right guesses, by whatever rule.
    """
    if len(images) != 2:
        raise SettingError("images: expected two")
    exact = [_own(gradients, image, int(label), theta) for image, label in zip(images, labels, strict=True)]
    apart, right = exact[1] - exact[0], 0
    middle = float(apart @ (exact[0] + exact[1])) / 2
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        noisy, mechanism = noisy_gradients(gradients, image, int(label), theta, epsilon, delta, draws, seed + place)
        right += int(np.count_nonzero((noisy @ apart > middle) == bool(place)))
    return Guessed(
        right=right / (2 * draws),
        right_at_least=float(rates(right, 2 * draws, CONFIDENCE_MISS)[0]),
        most=float(ndtr(mechanism.sensitivity / (2 * mechanism.sigma))),
    )
