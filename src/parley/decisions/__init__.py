"""Should we, and on what terms: forecasts and games."""
