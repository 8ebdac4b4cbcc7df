"""People's assumptions: knowledge instead of a public sample, how much owners differ, how fast they answer."""

from dataclasses import dataclass
from pathlib import Path

from parley.decisions.knowledge.heterogeneity import Heterogeneity
from parley.decisions.knowledge.sources import ReleasedMoments, Source, Stated
from parley.errors import SettingError
from parley.learning.algorithms.asynchronous import check_speeds
from parley.terms import Terms


@dataclass(frozen=True)
class Assumed:
    """Knowledge that replaces the terms' own public sample, and how much owners differ; None: not stated."""

    pilot: Path | None = None  # a public table
    moments: Path | None = None  # that owners released
    stated: Path | None = None  # assumptions
    differences: str | None = None  # a multiple, or what `parley heterogeneity --save` kept

    def read(self) -> tuple[str | Source | None, Heterogeneity | None]:
        """Return (the source of knowledge, how much owners differ)."""
        if sum(option is not None for option in (self.pilot, self.moments, self.stated)) > 1:
            raise SettingError("--pilot, --moments, --assume: expected at most one of these options")
        differ = read_differences(self.differences)
        if self.moments is not None:
            return ReleasedMoments.load(self.moments), differ
        if self.stated is not None:
            return Stated.load(self.stated), differ
        return None if self.pilot is None else str(self.pilot), differ


def read_speeds(terms: Terms, text: str | None) -> dict[str, float] | None:
    """Parse owners' speeds, and check them before a forecast rather than after it.

    >>> terms = Terms.from_dict({"model": {"kind": "linear-regression", "target": "y"}, "privacy": {"clip": 1.0},
    ...     "learning": {"algorithm": "gradient-descent", "decay": 0.0, "staleness": 5},
    ...     "owners": [{"name": name, "records": 10, "epsilon": 1.0} for name in "ab"]})
    >>> read_speeds(terms, "a=20, b=1")
    {'a': 20.0, 'b': 1.0}
    """
    if text is None:
        return None
    pairs = [(name.strip(), speed) for name, _, speed in (pair.partition("=") for pair in text.split(","))]
    try:
        found = {name: float(speed) for name, speed in pairs}
    except ValueError:
        raise SettingError(f"--speeds {text!r}: expected names and numbers such as bank-a=20,bank-b=1") from None
    if len(found) < len(pairs):
        raise SettingError(f"--speeds {text!r}: expected each owner only once")
    check_speeds(terms, found)
    return found


def read_differences(text: str | None) -> Heterogeneity | None:
    """Parse how much owners differ: a multiple or a file; None: unknown."""
    if text is None:
        return None
    try:
        multiple = float(text)
    except ValueError:
        return Heterogeneity.load(text)
    return Heterogeneity.stated(multiple)
