"""Ids of requests: 32 hex digits that nobody can guess."""

import hashlib
import itertools
import os


class RequestIds:
    """Safe to call from any thread.

    A keyed hash of a counter rather than ``uuid4``: that asks the system for random bytes each
    time, which costs more than everything else that this server does before a run begins.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._numbers = itertools.count()

    def __call__(self) -> str:
        number = next(self._numbers).to_bytes(8, "big")
        return hashlib.blake2b(number, key=self._key, digest_size=16).hexdigest()
