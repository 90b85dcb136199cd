"""What the text of an image is: a data URI, bare base64 or a web address (config-files §13.6)."""

import re
from dataclasses import dataclass
from typing import Final

from Middleware.core.errors import RequestError

_BARE: Final = re.compile(r"[A-Za-z0-9+/]{98,}={0,2}")
_FORMATS: Final = (
    # The beginnings of files, as base64 shows them.
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("Qk", "image/bmp"),
)


@dataclass(frozen=True, slots=True)
class InlineImage:
    """An image that came with its bytes."""

    media_type: str | None
    """None when the beginning of the data tells nothing."""
    data: str
    """Base64."""


def is_address(image: str) -> bool:
    return image[:8].lower().startswith(("http://", "https://"))


def parse_inline(image: str) -> InlineImage | None:
    """The image behind a data URI or behind bare base64; None for anything else.

    Bare base64 counts from 100 characters on, in whole groups of four: a shorter text is more
    likely a name.
    """
    if image[:5].lower() == "data:":
        head, comma, data = image.partition(",")
        kind, _, rest = head[5:].partition(";")
        if not comma or not rest.lower().endswith("base64") or not kind.startswith("image/"):
            return None
        return InlineImage(kind, data.strip())
    if len(image) % 4 == 0 and _BARE.fullmatch(image):
        return InlineImage(_detected(image), image)
    return None


def bare_base64(image: str) -> str:
    """For servers that want base64 with nothing around it. What is neither that nor an address
    is passed on; raises RequestError for an address, which they cannot fetch (case C-26).
    """
    if is_address(image):
        raise RequestError(
            "An image is given by its address, but the model server takes image data only. "
            "Send the image as a data URI."
        )
    inline = parse_inline(image)
    return inline.data if inline else image


def _detected(data: str) -> str | None:
    return next((kind for start, kind in _FORMATS if data.startswith(start)), None)
