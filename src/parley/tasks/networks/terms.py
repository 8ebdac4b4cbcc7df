"""What terms must say about networks."""

import math
from typing import Any, ClassVar

from parley.terms import Model, Terms
from parley.terms.algorithms import PrivateSGDRules
from parley.terms.rules import AlgorithmRules, Rules
from parley.terms.sections import Learning

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
LAYERS = (64, 32)
LEAST_CLIP, MOST_CLIP = 1e-6, 1e6  # float32 gradients are told apart from nothing, and clipped, in between
_USELESS = ("regularisation", "class_weight", "radius", "components", "whitening", "basis", "preparation")


def image_shape(name: str) -> tuple[int, int, int] | None:
    """(channels, height, width) of the rows that a network of this name looks at; None where it looks at no image."""
    if name not in IMAGES:
        return None
    return COLOUR if name in OF_COLOURS else GREY


class NetworksRules(Rules):
    """A network takes numbers within declared bounds, or scaled by a public sample, and says one for each class."""

    expected: ClassVar = {
        "architecture": f"one of {', '.join(ARCHITECTURES)}",
        "layers": "widths of hidden layers, such as [64, 32]",
    }

    def usual_model(self, content: dict[str, Any]) -> dict[str, Any]:
        """A perceptron of two hidden layers where nothing else is said; constants are the layers' own."""
        said = {key: value for key, value in content.items() if value is not None}
        usual = {"architecture": "mlp", "intercept": False, **said}
        if usual["architecture"] == "mlp":
            usual.setdefault("layers", list(LAYERS))
        return usual

    def check_model(self, model: Model) -> None:
        """Refuse keys that networks have no use for, and names of networks that are not listed."""
        for key in _USELESS:
            if getattr(model, key) not in (None, {}, ()):
                raise ValueError(f"{key}|expected none for networks")
        if model.architecture not in ARCHITECTURES:
            raise ValueError(f"architecture|expected one of {', '.join(ARCHITECTURES)}: no code travels")
        if model.intercept:
            raise ValueError("intercept|expected none for networks: every layer has constants of its own")
        if model.layers is not None and model.architecture != "mlp":
            raise ValueError("layers|expected only beside architecture = 'mlp'")
        shape = image_shape(model.architecture)
        if shape is not None and (model.features is None or len(model.features) != math.prod(shape)):
            raise ValueError(
                f"features|expected {math.prod(shape)} columns beside {model.architecture!r}: images of {shape[1]} by "
                f"{shape[2]}" + (" in three colours" if shape[0] == 3 else "")
            )
        if not model.classifies and model.target not in model.bounds:
            raise ValueError(f"bounds.{model.target}|expected [low, high] of the target: what is beyond is cut")

    def check(self, terms: Terms) -> None:
        """Refuse what has no meaning, or no proof yet, beside networks."""
        learning, privacy = terms.learning, terms.privacy
        if learning.start is not None:
            raise ValueError("learning.start|expected none for networks: they begin at drawn weights, which are public")
        for key in ("score_epsilon", "scale_epsilon", "difference_epsilon", "clip_norm"):
            if getattr(privacy, key) is not None:
                raise ValueError(f"privacy.{key}|expected none for networks")
        if privacy.clip is None or not LEAST_CLIP <= privacy.clip <= MOST_CLIP:
            raise ValueError(
                f"privacy.clip|expected a number from {LEAST_CLIP:g} to {MOST_CLIP:g} for networks: nothing else "
                "bounds a record's gradient"
            )


class NetworkSGDRules(PrivateSGDRules):
    """Every round draws each record in secret, with probability 1/`batches`; steps shrink along half a cosine."""

    asks: ClassVar[str] = "network-gradient"
    sampling: ClassVar[str] = "poisson"
    why: ClassVar[str] = "for networks: owners draw their records in secret"

    def usual(self, content: dict[str, Any]) -> dict[str, Any]:
        return super().usual({"sampling": self.sampling, "optimiser": "momentum", **content})

    def check_learning(self, learning: Learning) -> None:
        """Refuse epochs that do not add up, batches that anybody can work out, and steps that nobody chose."""
        super().check_learning(learning)
        if learning.sampling != self.sampling:
            raise ValueError(f"sampling|expected {self.sampling!r} {self.why}")
        if learning.step == "auto":
            raise ValueError("step|expected a number for networks: no bound says how long steps may be")

    def tells_heterogeneity(self, norm: str) -> bool:
        return False


RULES = NetworksRules()
ALGORITHM: AlgorithmRules = NetworkSGDRules()
