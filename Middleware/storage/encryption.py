"""Separation and encryption by the key that a client shows (memory-and-state §20)."""

import base64
import hashlib
from functools import lru_cache
from typing import Any

_ITERATIONS = 100_000


def key_hash(api_key: str) -> str:
    """The folder of everything that belongs to a key."""
    return hashlib.sha256(api_key.encode()).hexdigest()[:16]


@lru_cache(maxsize=256)
def derived_key(api_key: str, user: str) -> bytes:
    """The Fernet key of a user's client: slow on purpose, so it is kept for the process."""
    salt = f"WilmerAI-v1-{hashlib.sha256(user.encode()).hexdigest()}"
    raw = hashlib.pbkdf2_hmac("sha256", api_key.encode(), salt.encode(), _ITERATIONS, dklen=32)
    return base64.urlsafe_b64encode(raw)


class Unreadable(Exception):
    """Bytes that this key cannot open."""


class Cipher:
    """Encrypts whole files for one client of one user."""

    def __init__(self, api_key: str, user: str) -> None:
        self._api_key = api_key
        self._user = user

    def encrypt(self, data: bytes) -> bytes:
        sealed: bytes = self._fernet().encrypt(data)
        return sealed

    def decrypt(self, data: bytes) -> bytes:
        """Raises Unreadable for plain text, another key and damaged bytes alike."""
        # Imported when first used: most servers encrypt nothing.
        from cryptography.fernet import InvalidToken

        try:
            opened: bytes = self._fernet().decrypt(data)
        except InvalidToken as error:
            raise Unreadable from error
        return opened

    def _fernet(self) -> Any:
        from cryptography.fernet import Fernet

        return Fernet(derived_key(self._api_key, self._user))
