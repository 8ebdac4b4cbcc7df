"""Names as numbers from 0 to 1, six bytes each, exactly: an answer is a vector of floats, and a name may be part of
one."""

from collections.abc import Sequence

import numpy as np

from parley.validate import Floats

NUMBERS = 8  # that a name takes
BYTES = 6  # in each of them: whole numbers below 2^48 are exact floats, and so are their 2^-48th parts
LONGEST_NAME = NUMBERS * BYTES
UNIT = 2.0**-48


def encode(name: str) -> Floats | None:
    """The numbers of a name; None for one that has none: empty, longer than 48 bytes of UTF-8, or with a zero in it."""
    try:
        text = name.encode()
    except UnicodeEncodeError:  # half a character
        return None
    if not text or len(text) > LONGEST_NAME or b"\0" in text:
        return None
    padded = text.ljust(LONGEST_NAME, b"\0")
    return np.array([int.from_bytes(padded[k : k + BYTES], "big") * UNIT for k in range(0, LONGEST_NAME, BYTES)])


def decode(numbers: Sequence[float] | Floats) -> str | None:
    """The name that these numbers are; None if they are none, which an honest owner sends for an empty place only.

    >>> decode(encode("Krankenhaus Süd")), decode([0.0] * 8)
    ('Krankenhaus Süd', None)
    """
    words = [number / UNIT for number in numbers]
    if len(words) != NUMBERS or not all(0 <= word < 2**48 and word == int(word) for word in words):
        return None
    text = b"".join(int(word).to_bytes(BYTES, "big") for word in words).rstrip(b"\0")
    try:
        return text.decode() if text and b"\0" not in text else None
    except UnicodeDecodeError:
        return None
