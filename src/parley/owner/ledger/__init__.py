"""The ledger: what an owner promised, what it released, and the refusal to go beyond.

Check, record, then release: debit and noisy answer are committed in one transaction, and only the stored answer is
sent. A crash leaves both or neither. Asked the same question again, the owner sends the stored answer at no cost.
"""

from parley.owner.ledger.account import AnyLedger, Cost, Facts, Release, StudyLedger
from parley.owner.ledger.ledger import Ledger
from parley.owner.ledger.opening import begun

__all__ = ["AnyLedger", "Cost", "Facts", "Ledger", "Release", "StudyLedger", "begun"]
