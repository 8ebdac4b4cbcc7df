"""All errors that Parley raises on purpose.

Each is one sentence: what was wrong, where, and what to do. No message holds a value read from a private table. A
`Refusal` is an owner's answer to a query that it will not release; it costs nothing and changes nothing.
"""

from typing import ClassVar


class ParleyError(Exception):
    """A mistake or refusal that Parley explains in one sentence."""


class SettingError(ParleyError, ValueError):
    """An argument lies outside its range."""


class NoOptimumError(SettingError):
    """The cost has no minimum on these data, as for separable classes: there is no best model to compare with."""


class TermsError(ParleyError):
    """The terms file cannot be read, or says something impossible."""


class DataError(ParleyError):
    """A table does not fit the terms."""


class StalePinsError(DataError):
    """Preprocessing constants were pinned for other terms or another public sample."""


class DatabaseError(DataError):
    """A database cannot be reached or did not answer a query; nothing of it was kept."""


class ModelError(ParleyError):
    """A saved model cannot be read."""


class NoEquilibriumError(ParleyError):
    """No profile was found from which nobody gains by deviating alone."""


class GuaranteeError(ParleyError):
    """The call would have broken a privacy guarantee, so nothing was done."""


class BelowBaselineError(ParleyError):
    """The joint model is forecast to be worse than one that asks nobody; nothing was spent."""


class DiskError(ParleyError, OSError):
    """A file cannot be written; no part of it was."""

    def __str__(self) -> str:
        return str(self.args[0])


class StateFolderError(ParleyError):
    """The folder for this account's state cannot be made or trusted."""


class LedgerError(ParleyError):
    """The ledger cannot be opened, read or written; nothing was released."""


class OtherBooksError(LedgerError):
    """The table, or one with some of its people, has another ledger; nothing was spent."""


class BrokenChainError(LedgerError):
    """The ledger's rows do not follow from each other: the file was changed."""


class MissingMemoryError(LedgerError):
    """The record of where the ledger or journal ended is missing: nobody can tell if it is the latest."""


class CertificateError(ParleyError):
    """A certificate or key cannot be made, read or trusted."""


class ExchangeError(ParleyError):
    """A run between machines cannot continue; its progress is kept."""


class ContradictionError(ExchangeError):
    """An owner's message contradicts the terms or its earlier messages; the run ends, unlike for a late owner."""


class Refusal(ParleyError):  # noqa: N818 - a refusal is an answer, not a fault
    """The owner will not answer this query. Nothing was spent or stored."""

    code: ClassVar[str] = "refused"


class UnknownTerms(Refusal):
    """Nobody at this owner accepted these terms for this learner."""

    code = "unknown-terms"


class NotOffered(Refusal):
    """The other party's version does not know this call."""

    code = "not-offered"


class BudgetExhausted(Refusal):
    """The answer would exceed the promised budget."""

    code = "budget-exhausted"


class OutOfOrder(Refusal):
    """The query is not the next round of its agreement."""

    code = "out-of-order"


class Malformed(Refusal):
    """The query has the wrong shape or type, or holds NaN or infinity."""

    code = "malformed"


class OutsideBox(Refusal):
    """The parameter lies outside the agreed box."""

    code = "outside-box"


class ContentMismatch(Refusal):
    """This query id was already used for another question."""

    code = "content-mismatch"


class AbortedRound(Refusal):
    """This round cannot be finished any more: its cost stays spent, and its question never gets a second noise."""

    code = "void-round"


class RolledBack(Refusal):
    """Another party saw a later end of a ledger or journal than the one that it now has: it went back in time."""

    code = "rolled-back"


class Unavailable(Refusal):
    """The owner cannot answer now: its ledger or machine is in trouble. Ask the same question again."""

    code = "unavailable"


class TooLate(Refusal):
    """The hosts have already settled whose answers this round adds up."""

    code = "too-late"
