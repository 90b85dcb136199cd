"""Images on their way to a model: what they are, how large, and where they come from (case C-26).

A client's address is never fetched, and not passed on either, unless the user allows its host
(``allowedImageHosts``): whoever fetches it stands inside of the owner's network (case C-38).
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit

from Middleware.config.models import User
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import MalformedRequest
from Middleware.core.messages import Message
from Middleware.tools.net_policy import NetPolicy
from Middleware.tools.web_fetch import Fetch, FetchFailed, fetch
from Middleware.wire.images import is_address

_MIB: Final = 1024 * 1024
_FETCH_SECONDS: Final = 20.0
_HEAD_CHARACTERS: Final = 64
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRules:
    """What a user and an endpoint say about images."""

    max_bytes: int
    """Of one image."""
    hosts: tuple[str, ...] | None
    """Hosts whose images may be used, ``*`` for any. None: the back end may fetch what it likes, as
    in the reference; this server fetches nothing."""
    fetched_here: bool
    """Whether the back end wants data, so that an address is fetched by this server."""

    def allows(self, host: str) -> bool:
        return self.hosts is None or any(
            fnmatchcase(host, pattern.strip().lower()) for pattern in self.hosts
        )


def image_rules(user: User, *, takes_addresses: bool) -> ImageRules:
    hosts = user.allowed_image_hosts
    if hosts is None and user.dialect == "headrace":
        hosts = ()
    return ImageRules(
        max_bytes=int(user.max_image_megabytes * _MIB),
        hosts=hosts,
        fetched_here=not takes_addresses,
    )


class Images:
    """The images of one call, each looked at once. Raises MalformedRequest naming the message."""

    def __init__(
        self, rules: ImageRules, conversation: Sequence[Message], cancel: CancelToken
    ) -> None:
        self._rules = rules
        self._conversation = conversation
        self._cancel = cancel
        self._known: dict[str, str] = {}

    def of(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(
            replace(message, images=self.ready(message.images)) if message.images else message
            for message in messages
        )

    def ready(self, images: Sequence[str]) -> tuple[str, ...]:
        """The images as a back end may get them: data URIs, or addresses where it takes them."""
        return tuple(self._ready(image) for image in images)

    def _ready(self, image: str) -> str:
        if image not in self._known:
            self._known[image] = (
                self._from_address(image) if is_address(image) else self._from_data(image)
            )
        return self._known[image]

    def _from_data(self, image: str) -> str:
        data = image
        if image[:5].lower() == "data:":
            head, comma, data = image.partition(",")
            if not comma or not head.lower().endswith("base64"):
                raise self._wrong(image, "is a data URI without base64")
        data = data.strip()
        if len(data) * 3 // 4 > self._rules.max_bytes:
            raise self._too_large(image)
        media_type = _media_type(data)
        if media_type is None:
            raise self._wrong(
                image, "is neither a web address nor the base64 of a PNG, JPEG, GIF, WebP or BMP"
            )
        return f"data:{media_type};base64,{data}"

    def _from_address(self, image: str) -> str:
        try:
            host = (urlsplit(image).hostname or "").lower()
        except ValueError:
            host = ""
        if not host:
            raise self._wrong(image, "is a web address without a host")
        if not self._rules.allows(host):
            raise self._wrong(
                image,
                f"is a web address, and images of {host!r} are not allowed (`allowedImageHosts` of "
                "the user file). Send the image as a data URI",
            )
        if not self._rules.fetched_here:
            return image
        if self._rules.hosts is None:
            raise self._wrong(
                image,
                "is a web address, but the model server takes data only. Send the image as a "
                "data URI",
            )
        return self._fetched(image, host)

    def _fetched(self, image: str, host: str) -> str:
        """Only from that host. A host that is named in the file may lie anywhere; one that a
        pattern fits may not lie inside."""
        named = host in {pattern.strip().lower() for pattern in self._rules.hosts or ()}
        asked = Fetch(
            url=image,
            headers={"Accept": "image/*"},
            timeout_seconds=_FETCH_SECONDS,
            max_bytes=self._rules.max_bytes,
            policy=NetPolicy(block_private=not named, allowed_hosts=frozenset((host,))),
        )
        try:
            body = fetch(asked, self._cancel).body
        except FetchFailed as error:
            told = error.message.rstrip(".")
            raise self._wrong(image, f"could not be fetched: {told}") from error
        data = base64.b64encode(body).decode("ascii")
        media_type = _media_type(data)
        if media_type is None:
            raise self._wrong(image, "leads to something that is no PNG, JPEG, GIF, WebP or BMP")
        return f"data:{media_type};base64,{data}"

    def _too_large(self, image: str) -> MalformedRequest:
        most = self._rules.max_bytes / _MIB
        return self._wrong(image, f"is larger than {most:g} MB (`maxImageMegabytes`)")

    def _wrong(self, image: str, problem: str) -> MalformedRequest:
        for place, message in enumerate(self._conversation):
            if image in message.images:
                at = message.images.index(image)
                return MalformedRequest(
                    f"messages.{place}", f"holds an image (no. {at + 1}) that {problem}"
                )
        return MalformedRequest("messages", f"hold an image that {problem}")


def _media_type(data: str) -> str | None:
    """By the first bytes, whatever was said of it: some back ends refuse a wrong name."""
    head = "".join(data[:_HEAD_CHARACTERS].split())
    try:
        first = base64.b64decode(head[: len(head) // 4 * 4], validate=True)
    except (binascii.Error, ValueError):
        return None
    if first[:4] == b"RIFF" and first[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if first.startswith(start)), None)
