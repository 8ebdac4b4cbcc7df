"""The demo: forty credit unions, one of them large, that decide whether to learn together."""
