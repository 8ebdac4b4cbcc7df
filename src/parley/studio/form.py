"""What a page's form says, read strictly."""

import math
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request

from parley.errors import SettingError

LARGEST = 1 << 20  # bytes of a form
MOST = 5000  # fields


async def fields(request: Request) -> dict[str, str]:
    """The form's fields; of several by one name the last."""
    return dict(await all_fields(request))


async def all_fields(request: Request) -> list[tuple[str, str]]:
    """The form's fields in their order."""
    body = await content(request, LARGEST)
    if body is None:
        raise SettingError("the form is too large")
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST)
    except ValueError:
        raise SettingError("the form cannot be read") from None


async def content(request: Request, most: int) -> bytes | None:
    """What a request brings; None, and no more is read: it is more than that many bytes."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            return None
    return bytes(body)


def field(form: Mapping[str, str], name: str) -> str:
    """A field that must be filled in."""
    found = form.get(name, "").strip()
    if not found:
        raise SettingError(f"{name.replace('_', ' ')}: missing")
    return found


def decimal(text: str, what: str) -> float:
    """A number."""
    try:
        found = float(text if text.isascii() and "_" not in text else "")  # not what only Python reads as a number
    except ValueError:
        raise SettingError(f"{what}: expected a number") from None
    if not math.isfinite(found):
        raise SettingError(f"{what}: expected a number")
    return found


def whole(text: str, what: str) -> int:
    """A whole number."""
    found = decimal(text, what)
    if found != int(found):
        raise SettingError(f"{what}: expected a whole number")
    return int(found)
