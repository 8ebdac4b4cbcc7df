"""Self-contained pages of runs, forecasts, deals and verdicts, in the sentences of the terminal."""
