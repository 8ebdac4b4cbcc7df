"""Networks that terms can name, by the rows they take: listed here so that no code travels."""

ARCHITECTURES = (
    "logistic",
    "mlp",
    "zawacki-cnn",
    "chase-small",
    "chase-large",
    "zawacki-cnn-9",
    "vgg-11",
    "tanh-cnn",
    "scattering-linear",
)
IMAGES = ARCHITECTURES[2:]  # that look at rows as images
GREY, COLOUR = (1, 28, 28), (3, 32, 32)  # channels, height, width
OF_COLOURS = ("zawacki-cnn-9",)


def image_shape(name: str) -> tuple[int, int, int] | None:
    """(channels, height, width) of the rows that a network of this name looks at; None where it looks at no image."""
    if name not in IMAGES:
        return None
    return COLOUR if name in OF_COLOURS else GREY
