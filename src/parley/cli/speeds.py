"""`--speeds`: how fast owners are whose answers are used as they come, as people type it."""

from typing import Annotated

import typer

from parley.errors import SettingError
from parley.terms import Terms

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
