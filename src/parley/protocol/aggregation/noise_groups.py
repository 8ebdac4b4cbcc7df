"""Owners of a simulation who answer alike: the noise of their mean is drawn at once, however many they are."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from parley.privacy.mechanisms import Bounded, FastNoise, Gaussian, Laplace, Mechanism
from parley.protocol.stages import Stage
from parley.validate import Floats

SCALED = (Laplace, Gaussian)  # laws of which noise of scale s is s times noise of scale 1


@dataclass(frozen=True, eq=False)
class NoiseGroup:
    """Owners whose noise has one law but for its scale. Their mean carries sum_l (n_l/n_S) Y_l, Y_l of each owner's own
    scale, which is sum_l weight_l Y'_l of numbers Y'_l that are all like the first owner's."""

    names: tuple[str, ...]
    records: int  # n_S
    shares: Floats  # n_l/n_S
    weights: Floats
    mechanism: Mechanism  # the first owner's

    def release(self, value: Floats, noise: FastNoise) -> Floats:
        """The mean of their answers as it may come out, if `value` is that of their exact ones; `noise`: combined by
        `weights`."""
        law = self.mechanism
        return law.release(Bounded(value, law.sensitivity, law.norm), noise)


def noise_groups(stages: Mapping[str, Stage]) -> list[NoiseGroup]:
    """These owners as few groups as their noise allows: one of all whose laws differ by a scale, else one of those with
    the same."""
    found: dict[object, list[str]] = {}
    for name, stage in stages.items():
        law = stage.series.mechanism
        found.setdefault(type(law) if isinstance(law, SCALED) else law, []).append(name)
    return [_noise_group(names, [stages[name] for name in names]) for names in found.values()]


def _noise_group(names: list[str], stages: list[Stage]) -> NoiseGroup:
    records = np.array([stage.question.records for stage in stages])
    scales = np.array([stage.series.mechanism.noise_scale for stage in stages])
    shares = records / records.sum()
    return NoiseGroup(
        tuple(names), int(records.sum()), shares, shares * (scales / scales[0]), stages[0].series.mechanism
    )
