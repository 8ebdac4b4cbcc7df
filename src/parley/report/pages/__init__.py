"""Self-contained pages of runs, forecasts, negotiations and verdicts, in the terminal's sentences."""
