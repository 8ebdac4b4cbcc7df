"""Know what the joint model will be worth before any data moves."""

from parley.forecasting.coalition import best_coalition
from parley.forecasting.differences import Differences
from parley.forecasting.forecast import Forecast, OwnerForecast, forecast
from parley.forecasting.joining import Interval
from parley.forecasting.noise_kinds import KindForecast, NoiseComparison, compare_noise
from parley.forecasting.planner import Choice, Proposal, plan
from parley.forecasting.sources import ReleasedMoments, Sample, Source, Stated
from parley.forecasting.worth import Worth, require_worth, worth

__all__ = [
    "Choice",
    "Differences",
    "Forecast",
    "Interval",
    "KindForecast",
    "NoiseComparison",
    "OwnerForecast",
    "Proposal",
    "ReleasedMoments",
    "Sample",
    "Source",
    "Stated",
    "Worth",
    "best_coalition",
    "compare_noise",
    "forecast",
    "plan",
    "require_worth",
    "worth",
]
