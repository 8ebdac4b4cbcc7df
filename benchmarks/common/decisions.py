"""Was the advice right? Cases of owners that were told to join or to stay, counted."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

JOIN, STAY, UNKNOWN = "join", "stay", "unknown"
CLEAR = 2.0  # standard errors from zero from which a gain counts as seen


@dataclass(frozen=True)
class Case:
    """One owner at one eps: what joining gained it in each training, less what makes it worth while, and what it had
    been told on some of the trainings' splits, seeing its training rows alone."""

    group: str
    epsilon: float
    owner: str
    gains: tuple[float, ...]
    advice: tuple[str, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.gains))

    @property
    def error(self) -> float:
        return float(np.std(self.gains, ddof=1) / np.sqrt(len(self.gains)))

    @property
    def truth(self) -> str:
        """What would have been right; unknown within two standard errors of no gain."""
        if not abs(self.mean) > CLEAR * self.error:
            return UNKNOWN
        return JOIN if self.mean > 0 else STAY

    def share(self, said: str) -> float:
        """How often this was said. Each split is another table that the owner might have had: so often would it have
        been told so."""
        return self.advice.count(said) / len(self.advice)


@dataclass(frozen=True)
class Tally:
    """How often advice was right in the cases whose truth is clear; who was told that nothing can be said counts in
    `unknown` alone."""

    cases: int
    gainers: int  # owners at one eps that joining clearly helps
    losers: int  # and that it clearly hurts
    right: float  # of advice that was given
    balanced: float  # mean of the same over gainers and losers; NaN where one of them is missing
    unknown: float  # of all advice to them

    @property
    def hurt(self) -> float:
        return self.losers / self.cases if self.cases else np.nan

    @classmethod
    def of(cls, cases: Iterable[Case]) -> "Tally":
        """
        >>> gains, harms = (0.9, 1.0, 1.1), (-0.9, -1.0, -1.1)
        >>> each = (("a", gains), ("b", gains), ("c", harms))
        >>> made = [Case("g", 1.0, name, values, (JOIN,)) for name, values in each]
        >>> round(Tally.of(made).right, 3), Tally.of(made).balanced
        (0.667, 0.5)
        """
        cases = list(cases)
        by_truth = {truth: [case for case in cases if case.truth == truth] for truth in (JOIN, STAY)}
        clear = by_truth[JOIN] + by_truth[STAY]
        rates = [_right(by_truth[truth], truth) for truth in (JOIN, STAY)]
        given = sum(1 - case.share(UNKNOWN) for case in clear)
        correct = sum(case.share(case.truth) for case in clear)
        return cls(
            cases=len(cases),
            gainers=len(by_truth[JOIN]),
            losers=len(by_truth[STAY]),
            right=correct / given if given else np.nan,
            balanced=float(np.mean(rates)),
            unknown=1 - given / len(clear) if clear else np.nan,
        )


def _right(cases: Sequence[Case], truth: str) -> float:
    given = sum(1 - case.share(UNKNOWN) for case in cases)
    return sum(case.share(truth) for case in cases) / given if given else np.nan
