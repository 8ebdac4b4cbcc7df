"""What a convolution looks at, against PyTorch's own arrangement."""

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'parley-dp[torch]'")


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [(3, 1, 1, 1), (8, 2, 3, 1), ((2, 3), (2, 1), (0, 2), 1), (3, 1, 2, 2), ((3, 2), 2, 0, (1, 3))],
)
def test_windows_are_those_of_pytorch(kernel, stride, padding, dilation):
    from parley.tasks.networks.layer_gradients import windows

    images = torch.randn(5, 3, 11, 13, generator=torch.Generator().manual_seed(0))
    layer = torch.nn.Conv2d(3, 4, kernel, stride, padding, dilation)
    seen = windows(layer, images)
    wanted = torch.nn.functional.unfold(images, layer.kernel_size, layer.dilation, layer.padding, layer.stride)
    assert torch.equal(seen.permute(0, 1, 4, 5, 2, 3).reshape(wanted.shape), wanted)
    assert seen.shape[2:4] == layer(images).shape[2:]
