"""How many of an owner's records are learned from, and how many are kept for scoring."""


def training_records(records: int, holdout: float) -> int:
    """How many of `records` rows remain when a share `holdout` is kept for scoring."""
    return records - held_out_records(records, holdout)


def held_out_records(records: int, holdout: float) -> int:
    """How many of `records` rows are kept for scoring."""
    return int(records * holdout)
