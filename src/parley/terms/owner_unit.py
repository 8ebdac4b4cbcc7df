"""What terms must say where an owner as a whole is protected, not one person in its table."""

from parley.terms.catalogue import PREDICTION
from parley.terms.checkable import CheckableTerms
from parley.terms.sections import OWNER

ASKED = ("gradient", "update", "corrected", "statistics")  # questions whose answers are clipped as a whole


def check_owner_unit(terms: CheckableTerms) -> None:
    """Refuse (ValueError) owners as the unit where an answer is not clipped as a whole, or is about some rows only."""
    learning, privacy = terms.learning, terms.privacy
    if privacy.unit != OWNER:
        return
    if terms.task != PREDICTION or learning.rules.asks not in ASKED:
        raise ValueError(
            "privacy.unit|expected 'record' with this algorithm: an owner as a whole is hidden in gradients, local "
            "updates and second moments alone"
        )
    if learning.algorithm == "fedinfer":
        raise ValueError(
            "privacy.unit|expected 'record' beside fedinfer: its intervals are of moments that nobody scaled down; "
            "sufficient-statistics gives such a model without them"
        )
    if privacy.clip is None:
        raise ValueError(
            "privacy.clip|expected a number beside unit = 'owner': an answer is scaled down to it as a whole"
        )
    if privacy.person is not None:
        raise ValueError(
            "privacy.person|expected none beside unit = 'owner': all rows count, whoever they are about, and a table "
            "is replaced as a whole"
        )
    if privacy.shared_records > 1 or privacy.records_per_person > 1:
        raise ValueError(
            "privacy.unit|expected shared_records = 1 and records_per_person = 1 beside 'owner': a table is replaced "
            "as a whole, whoever is in it"
        )
    for key in ("score_epsilon", "scale_epsilon", "difference_epsilon"):
        if getattr(privacy, key) is not None:
            raise ValueError(
                f"privacy.{key}|expected none beside unit = 'owner': its noise would hide one person, not a table"
            )
