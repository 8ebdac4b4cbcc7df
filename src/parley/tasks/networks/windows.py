"""What a convolution looks at, window by window: a view of its images, so that arranging it is one copy on any device.

PyTorch's own `nn.functional.unfold` copies image by image: on a GPU thousands of launches for a batch.
"""

from typing import Any

from torch import nn

Module = Any  # torch.nn.Conv1d or torch.nn.Conv2d
Tensor = Any  # torch.Tensor


def windows(layer: Module, images: Tensor) -> Tensor:
    """The numbers that a convolution with padding by zeros multiplies with its weight at each of its places [n,
    channels, rows, columns, height, width], of images [n, channels, ...]; no copy but that of padded images. Of
    sequences [n, channels, places, width].

    >>> import torch
    >>> windows(nn.Conv2d(1, 4, 3, stride=2), torch.arange(25.0).reshape(1, 1, 5, 5))[0, 0, 0, 1, 0]
    tensor([2., 3., 4.])
    """
    frame = [width for width in reversed(layer.padding) for _ in range(2)]
    seen = nn.functional.pad(images, frame) if any(frame) else images
    for axis, (kernel, apart, stride) in enumerate(zip(layer.kernel_size, layer.dilation, layer.stride, strict=True)):
        seen = seen.unfold(2 + axis, (kernel - 1) * apart + 1, stride)
    return seen[(..., *(slice(None, None, apart) for apart in layer.dilation))]
