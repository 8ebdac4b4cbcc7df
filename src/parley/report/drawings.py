"""The figures of commands for a notebook, with descriptions in words."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from parley.decisions.games.negotiate import Negotiation
from parley.decisions.outlook.forecast import Forecast
from parley.errors import SettingError
from parley.learning.outcome.result import Result
from parley.learning.outcome.verdict import Verdict
from parley.numerals import counted
from parley.protocol.task import task_of
from parley.report.figures import curves, picture
from parley.report.figures.game_figures import negotiation_figure as deal_figure
from parley.report.figures.owner_gains import OwnerGain, owner_gains
from parley.report.summaries import summary
from parley.report.words.joined import share
from parley.report.words.negotiation import headline as deal_headline
from parley.terms import Terms
from parley.validate import Floats

DPI = 100
MAX_OWNERS_IN_WORDS = 12  # owners in the words


@dataclass(frozen=True, eq=False, repr=False)
class Drawing:
    """A figure that a notebook displays, with its description in words."""

    figure: Figure
    words: str

    def __repr__(self) -> str:
        return self.words

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()

    def save(self, path: str | Path) -> None:
        """Write the figure to a file in the format of its ending (.png, .svg, .pdf)."""
        picture.save(self.figure, path)


def figure(thing: Any, beside: Any = None) -> Drawing:
    """Draw a forecast, a negotiation or a result, next to what was found or forecast.

    Parameters
    ----------
    thing
        What `forecast` returned: what joining saves each owner. What `negotiate` returned: payoffs by budget, and what
        quality costs. What `train` returned for a simulation: relative fitness by round, or the task's own figure.
        Scores of owners, as `score` returns them: what joining saved each.
    beside
        Scores of the owners next to a forecast; a forecast next to the result of `train`.

    Returns
    -------
    Drawing
        A notebook displays it; `save` writes it to a file.

    Examples
    --------
    >>> import parley
    >>> figure("terms.toml")
    Traceback (most recent call last):
    parley.errors.SettingError: cannot draw an object of type str; give a result of forecast, negotiate, train or score
    """
    if isinstance(thing, Forecast):
        return _gains(thing, None if beside is None else list(beside))
    if isinstance(thing, Negotiation):
        return Drawing(deal_figure(thing), f"The figure shows each owner's payoff by budget. {deal_headline(thing)}")
    if isinstance(thing, Sequence) and thing and all(isinstance(each, Verdict) for each in thing):
        return _gains(None, list(thing))
    terms = getattr(thing, "terms", None)
    if isinstance(thing, Result) and thing.path is not None:
        return _path(thing, beside)
    own = task_of(terms).figure(thing) if isinstance(terms, Terms) else None
    if own is not None:
        return Drawing(own, " ".join(summary(thing).sentences[:1]))
    if not isinstance(thing, Result):
        raise SettingError(
            f"cannot draw an object of type {type(thing).__name__}; give a result of forecast, negotiate, train or "
            "score"
        )
    return _path(thing, beside)


def _path(result: Result, expected: Forecast | None) -> Drawing:
    """Draw relative fitness by round, next to the forecast of the same terms."""
    if result.path is None:
        why = (
            result.relative_fitness_undefined
            or "Parley does not measure the quality of a released model; draw a simulation instead"
        )
        raise SettingError(f"Parley cannot draw this result: {why}")
    path = np.asarray(result.path)
    drawn = curves.fitness_path(path, forecast=None if expected is None else expected.path)
    words = f"Relative fitness ψ after {counted(len(path), 'round')}: {np.median(path[-1]):.3g} (median)"
    return Drawing(drawn, words + ("." if expected is None else f", forecast {expected.path[-1]:.3g}."))


def _gains(expected: Forecast | None, verdicts: list[Verdict] | None) -> Drawing:
    """Draw the share of its error alone that joining saves each owner, sorted by number of rows."""
    sizes = _sizes(expected, verdicts)
    foreseen = {} if expected is None else {owner.name: owner for owner in expected.owners}
    judged = {} if verdicts is None else {verdict.owner: verdict for verdict in verdicts}
    names = [name for name in sorted(sizes, key=lambda name: (sizes[name], name)) if not judged or name in judged]
    forecast = np.array([_shares(vars(foreseen[name].gain), foreseen[name].alone) for name in names if foreseen])
    measured = np.array(
        [_shares(vars(judged[name].personal_gain), judged[name].cost_alone) for name in names if judged]
    )
    forecast_count = None if expected is None else len(_expected_to_gain(expected).intersection(names))
    title = _title(measured, forecast_count, len(names))
    ends = measured if judged else forecast
    savings_words = "; ".join(
        f"{name} {share(row[1])}" for name, row in zip(names[:MAX_OWNERS_IN_WORDS], ends, strict=False)
    )
    more = f"; and {len(names) - MAX_OWNERS_IN_WORDS} more" if len(names) > MAX_OWNERS_IN_WORDS else ""
    behind = forecast if foreseen and judged else [None] * len(names)
    verdict_words = [judged[name].measured if judged else foreseen[name].verdict for name in names]
    gains = [OwnerGain.from_ends(*each) for each in zip(names, ends, verdict_words, behind, strict=True)]
    about = "lines: 90% intervals on the owners' held-out rows" if judged else "lines: 90% intervals of the forecast"
    drawn = owner_gains(gains, title, "error saved by joining, in % of the error without joining", about, shares=True)
    return Drawing(drawn, f"{title}. Error saved by joining, in % of the error without joining: {savings_words}{more}.")


def _expected_to_gain(expected: Forecast) -> set[str]:
    """Return the owners expected to gain at the most likely heterogeneity."""
    return {
        part.name for part, gains in zip(expected.terms.owners, expected.outlook.chances >= 0.5, strict=True) if gains
    }


def _sizes(expected: Forecast | None, verdicts: list[Verdict] | None) -> dict[str, int]:
    if expected is not None:
        return {part.name: part.records for part in expected.terms.owners}
    return {verdict.owner: verdict.rows for verdict in verdicts or ()}


def _shares(gain: dict[str, float], alone: float) -> tuple[float, float, float]:
    return gain["low"] / alone, gain["mean"] / alone, gain["high"] / alone


def _title(found: Floats, hoped: int | None, count: int) -> str:
    """Say for how many owners joining saves something; `forecast_count` is the forecast number."""
    if not len(found):
        return f"Owners expected to gain by joining: {hoped} of {count}"
    foreseen = "" if hoped is None else f" (forecast: {hoped})"
    return f"Owners that gain by joining: {int((found[:, 1] > 0).sum())} of {count}{foreseen}"
