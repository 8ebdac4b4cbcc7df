"""Tests of networks run on every device at hand: a processor, and a GPU where PyTorch sees one."""

import pytest


def _devices():
    try:
        import torch
    except ImportError:
        return ["cpu"]
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.fixture(params=_devices())
def device(request):
    return request.param
