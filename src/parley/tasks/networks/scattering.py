"""What wavelets see of an image: a public map before a layer that learns, so that little is left to learn from records.

A scattering transform of two orders (Bruna and Mallat 2013; Tramer and Boneh 2021 put it before private training): how
strongly wavelets of eight directions swing around every pixel of the image, at two resolutions, and how that strength
swings in turn. All numbers follow from the formulas below; nothing of it is learned, so that it costs no privacy.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import nn

from parley.tasks.networks.elementwise import Normalised
from parley.validate import Floats

Tensor = Any  # torch.Tensor

DIRECTIONS, REACH = 8, 3  # of wavelets; pixels to each side
WIDTH, FREQUENCY, SLANT = 0.8, 3 * math.pi / 4, 0.5  # of the envelope along the wave, of the wave, along by across
CHANNELS = (1 + DIRECTIONS) ** 2
GROUPS = 27  # of channels that are brought to one scale
EPS = 1e-5  # beside a group's variance
SHRINKS = 4  # an image's side by so much


class Scattering(nn.Module):  # type: ignore[misc]
    """Images [n, 1, 4 h, 4 w] to numbers [n, 81, h, w], each image's brought to mean 0 and deviation 1 by threes of
    channels: a function of each image alone, without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self._standard = Normalised(GROUPS, EPS)
        waves = wavelets()
        blur = np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64
        for name, filters in (("waves", np.concatenate([waves.real, waves.imag])), ("blur", blur[None])):
            self.register_buffer(name, torch.tensor(filters[:, None], dtype=torch.float32), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        coarse = self._halved(torch.cat([images, self._strengths(images)], 1))
        return self._standard.forward(self._halved(torch.cat([coarse, self._strengths(coarse)], 1)))

    def _strengths(self, images: Tensor) -> Tensor:
        """How strongly every wavelet swings around every pixel [n, 8 channels, h, w]."""
        along, across = self._filtered(images, self.waves, REACH, 1).chunk(2, 2)
        return torch.sqrt(along * along + across * across).flatten(1, 2)

    def _halved(self, images: Tensor) -> Tensor:
        """Blurred, and every second pixel of it [n, channels, h/2, w/2]."""
        return self._filtered(images, self.blur, 1, 2).flatten(1, 2)

    def _filtered(self, images: Tensor, filters: Tensor, padding: int, stride: int) -> Tensor:
        """Every channel by every filter [n, channels, filters, h, w]."""
        n, channels, *size = images.shape
        made = nn.functional.conv2d(images.reshape(n * channels, 1, *size), filters, padding=padding, stride=stride)
        return made.reshape(n, channels, *made.shape[1:])


def wavelets() -> Any:
    """Morlet's wavelets [directions, pixels, pixels]: waves under a bell, of mean 0, so that plain areas say nothing.

    >>> waves = wavelets()
    >>> waves.shape, bool(abs(waves.sum((1, 2))).max() < 1e-12)
    ((8, 7, 7), True)
    """
    down, right = np.mgrid[-REACH : REACH + 1, -REACH : REACH + 1].astype(float)
    return np.stack([_wavelet(right, down, math.pi * turn / DIRECTIONS) for turn in range(DIRECTIONS)])


def _wavelet(right: Floats, down: Floats, angle: float) -> Any:
    along = right * math.cos(angle) + down * math.sin(angle)
    across = down * math.cos(angle) - right * math.sin(angle)
    bell = np.exp(-(along**2 + (SLANT * across) ** 2) / (2 * WIDTH**2)) * SLANT / (2 * math.pi * WIDTH**2)
    wave = bell * np.exp(1j * FREQUENCY * along)
    return wave - wave.sum() / bell.sum() * bell
