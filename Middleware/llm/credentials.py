"""The key of an endpoint: how it is sent, and that it is never said (cases C-33, C-39)."""

from Middleware import __version__
from Middleware.config.models import Endpoint
from Middleware.core.errors import ConfigError
from Middleware.llm.addresses import Address
from Middleware.wire.backend_errors import BackendVoice


def voice_of(endpoint: Endpoint, address: Address) -> BackendVoice:
    """What makes errors for ``endpoint``, none of its secrets in them."""
    secrets = (key_of(endpoint), *address.secrets)
    # Longer ones first: one may be a part of another.
    return BackendVoice(endpoint.name, tuple(sorted(filter(None, secrets), key=len, reverse=True)))


def key_of(endpoint: Endpoint) -> str:
    """The key without the line end that keys from files and variables often have."""
    return endpoint.api_key.strip()


def plain_headers() -> dict[str, str]:
    """The headers of every request to a model server."""
    return {
        "User-Agent": f"Headrace/{__version__}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        # Streams are not worth compressing, and a compressor holds tokens back.
        "Accept-Encoding": "identity",
    }


def bearer_headers(endpoint: Endpoint, address: Address, *, file: str) -> dict[str, str]:
    """Headers with the endpoint's key; without one, no empty ``Authorization`` is sent."""
    headers = plain_headers()
    key = checked_key(endpoint, file=file)
    if key:
        headers["Authorization"] = f"Bearer {key}"
    elif address.credentials is not None:
        headers["Authorization"] = address.credentials
    return headers


def checked_key(endpoint: Endpoint, *, file: str) -> str:
    """The key, empty when there is none. Raises ConfigError for one that cannot be sent."""
    key = key_of(endpoint)
    if key and not (key.isascii() and key.isprintable()):
        raise ConfigError(
            "The key holds a character that no HTTP header can hold.",
            file=file,
            where="apiKey",
            remedy="Copy it again, without line breaks or quotation marks.",
        )
    return key
