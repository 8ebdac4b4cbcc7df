"""Which modules have gradients of single records, and how those are found."""

import copy
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from parley.errors import GuaranteeError, SettingError
from parley.validate import Floats

Module = Any  # torch.nn.Module
Tensor = Any  # torch.Tensor
Route = Literal["auto", "closed-form", "written"]

AT_ONCE = 1024  # rows that are predicted at once
_RANDOM = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout, nn.RReLU)


class Pooled(nn.Module):  # type: ignore[misc]
    """The largest of every two by two pixels, `stride` 1 or 2 apart: comparisons of whole arrays, whose slopes are
    added up in one order on every device; those of nn.MaxPool2d are not on a GPU."""

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, images: Tensor) -> Tensor:
        first, second = (
            (slice(None, -1), slice(1, None)) if self.stride == 1 else (slice(0, None, 2), slice(1, None, 2))
        )
        wide = torch.maximum(images[..., first], images[..., second])
        return torch.maximum(wide[..., first, :], wide[..., second, :])


class Averaged(nn.Module):  # type: ignore[misc]
    """The mean of every two by two pixels, added up in one order on every device; or of all pixels, in whichever order
    a device takes."""

    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, images: Tensor) -> Tensor:
        if self.whole:
            return images.mean((2, 3), keepdim=True)
        wide = images[..., 0::2] + images[..., 1::2]
        return (wide[..., 0::2, :] + wide[..., 1::2, :]) / 4


def sole_copy(module: Module) -> Module:
    """A copy of a module in training mode whose parameters ask for no gradient: slopes are taken by what layers say."""
    made = copy.deepcopy(module).train()
    for parameter in made.parameters():
        parameter.requires_grad_(False)
    return made


def set_parameters(module: Module, theta: Floats) -> None:
    """Give a module the parameters theta [P], as float32: beyond its range they are infinite."""
    with np.errstate(over="ignore"):
        numbers = torch.from_numpy(theta.astype(np.float32))
    begin = 0
    with torch.no_grad():
        for parameter in module.parameters():
            piece = numbers[begin : begin + parameter.numel()]
            parameter.copy_(piece.reshape(parameter.shape))
            begin += parameter.numel()


def parameters_of(module: Module) -> Floats:
    """The parameters of a module, one after the other [P]."""
    return np.concatenate([p.detach().cpu().double().numpy().reshape(-1) for p in module.parameters()])


def module_scores(module: Module, X: NDArray[np.float32]) -> Floats:
    """What a module says of rows [n, outputs]; as private as they are."""
    where = next(module.parameters()).device
    with torch.no_grad():
        parts = [torch.from_numpy(np.ascontiguousarray(X[at : at + AT_ONCE])) for at in range(0, len(X), AT_ONCE)]
        said = [module(part.to(where)).double().cpu().numpy() for part in parts or [torch.zeros(0, *X.shape[1:])]]
    return np.concatenate(said)


def require_row_functions(module: Module) -> None:
    """Refuse (GuaranteeError) modules of which it is known that a record's gradient is no function of that record."""
    if not any(True for _ in module.parameters()):
        raise SettingError("network: expected parameters to learn; this module has none")
    for name, part in module.named_modules():
        called = f"{type(part).__name__} ({name or 'the network'})"
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            raise GuaranteeError(
                f"network: {called} mixes the records of a batch, so that no clip bounds one of them; expected "
                "GroupNorm, or none"
            )
        if isinstance(part, nn.modules.instancenorm._InstanceNorm) and part.track_running_stats:
            raise GuaranteeError(f"network: {called} remembers records in its buffers; expected no running statistics")
        if isinstance(part, _RANDOM) and getattr(part, "p", 1.0) > 0:
            raise GuaranteeError(
                f"network: {called} draws at random for a whole batch, so that a record's share depends on who else "
                "was drawn; expected none: the noise regularises already"
            )
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float32:
            raise GuaranteeError(f"network: parameter {name} is {parameter.dtype}; expected torch.float32")


def closed_form_layers(module: Module, route: Route, rows: Tensor) -> list[Module] | None:
    """The layers that hold all parameters, in their order, where norms have a closed form; None: gradients are written
    out. Where a closed form is asked for and there is none, that is refused (GuaranteeError)."""
    _require_still(module, rows)
    why = _no_closed_form(module, rows) if route != "written" else "gradients are written out"
    if why is not None and route == "closed-form":
        raise GuaranteeError(f"network: no closed form for the norms of records' gradients: {why}")
    return None if why is not None else [part for part in module.modules() if _holds(part)]


def _holds(part: Module) -> bool:
    return any(True for _ in part.parameters(recurse=False))


def _no_closed_form(module: Module, rows: Tensor) -> str | None:
    """Why norms have no closed form; None: they have one."""
    layers = [part for part in module.modules() if _holds(part)]
    held = [id(p) for part in layers for p in part.parameters(recurse=False)]
    if len(set(held)) < len(held):
        return "parameters are tied, so that a gradient is a sum over several layers"
    for part in layers:
        if type(part) not in (nn.Linear, nn.Conv2d) or next(n for n, _ in part.named_parameters()) != "weight":
            return f"{type(part).__name__} is neither Linear nor Conv2d"
        if isinstance(part, nn.Conv2d) and (
            part.groups != 1 or part.padding_mode != "zeros" or isinstance(part.padding, str)
        ):
            return "a convolution has groups, or a padding that is no number of zeros"
    called: list[Module] = []
    hooks = [part.register_forward_hook(lambda each, taken, said: called.append(each)) for part in layers]
    with torch.no_grad():
        module(rows)
    for hook in hooks:
        hook.remove()
    if called != layers:
        return "layers are used several times, never, or in another order than they are listed"
    return None


def _require_still(module: Module, rows: Tensor) -> None:
    """Refuse buffers that change in forward: what they remember of records would have no noise."""
    before = {name: buffer.clone() for name, buffer in module.named_buffers()}
    with torch.no_grad():
        said = module(rows + 1)
    if not isinstance(said, torch.Tensor) or len(said) != len(rows):
        raise SettingError("network: expected a module that says something of every row it is given")
    for name, buffer in module.named_buffers():
        if buffer.shape != before[name].shape or not torch.equal(buffer, before[name]):
            raise GuaranteeError(
                f"network: buffer {name} changes in forward, and would remember records; expected none"
            )
