"""The layers of networks that may be released, and the exact version of each.

Formal guarantee: `exact_network` is built again from listed settings and numbers; no code of a module's own runs. Its
linear layers and convolutions are PyTorch's, whose order of operations `kernels` checks. Every other layer is a
function of single rows by construction (`elementwise`), or moves numbers without computing.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from parley.errors import GuaranteeError, SettingError
from parley.tasks.networks import elementwise
from parley.tasks.networks.elementwise import Averaged, Elementwise, Normalised, Pooled, Scaled
from parley.validate import Floats

Tensor = Any  # torch.Tensor

DIRECTIONS, REACH = 8, 3  # of wavelets; pixels to each side
WIDTH, FREQUENCY, SLANT = 0.8, 3 * math.pi / 4, 0.5  # of the envelope along the wave, of the wave, along by across
SCATTERING_CHANNELS = (1 + DIRECTIONS) ** 2
CHANNEL_GROUPS = 27  # of channels that are brought to one scale
VARIANCE_EPSILON = 1e-5  # beside a group's variance
SIDE_DIVISOR = 4  # an image's side by so much


class Scattering(nn.Module):  # type: ignore[misc]
    """A scattering transform of two orders (Bruna and Mallat 2013; before private training Tramer and Boneh 2021).

    It maps images [n, 1, 4 h, 4 w] to [n, 81, h, w]: the strengths of wavelets in eight directions at two resolutions,
    normalised per image by threes of channels. It is a function of each image alone, without parameters, and costs no
    privacy.
    """

    def __init__(self) -> None:
        super().__init__()
        self._standard = Normalised(CHANNEL_GROUPS, VARIANCE_EPSILON)
        waves = wavelets()
        blur = np.outer([1, 3, 3, 1], [1, 3, 3, 1]) / 64
        for name, filters in (("waves", np.concatenate([waves.real, waves.imag])), ("blur", blur[None])):
            self.register_buffer(name, torch.tensor(filters[:, None], dtype=torch.float32), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        coarse = self._blur_and_halve(torch.cat([images, self._strengths(images)], 1))
        return self._standard.forward(self._blur_and_halve(torch.cat([coarse, self._strengths(coarse)], 1)))

    def _strengths(self, images: Tensor) -> Tensor:
        """Return the strength of every wavelet at every pixel [n, 8 channels, h, w]."""
        along, across = self._filtered(images, self.waves, REACH, 1).chunk(2, 2)
        return torch.sqrt(along * along + across * across).flatten(1, 2)

    def _blur_and_halve(self, images: Tensor) -> Tensor:
        """Blur and keep every second pixel [n, channels, h/2, w/2]."""
        return self._filtered(images, self.blur, 1, 2).flatten(1, 2)

    def _filtered(self, images: Tensor, filters: Tensor, padding: int, stride: int) -> Tensor:
        """Apply every filter to every channel [n, channels, filters, h, w]."""
        n, channels, *size = images.shape
        made = nn.functional.conv2d(images.reshape(n * channels, 1, *size), filters, padding=padding, stride=stride)
        return made.reshape(n, channels, *made.shape[1:])


def wavelets() -> Any:
    """Return Morlet's wavelets [directions, pixels, pixels], of mean 0 so that plain areas give 0.

    >>> waves = wavelets()
    >>> waves.shape, bool(abs(waves.sum((1, 2))).max() < 1e-12)
    ((8, 7, 7), True)
    """
    down, right = np.mgrid[-REACH : REACH + 1, -REACH : REACH + 1].astype(float)
    return np.stack([_morlet_wavelet(right, down, math.pi * turn / DIRECTIONS) for turn in range(DIRECTIONS)])


def _morlet_wavelet(right: Floats, down: Floats, angle: float) -> Any:
    along = right * math.cos(angle) + down * math.sin(angle)
    across = down * math.cos(angle) - right * math.sin(angle)
    bell = np.exp(-(along**2 + (SLANT * across) ** 2) / (2 * WIDTH**2)) * SLANT / (2 * math.pi * WIDTH**2)
    wave = bell * np.exp(1j * FREQUENCY * along)
    return wave - wave.sum() / bell.sum() * bell


Module = Any  # torch.nn.Module
Modules = list[Module]

STUDY_HINT = "or pass a seed for a simulation that is not released"
_RANDOM_LAYERS = (
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.AlphaDropout,
    nn.FeatureAlphaDropout,
    nn.RReLU,
)


def exact_network(module: Module) -> Module:
    """Return the same network of layers that treat every record by itself; refuse others (GuaranteeError)."""
    with torch.random.fork_rng(devices=[]):  # fresh layers draw weights, which are overwritten
        made = nn.Sequential(*_translated(module, "", set())).float()
    with torch.no_grad():
        for new, old in zip(made.parameters(), module.parameters(), strict=True):
            new.copy_(old).requires_grad_(False)
    return made


def require_row_axes(network: Module, row: tuple[int, ...]) -> None:
    """Refuse (SettingError) layers that do not fit rows of this shape; with fewer axes, some would use the axis of
    records as their own."""
    outputs = torch.zeros(2, *row)
    for layer in network:
        kind, axes = type(layer).__name__, outputs.dim() - 1
        min_axes = _row_axes(layer)
        fits = axes == min_axes if isinstance(layer, nn.Conv1d | nn.Conv2d) else axes >= min_axes
        try:
            outputs = layer.forward(outputs) if fits else None
        except RuntimeError:
            fits = False
        if outputs is None or len(outputs) != 2:  # the axis of records is nobody's
            fits = False
        if not fits:
            raise SettingError(f"network: {kind} does not fit its input for rows of shape {row}")
    if outputs.dim() != 2:
        raise SettingError("network: the last layer must give a list of numbers per row; add nn.Flatten()")


def _row_axes(layer: Module) -> int:
    """Return the least number of axes of a row, or the exact number before a convolution."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        return len(layer.kernel_size) + 1
    if isinstance(layer, Pooled):
        return len(layer.kernel)
    if isinstance(layer, Normalised):
        return max(layer.axes, 1)
    if isinstance(layer, Scaled):
        return len(layer.weight.shape)
    return {nn.ZeroPad2d: 2, Averaged: 2, Scattering: 3}.get(type(layer), 1)


def require_parameters(module: Module) -> None:
    """Refuse a module without parameters, or with parameters other than float32."""
    if not any(True for _ in module.parameters()):
        raise SettingError("network: expected a module with trainable parameters")
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise GuaranteeError(f"network: parameter {name} is {parameter.dtype}; expected torch.float32")


def _translated(part: Module, name: str, seen: set[int]) -> Iterator[Module]:
    """Yield the exact layers of the part called `name`; `seen` collects parameters used so far."""
    if type(part) not in (nn.Sequential, *_BUILDERS):
        raise _refused(part, name, _refusal_reason(part))
    _require_plain(part, name)
    if type(part) is nn.Sequential:
        if part._parameters:
            raise _refused(part, name, "the container has parameters of its own")
        for each, inner in part._modules.items():
            yield from _translated(inner, f"{name}.{each}" if name else each, seen)
        return
    try:
        made = _BUILDERS[type(part)](part)
    except _UnlistedError as error:
        raise _refused(part, name, str(error)) from None
    held, fresh = (
        [(key, value.shape) for layer in layers for key, value in layer.named_parameters()] for layers in ([part], made)
    )
    if held != fresh:
        raise _refused(part, name, "the names or shapes of the layer's parameters do not match its settings")
    own = {id(parameter) for parameter in part.parameters()}
    if len(own) < len(held) or own & seen:
        raise _refused(part, name, "the layer shares parameters with another layer")
    seen |= own
    yield from made


class _UnlistedError(Exception):
    """A listed layer has settings that are not."""


def _refused(part: Module, name: str, why: str) -> GuaranteeError:
    called = f"{type(part).__name__} ({name})" if name else type(part).__name__
    return GuaranteeError(
        f"network: {called}: {why}. A release needs an nn.Sequential of {LISTED_NAMES}; use these layers, {STUDY_HINT}"
    )


def _require_plain(part: Module, name: str) -> None:
    """Refuse hooks, overridden methods and buffers: the exact version would drop them silently."""
    held = vars(part)
    if any(held[key] for key in held if key.endswith(("_hooks", "_hooks_with_kwargs", "_hooks_always_called"))):
        raise _refused(part, name, "the layer has hooks, which could read records")
    if changed := sorted(set(held) & set(dir(type(part)))):
        raise _refused(part, name, f"the layer overrides {changed[0]}")
    if part._buffers and type(part) is not Scattering:
        raise _refused(part, name, "the layer has buffers, which could remember records")


def _refusal_reason(part: Module) -> str:
    if isinstance(part, nn.modules.batchnorm._BatchNorm):
        return "the layer mixes the records of a batch, so no clip bounds a single record; use GroupNorm"
    if isinstance(part, _RANDOM_LAYERS):
        return "the layer draws at random for a whole batch; remove it, because the noise already regularises"
    return "the layer is not known to process each record separately"


def _whole_numbers(setting: object, axes: int, least: int) -> None:
    """Refuse a setting other than one whole number per axis, or one for all."""
    numbers = setting if isinstance(setting, tuple | list) else (setting,) * axes
    if len(numbers) != axes or not all(type(each) is int and each >= least for each in numbers):
        raise _UnlistedError(f"expected settings of {axes} whole numbers >= {least}; other settings could mix records")


def _numbers(*settings: object) -> None:
    """Refuse settings other than plain numbers: a tensor could hold one per record."""
    if not all(type(each) in (int, float) for each in settings):
        raise _UnlistedError("expected settings that are plain numbers")


def _pooled(layer: Module, axes: int, **more: bool) -> Modules:
    kernel = layer.kernel if isinstance(layer, Pooled) else layer.kernel_size
    for setting, least in ((layer.stride, 1), (kernel, 1), (layer.padding, 0)):
        _whole_numbers(setting, axes, least)
    return [Pooled(layer.stride, kernel, layer.padding, axes=axes, **more)]


def _padded(layer: Module) -> Modules:
    _whole_numbers(layer.padding, 4, 0)
    return [nn.ZeroPad2d(tuple(layer.padding))]


def _elementwise(activation: Callable[..., Any], **settings: float) -> Modules:
    _numbers(*settings.values())
    return [Elementwise(activation, **settings)]


def _linear(layer: Module) -> Modules:
    return [nn.Linear(layer.in_features, layer.out_features, layer.bias is not None)]


def _convolution(layer: Module) -> Modules:
    if layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
        raise _UnlistedError("expected groups=1, padding_mode='zeros' and numbers as padding")
    settings = (layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    return [type(layer)(*settings, bias=layer.bias is not None)]


def _largest(layer: Module) -> Modules:
    if layer.ceil_mode or layer.return_indices or layer.dilation not in (1, (1,), (1, 1)):
        raise _UnlistedError("expected no ceil_mode, return_indices or dilation")
    return _pooled(layer, 1 if type(layer) is nn.MaxPool1d else 2)


def _averaged(layer: Module) -> Modules:
    if layer.ceil_mode or not layer.count_include_pad or getattr(layer, "divisor_override", None) is not None:
        raise _UnlistedError("expected count_include_pad=True, and no ceil_mode or divisor_override")
    return _pooled(layer, 1 if type(layer) is nn.AvgPool1d else 2, mean=True)


def _global_average(layer: Module) -> Modules:
    if layer.output_size not in (1, (1,), (1, 1)):
        raise _UnlistedError("expected output_size=1")
    return [Averaged()]


def _gelu(layer: Module) -> Modules:
    return [Elementwise(elementwise.gelu_by_tanh if layer.approximate == "tanh" else elementwise.gelu)]


def _group_norm(layer: Module) -> Modules:
    _whole_numbers(layer.num_groups, 1, 1)
    _numbers(layer.eps)
    made = Normalised(layer.num_groups, layer.eps)
    return [made, Scaled((layer.num_channels,), last=False)] if layer.affine else [made]


def _layer_norm(layer: Module) -> Modules:
    shape = tuple(layer.normalized_shape)
    _whole_numbers(shape, max(len(shape), 1), 1)  # of no axis it would be that of records
    _numbers(layer.eps)
    made = Normalised(0, layer.eps, len(shape))
    return [made, Scaled(shape, True, layer.bias is not None)] if layer.elementwise_affine else [made]


def _flatten(layer: Module) -> Modules:
    if layer.start_dim < 1:
        raise _UnlistedError("expected start_dim >= 1, so that records do not mix")
    return [nn.Flatten(layer.start_dim, layer.end_dim)]


def _unflatten(layer: Module) -> Modules:
    if not isinstance(layer.dim, int) or layer.dim < 1:
        raise _UnlistedError("expected dim >= 1, so that records do not mix")
    return [nn.Unflatten(layer.dim, layer.unflattened_size)]


_BUILDERS: dict[type, Callable[[Module], Modules]] = {
    nn.Linear: _linear,
    nn.Conv1d: _convolution,
    nn.Conv2d: _convolution,
    nn.MaxPool1d: _largest,
    nn.MaxPool2d: _largest,
    nn.AvgPool1d: _averaged,
    nn.AvgPool2d: _averaged,
    nn.AdaptiveAvgPool1d: _global_average,
    nn.AdaptiveAvgPool2d: _global_average,
    nn.ReLU: lambda layer: [nn.ReLU()],
    nn.LeakyReLU: lambda layer: _elementwise(elementwise.leaky_relu, below=layer.negative_slope),
    nn.Tanh: lambda layer: [Elementwise(elementwise.tanh)],
    nn.Sigmoid: lambda layer: [Elementwise(elementwise.sigmoid)],
    nn.SiLU: lambda layer: [Elementwise(elementwise.silu)],
    nn.ELU: lambda layer: _elementwise(elementwise.elu, alpha=layer.alpha),
    nn.Softplus: lambda layer: _elementwise(elementwise.softplus, beta=layer.beta, threshold=layer.threshold),
    nn.GELU: _gelu,
    nn.GroupNorm: _group_norm,
    nn.LayerNorm: _layer_norm,
    nn.Flatten: _flatten,
    nn.Unflatten: _unflatten,
    nn.Identity: lambda layer: [nn.Identity()],
    nn.ZeroPad2d: _padded,
    Pooled: lambda layer: _pooled(layer, len(layer.kernel), mean=layer.mean),
    Averaged: lambda layer: [Averaged()],
    Scattering: lambda layer: [Scattering()],
}
LISTED_NAMES = ", ".join(kind.__name__ for kind in _BUILDERS if kind.__module__.startswith("torch."))
