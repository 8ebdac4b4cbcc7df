"""What noise costs: exact budgets and how they compose."""

from parley.accounting.budget import exact, per_round, shared_record_epsilon

__all__ = ["exact", "per_round", "shared_record_epsilon"]
