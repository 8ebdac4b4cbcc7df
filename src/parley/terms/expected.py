"""Terms that somebody read, told from those that a file holds by now."""

import re

from parley.errors import SettingError
from parley.terms.agreement import Terms

DIGITS = 8  # of a hash, at least: fewer would fit other terms by chance


def require_expected(terms: Terms, expected: str | None) -> None:
    """Refuse terms whose hash does not begin with these digits; None: whatever terms they are."""
    if expected is None:
        return
    if re.fullmatch(f"[0-9a-f]{{{DIGITS},64}}", expected) is None:
        raise SettingError(f"--expect: expected the first {DIGITS} to 64 digits of the terms' hash")
    if not terms.hash.startswith(expected):
        raise SettingError(
            f"these are terms {terms.hash[:16]}…, and {expected[:16]}… were read: the file was changed meanwhile; read "
            "it again. Nothing was spent"
        )
