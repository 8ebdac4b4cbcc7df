"""Tasks: what owners do together, by kind of model or statistic."""
