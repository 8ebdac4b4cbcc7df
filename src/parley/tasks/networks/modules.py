"""A module's copies, its parameters as one list of numbers, and what it says of rows."""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parley.validate import Floats

Module = Any  # torch.nn.Module
Tensor = Any  # torch.Tensor

AT_ONCE = 1024  # rows that are predicted at once


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
