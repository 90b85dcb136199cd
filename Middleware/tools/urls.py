"""Reading a URL once, so that what is checked is what is connected to.

The guard and the connection get the same parts; nothing parses the text a second time.
"""

import base64
import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote, unquote, urljoin

_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_.\-]*[a-z0-9_])?\.?")
_AUTHORITY: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://([^/?#]*)")
_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"
_LONGEST: Final = 65536


class BadUrl(ValueError):
    """What is wrong with a URL; completes "The URL …"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Url:
    """An http or https URL."""

    scheme: str
    host: str
    """Lower case, ASCII, without brackets."""
    port: int
    target: str
    """Path and query, percent-encoded."""
    userinfo: str = ""
    """``name:password`` as written; empty when there is none."""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and, unless it is the usual one, port: the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        """Without userinfo."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def basic(self) -> str | None:
        """The Authorization header that the userinfo stands for."""
        if not self.userinfo:
            return None
        return "Basic " + base64.b64encode(unquote(self.userinfo).encode()).decode()

    def without_dot(self) -> "Url":
        """The same with a host that is not spelled with a dot at its end."""
        return replace(self, host=self.host.removesuffix("."))


def parse_url(text: str) -> Url:
    """Raises BadUrl for what is no http or https URL, or could be read in two ways."""
    text = text.strip()
    if len(text) > _LONGEST:
        raise BadUrl("is too long")
    scheme = text.partition(":")[0].lower()
    found = _AUTHORITY.match(text)
    if scheme not in _PORTS or found is None:
        raise BadUrl("does not begin with http:// or https://")
    userinfo, host, port = _authority(found[1])
    rest = text[found.end() :].partition("#")[0]
    path, mark, query = rest.partition("?")
    return Url(
        scheme=scheme,
        host=host,
        port=port or _PORTS[scheme],
        target=quote(path, safe=_SAFE) + mark + quote(query, safe=_SAFE)
        if path
        else f"/{mark}{quote(query, safe=_SAFE)}",
        userinfo=userinfo,
    )


def _authority(text: str) -> tuple[str, str, int | None]:
    userinfo, at, place = text.rpartition("@")
    if at and not re.fullmatch(r"[\w.~!$&'()*+,;=:%\-]*", userinfo, re.ASCII):
        raise BadUrl("has a user name that is not percent-encoded")
    found = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{0,5}))?", place)
    if found is None:
        raise BadUrl("names no server")
    port = int(found[2]) if found[2] else None
    if port is not None and not 0 < port < 65536:
        raise BadUrl("has a port that does not exist")
    return userinfo, _host(found[1]), port


def _host(text: str) -> str:
    if text.startswith("["):
        try:
            address = ipaddress.IPv6Address(text[1:-1])
        except ValueError:
            address = None
        if address is None or address.scope_id is not None:
            raise BadUrl("has brackets around what is no IPv6 address")
        return str(address)
    try:
        host = text.lower() if text.isascii() else text.encode("idna").decode().lower()
    except UnicodeError:
        raise BadUrl("names a server in letters that no name has") from None
    if not _NAME.fullmatch(host) or ".." in host:
        raise BadUrl("names no server")
    return host


def join(base: Url, location: str) -> Url:
    """Where a redirect leads. Raises BadUrl when that is no http or https URL."""
    try:
        return parse_url(urljoin(base.text, location.strip()))
    except ValueError as error:
        raise BadUrl(str(error)) from None


def authority_end(text: str) -> int:
    """How far the part of a URL's text reaches that decides where it leads."""
    found = _AUTHORITY.match(text)
    return found.end() if found else len(text)


def has_scheme(text: str) -> str | None:
    """The scheme a text begins with, in lower case; None for ``host:port`` and the like."""
    found = re.match(r"\s*([A-Za-z][A-Za-z0-9+.\-]*):(?!\d+(?:[/?#]|$))", text)
    return found[1].lower() if found else None
