"""Terms of softmax regression for three classes."""

from samples import make_terms

ORDER = {"l1": 1, "l2": 2}
MECHANISM = {"l1": {}, "l2": {"privacy__mechanism": "gaussian", "privacy__delta": 1e-6}}
LOCAL = {"learning__algorithm": "federated-averaging", "learning__local_steps": 4, "learning__step": "auto"}


def softmax_terms(n=1, clip=None, norm="l2", weight=2.5, radius=5.0, bound=1.0, **overrides):
    """Three classes, three features within the bounds, no constant; one class counts for more."""
    features = ["x0", "x1", "x2"]
    return make_terms(
        n,
        model__kind="softmax-regression",
        model__categories={"y": ["low", "middle", "high"]},
        model__class_weight={"high": weight},
        model__bounds={name: [-bound, bound] for name in features},
        model__intercept=False,
        model__radius=radius,
        privacy__clip=clip,
        **MECHANISM[norm] | overrides,
    )
