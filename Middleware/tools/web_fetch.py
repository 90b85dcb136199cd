"""Fetching a page the way that WebFetch promises (nodes §22, memory-and-state §22.3, S44).

Every hop is looked at before a byte is sent to it, and connects to an address that was looked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import quote

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError
from Middleware.tools.http_call import Answer, CallFailed, Limits, Request, Route, TooLarge, call
from Middleware.tools.net_policy import (
    OPEN,
    AddressBlocked,
    NetPolicy,
    Resolver,
    is_private,
    resolve,
    system_resolver,
)
from Middleware.tools.proxies import Proxy
from Middleware.tools.urls import BadUrl, Url, join, parse_url

MOST_REDIRECTS: Final = 10
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEPT_METHODS: Final = frozenset({"GET", "HEAD"})
_OF_A_BODY: Final = frozenset({"content-type", "content-length", "content-encoding"})
_GO_ALONG: Final = frozenset(
    {"accept", "accept-language", "accept-encoding", "cache-control", "content-type", "range"}
    | {"user-agent"}
)
"""Headers that another server may see; whatever else the author wrote may be a credential."""


class FetchFailed(Exception):
    """The fetch has failed. ``answer`` is what the server said, when it said something."""

    def __init__(self, message: str, answer: Answer | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.answer = answer


class TooSlow(WorkflowError):
    """The time for all of a call is over. Becomes a FetchFailed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"It did not finish within {seconds:g} s (timeout).")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """All that one fetch may do. ``url`` and the values of ``headers`` are rendered."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_seconds: float = 30.0
    """For everything together: names, connections, redirects, the body."""
    proxy: Proxy | None = None
    verify: bool = True
    ca_bundle: str | None = None
    follow_redirects: bool = True
    max_bytes: int | None = None
    policy: NetPolicy = OPEN
    proxy_policy: NetPolicy = OPEN
    guard_redirects: bool = True
    """Whether a redirect may not lead from a public address to one that is not, although the
    policy would allow it: where it leads, the other server said, not the author. Has no effect
    with a proxy, which knows names that we do not."""
    resolver: Resolver = system_resolver


def fetch(asked: Fetch, cancel: CancelToken) -> Answer:
    """The last answer of a chain of redirects. Raises FetchFailed, or the token's reason."""
    try:
        with cancel.limited(asked.timeout_seconds, TooSlow(asked.timeout_seconds)) as token:
            return _follow(asked, token)
    except TooSlow as error:
        raise FetchFailed(error.text) from error
    except (CallFailed, AddressBlocked) as error:
        raise FetchFailed(str(error)) from error
    except BadUrl as error:
        raise FetchFailed(f"The URL {error}.") from error


def _follow(asked: Fetch, cancel: CancelToken) -> Answer:
    url = parse_url(asked.url)
    headers = dict(asked.headers)
    if url.basic and "authorization" not in {name.lower() for name in headers}:
        headers["Authorization"] = url.basic
    request = Request(method=asked.method, url=url, headers=headers, body=asked.body)
    public = False
    for _ in range(MOST_REDIRECTS + 1):
        route = _route(asked, request.url, cancel, from_public=public)
        public = public or (asked.proxy is None and not is_private(route.addresses))
        limits = Limits.behind(asked.timeout_seconds, asked.max_bytes)
        answer, too_large = _answer(request, route, cancel, limits)
        location = answer.header("location") if answer.status in _REDIRECTS else None
        if location is None or not asked.follow_redirects:
            return _judged(answer, too_large)
        request = _redirected(request, answer.status, location)
    raise FetchFailed(f"There were more than {MOST_REDIRECTS} redirects.")


def _answer(
    request: Request, route: Route, cancel: CancelToken, limits: Limits
) -> tuple[Answer, TooLarge | None]:
    """The answer, cut at the cap. Only of an answer that is wanted that is a failure."""
    try:
        return call(request, route, cancel, limits), None
    except TooLarge as error:
        return error.answer, error


def _judged(answer: Answer, too_large: TooLarge | None) -> Answer:
    if answer.status >= 400:
        raise FetchFailed(f"The server answered {answer.status}.", answer)
    if too_large is not None:
        raise FetchFailed(str(too_large), answer) from too_large
    return answer


def _route(asked: Fetch, url: Url, cancel: CancelToken, *, from_public: bool) -> Route:
    """Look at where a hop leads. Raises AddressBlocked and CallFailed."""
    policy, proxy = asked.policy, asked.proxy
    if from_public and asked.guard_redirects:
        policy = replace(policy, block_private=True)
    policy.require_host(url.host)
    direct = Route(verify=asked.verify, ca_bundle=asked.ca_bundle)
    if proxy is None:
        addresses = _resolved(asked, url.host, url.port, cancel)
        return replace(direct, addresses=policy.require_addresses(url.host, addresses))
    target = url.host
    if policy.block_private or not proxy.resolves_names:
        # A proxy that is told the name would look it up again, and might find another address.
        found = policy.require_addresses(url.host, _resolved(asked, url.host, url.port, cancel))
        target = found[0]
    asked.proxy_policy.require_host(proxy.host)
    addresses = asked.proxy_policy.require_addresses(
        proxy.host, _resolved(asked, proxy.host, proxy.port, cancel)
    )
    return replace(
        direct,
        addresses=addresses,
        proxy=proxy,
        proxy_target=target,
        pinned=policy.block_private,
    )


def _resolved(asked: Fetch, host: str, port: int, cancel: CancelToken) -> tuple[str, ...]:
    try:
        return resolve(host, port, cancel, asked.resolver)
    except OSError as error:
        raise CallFailed(f"The host {host!r} cannot be resolved.") from error


def _redirected(request: Request, status: int, location: str) -> Request:
    # Locations are often written with letters that no URL has.
    url = join(request.url, quote(location, safe="!#$%&'()*+,/:;=?@[]~"))
    method, body = request.method, request.body
    headers = dict(request.headers)
    if status in (301, 302, 303) and method not in _KEPT_METHODS:
        method, body = "GET", None
        headers = {name: text for name, text in headers.items() if name.lower() not in _OF_A_BODY}
    if url.origin != request.url.origin:
        headers = {name: text for name, text in headers.items() if name.lower() in _GO_ALONG}
    return Request(method=method, url=url, headers=headers, body=body)
