"""What people type about owners that no public rows tell: `--speeds` and `--differences`."""

from typing import TYPE_CHECKING, Annotated

import typer

from parley.errors import SettingError
from parley.terms import Terms

if TYPE_CHECKING:
    from parley.decisions.knowledge.heterogeneity import Heterogeneity

Differences = Annotated[
    str | None,
    typer.Option(
        metavar="MULTIPLE|JSON",
        help="How much owners differ: the variance between their best parameters, in units of the variance of an own "
        "estimate of the owner of median size, or what `parley differences --save` kept. 0: one law for all. Default: "
        "not known, from none to much.",
    ),
]
Speeds = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SPEED,...",
        help="Asynchronous terms: how many answers an owner gives in a unit of a virtual clock's time (0: none ever). "
        "Left out: all give their last at the same time.",
    ),
]


def read_paces(terms: Terms, text: str | None) -> dict[str, float] | None:
    """Owners' speeds as they are typed, refused here rather than after a forecast.

    >>> terms = Terms.from_dict({"model": {"kind": "linear-regression", "target": "y"}, "privacy": {"clip": 1.0},
    ...     "learning": {"algorithm": "gradient-descent", "decay": 0.0, "staleness": 5},
    ...     "owners": [{"name": name, "records": 10, "epsilon": 1.0} for name in "ab"]})
    >>> read_paces(terms, "a=20, b=1")
    {'a': 20.0, 'b': 1.0}
    """
    from parley.learning.algorithms.asynchronous import check_speeds

    if text is None:
        return None
    pairs = [(name.strip(), speed) for name, _, speed in (pair.partition("=") for pair in text.split(","))]
    try:
        found = {name: float(speed) for name, speed in pairs}
    except ValueError:
        raise SettingError(f"--speeds {text!r}: expected names and numbers such as bank-a=20,bank-b=1") from None
    if len(found) < len(pairs):
        raise SettingError(f"--speeds {text!r}: expected every owner once")
    check_speeds(terms, found)
    return found


def read_differences(text: str | None) -> "Heterogeneity | None":
    """How much owners differ, as it is typed; None: not known."""
    from parley.decisions.knowledge.heterogeneity import Heterogeneity

    if text is None:
        return None
    try:
        multiple = float(text)
    except ValueError:
        return Heterogeneity.load(text)
    return Heterogeneity.stated(multiple)
