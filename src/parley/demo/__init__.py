"""The demo's story: forty credit unions, one of them large, that ask whether to learn together."""
