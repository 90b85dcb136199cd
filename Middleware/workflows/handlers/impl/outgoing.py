"""What WebFetch and CurlCommand share: their options, and where a variable decides the host."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from pydantic import StrictInt

from Middleware.config.models import Text
from Middleware.core.errors import ConfigError
from Middleware.tools.net_policy import NetPolicy
from Middleware.tools.proxies import Proxy, parse_proxy
from Middleware.tools.urls import authority_end
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.handlers.base.option_types import Exactly, Seconds
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.variables.pieces import Piece, joined

_DEFAULT_BYTES: Final = 10 * 1024 * 1024

OnError = Literal["raise", "return", "fail", "continue", "value", "route"]


class OutgoingOptions(NodeOptions):
    """What every node may say that calls a server of the author's or a user's choice."""

    timeout: Seconds = 30.0
    """Seconds for everything together."""
    on_error: OnError = "raise"
    """``raise`` (the same as ``fail``), or ``return``: the output tells of the failure. The words
    of every node work too."""
    proxy: Text = ""
    """``http://``, ``https://``, ``socks4://``, ``socks5://`` or ``socks5h://``. Proxies of the
    environment are not used."""
    max_response_bytes: StrictInt = _DEFAULT_BYTES
    """The longest body; 0: no limit."""
    block_private_addresses: Exactly | None = None
    """Whether addresses that are not public may not be called. Without it, hosts that a variable
    brings in are guarded so, and hosts that are written here are not."""
    allowed_hosts: tuple[Any, ...] | None = None
    """The only hosts that may be called, without ports."""


def policy_of(
    context: ExecutionContext, options: OutgoingOptions, *, host_is_data: bool
) -> NetPolicy:
    """The rules for a call. Raises ConfigError for a list that allows nothing."""
    blocks = options.block_private_addresses
    allowed: frozenset[str] | None = None
    if options.allowed_hosts is not None:
        entries = (context.render(entry).strip().lower() for entry in options.allowed_hosts)
        allowed = frozenset(filter(None, entries))
        if not allowed:
            raise ConfigError("`allowedHosts` names no host, so that nothing could be called.")
    return NetPolicy(host_is_data if blocks is None else blocks, allowed)


def proxy_of(context: ExecutionContext, options: OutgoingOptions) -> tuple[Proxy | None, NetPolicy]:
    """The proxy, and what may be called to reach it: any, unless a variable says where it is."""
    parts = context.pieces(options.proxy)
    text = joined(parts).strip()
    if not text:
        return None, NetPolicy()
    blocks = options.block_private_addresses is not False and leads_astray(parts)
    try:
        return parse_proxy(text), NetPolicy(block_private=blocks)
    except ValueError as error:
        raise ConfigError(f"`proxy` {error}.") from error


def cap_of(options: OutgoingOptions) -> int | None:
    return options.max_response_bytes if options.max_response_bytes > 0 else None


def leads_astray(parts: Sequence[Piece]) -> bool:
    """Whether a variable's data has a say in where a URL leads: in its scheme or its host."""
    text = joined(parts)
    blank = len(text) - len(text.lstrip())
    end = blank + authority_end(text[blank:])
    return any(start < end and length for start, length in _data_spans(parts))


def _data_spans(parts: Iterable[Piece]) -> Iterable[tuple[int, int]]:
    at = 0
    for piece in parts:
        if piece.is_data:
            yield at, len(piece.text)
        at += len(piece.text)


def failed(options: OutgoingOptions) -> bool:
    """Whether a failure is an error of the node, and not its output."""
    return options.on_error != "return"
