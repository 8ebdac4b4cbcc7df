"""The keys and checks of terms for networks."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from parley.terms import Model
from parley.terms.algorithms import LOSSES, PrivateSGDRules
from parley.terms.keys import Count, Name
from parley.terms.rules import AlgorithmRules
from parley.terms.sections import CheckableTerms, Learning

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
IMAGE_ARCHITECTURES = ARCHITECTURES[2:]  # that look at rows as images
GREY, COLOUR = (1, 28, 28), (3, 32, 32)  # channels, height, width
OF_COLOURS = ("zawacki-cnn-9",)
DEFAULT_LAYERS = (64, 32)
LEAST_CLIP, MOST_CLIP = 1e-6, 1e6  # float32 gradients are told apart from nothing, and clipped, in between
UNUSED_KEYS = ("regularisation", "class_weight", "radius", "components", "whitening", "basis", "preparation")


def image_shape(name: str) -> tuple[int, int, int] | None:
    """Return (channels, height, width) of the images that this network takes, or None."""
    if name not in IMAGE_ARCHITECTURES:
        return None
    return COLOUR if name in OF_COLOURS else GREY


class NetworkModel(Model):
    """A network of numbers within declared bounds, or scaled by a public sample, with one output per class."""

    architecture: Name
    layers: Annotated[tuple[Count, ...], Field(min_length=1, max_length=20)] | None = None

    expected: ClassVar[Mapping[str, str]] = {
        "architecture": f"one of {', '.join(ARCHITECTURES)}",
        "layers": "widths of hidden layers, such as [64, 32]",
    }

    @classmethod
    def usual(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Return the content with defaults: a perceptron of two hidden layers, whose constants are its own."""
        said = {key: value for key, value in content.items() if value is not None}
        usual = {"architecture": "mlp", "intercept": False, **said}
        if usual["architecture"] == "mlp":
            usual.setdefault("layers", list(DEFAULT_LAYERS))
        return usual

    def check(self) -> None:
        """Refuse keys that networks do not use, and unlisted networks."""
        self.refuse(UNUSED_KEYS, "for networks")
        if self.architecture not in ARCHITECTURES:
            raise ValueError(
                f"architecture|expected one of {', '.join(ARCHITECTURES)}, because terms cannot contain code"
            )
        if self.intercept:
            raise ValueError("intercept|not allowed for networks, because every layer has its own biases")
        if self.layers is not None and self.architecture != "mlp":
            raise ValueError("layers|allowed only with architecture = 'mlp'")
        shape = image_shape(self.architecture)
        if shape is not None and (self.features is None or len(self.features) != math.prod(shape)):
            raise ValueError(
                f"features|expected {math.prod(shape)} columns with {self.architecture!r}, the pixels of a {shape[1]} "
                f"x {shape[2]} image" + (" in three colours" if shape[0] == 3 else "")
            )
        if not self.classifies and self.target not in self.bounds:
            raise ValueError(f"bounds.{self.target}|expected [low, high] of the target; values outside are clipped")

    def check_terms(self, terms: CheckableTerms) -> None:
        """Refuse settings that have no meaning, or no proof yet, for networks."""
        learning, privacy = terms.learning, terms.privacy
        if learning.start is not None:
            raise ValueError("learning.start|not allowed for networks, which start from random public weights")
        for key in ("score_epsilon", "scale_epsilon", "difference_epsilon"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|not allowed for networks")
        if privacy.clip is None or not LEAST_CLIP <= privacy.clip <= MOST_CLIP:
            raise ValueError(
                f"privacy.clip|expected a number from {LEAST_CLIP:g} to {MOST_CLIP:g} for networks, because nothing "
                "else bounds a record's gradient"
            )


class NetworkSGDRules(PrivateSGDRules):
    """Every round draws each record in secret with probability 1/`batches`; steps shrink along half a cosine."""

    asks: ClassVar[str] = "network-gradient"
    sampling: ClassVar[str] = "poisson"
    why: ClassVar[str] = "for networks: owners draw their records in secret"
    keys: ClassVar[Mapping[str, str]] = {k: what for k, what in PrivateSGDRules.keys.items() if k not in LOSSES}

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        return super().usual({"sampling": self.sampling, "optimiser": "momentum", **content})

    def check_learning(self, learning: Learning) -> None:
        """Refuse incomplete epochs, predictable batches, and steps without a number."""
        super().check_learning(learning)
        if learning.sampling != self.sampling:
            raise ValueError(f"sampling|expected {self.sampling!r} {self.why}")
        if learning.step == "auto":
            raise ValueError("step|expected a number; 'auto' is not available for networks")

    def tells_heterogeneity(self, norm: str) -> bool:
        return False


ALGORITHM: AlgorithmRules = NetworkSGDRules()
