"""What somebody should look at twice before agreeing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TermsWarning:
    """Something in the terms that looks wrong; `about` names the key."""

    about: str
    sentence: str
