"""Everything Parley raises on purpose.

Each error is one sentence: what was wrong, where, and what to do. No message ever holds a value read from a private
table. A `Refusal` is an owner's answer to a query that it will not release: it costs nothing and changes nothing.
"""

from typing import ClassVar


class ParleyError(Exception):
    """Any mistake or refusal that Parley explains in one sentence."""


class SettingError(ParleyError, ValueError):
    """An argument lies outside its range."""


class NoOptimumError(SettingError):
    """The cost falls for ever on these data, as where classes separate: there is no best model to compare with."""


class TermsError(ParleyError):
    """The terms file cannot be read, or says something impossible."""


class DataError(ParleyError):
    """A table does not fit the terms."""


class StalePinsError(DataError):
    """Public numbers were pinned for other terms, or another public sample, than these."""


class DatabaseError(DataError):
    """A database cannot be reached, or did not answer a query; nothing was kept of it."""


class ModelError(ParleyError):
    """A saved model cannot be read."""


class NoEquilibriumError(ParleyError):
    """No profile was found from which nobody gains by leaving alone."""


class GuaranteeError(ParleyError):
    """The call would have made a privacy guarantee untrue, so nothing was done."""


class BelowBaselineError(ParleyError):
    """The joint model is forecast to be worse than one for which nobody is asked; nothing was spent."""


class DiskError(ParleyError, OSError):
    """A file cannot be written; nothing of it was."""

    def __str__(self) -> str:
        return str(self.args[0])


class StateFolderError(ParleyError):
    """The folder for what this account's programs must remember cannot be made or trusted."""


class LedgerError(ParleyError):
    """The ledger cannot be opened, read or written; nothing was released."""


class OtherBooksError(LedgerError):
    """The table, or one with some of its people, has another ledger; nothing was spent."""


class BrokenChainError(LedgerError):
    """The ledger's rows do not follow from each other: somebody or something changed the file."""


class MissingMemoryError(LedgerError):
    """What says where the ledger or journal ended is not there: nobody can tell whether it is the latest."""


class CertificateError(ParleyError):
    """A certificate or key cannot be made, read or trusted."""


class ExchangeError(ParleyError):
    """A run between machines cannot go on; what was reached so far is kept."""


class ContradictionError(ExchangeError):
    """What an owner says contradicts the terms, or what it said before. It is not a late owner: the run ends, whatever
    the terms say of those."""


class Refusal(ParleyError):  # noqa: N818 - a refusal is an answer, not a fault
    """The owner will not answer this query. Nothing was spent, nothing was stored."""

    code: ClassVar[str] = "refused"


class UnknownTerms(Refusal):
    """No one at this owner accepted these terms for this learner."""

    code = "unknown-terms"


class NotOffered(Refusal):
    """The other party's version does not know this call."""

    code = "not-offered"


class BudgetExhausted(Refusal):
    """The answer would push what was spent past what was promised."""

    code = "budget-exhausted"


class OutOfOrder(Refusal):
    """The query is not the next round of its agreement."""

    code = "out-of-order"


class Malformed(Refusal):
    """The query has the wrong shape or type, or holds NaN or infinity."""

    code = "malformed"


class OutsideBox(Refusal):
    """The parameter lies outside the box that the terms agreed on."""

    code = "outside-box"


class ContentMismatch(Refusal):
    """This query id was already used for another question."""

    code = "content-mismatch"


class AbortedRound(Refusal):
    """This round cannot be finished any more: what it cost stays spent, and its question never gets a second noise."""

    code = "void-round"


class Unavailable(Refusal):
    """The owner cannot answer at the moment: its ledger or its machine is in trouble. Asking the same question again is
    right."""

    code = "unavailable"


class TooLate(Refusal):
    """The hosts settled already whose answers this round adds up."""

    code = "too-late"
