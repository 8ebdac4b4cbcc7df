"""Know what the joint model will be worth before any data moves."""

from parley.decisions.forecasting.coalition import best_coalition
from parley.decisions.forecasting.consortium_verdict import ConsortiumVerdict
from parley.decisions.forecasting.forecast import Forecast, forecast, worth_spending
from parley.decisions.forecasting.heterogeneity import Heterogeneity
from parley.decisions.forecasting.joining import Interval
from parley.decisions.forecasting.noise_kinds import KindForecast, NoiseComparison, compare_noise
from parley.decisions.forecasting.owner_forecast import OwnerForecast
from parley.decisions.forecasting.planner import Choice, Proposal, plan
from parley.decisions.forecasting.sources import ReleasedMoments, Sample, Source, Stated
from parley.decisions.forecasting.worth import Worth, require_worth, worth

__all__ = [
    "Choice",
    "ConsortiumVerdict",
    "Forecast",
    "Heterogeneity",
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
    "worth_spending",
]
