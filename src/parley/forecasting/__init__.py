"""Know what the joint model will be worth before any data moves."""

from parley.forecasting.coalition import best_coalition
from parley.forecasting.forecast import Forecast, Interval, OwnerForecast, forecast

__all__ = ["Forecast", "Interval", "OwnerForecast", "best_coalition", "forecast"]
