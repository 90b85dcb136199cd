"""How sure a model was of what it said, from the probabilities that some servers report."""

import math
from collections.abc import Iterable, Mapping
from typing import Any


class Confidence:
    """Gathers the log probabilities of the tokens of one answer."""

    __slots__ = ("_count", "_total")

    def __init__(self) -> None:
        self._count = 0
        self._total = 0.0

    def add(self, logprobs: Any) -> None:
        """The ``logprobs`` of a choice, whole or of a chunk; what is none is skipped."""
        if not isinstance(logprobs, Mapping):
            return
        for value in _values(logprobs):
            if isinstance(value, int | float) and math.isfinite(value) and value <= 0:
                self._count += 1
                self._total += value

    def value(self) -> float | None:
        """The geometric mean of the probabilities, from 0 to 1; None when none was reported."""
        return round(math.exp(self._total / self._count), 6) if self._count else None


def _values(logprobs: Mapping[str, Any]) -> Iterable[Any]:
    tokens = logprobs.get("content")
    if isinstance(tokens, list):
        return [token.get("logprob") for token in tokens if isinstance(token, Mapping)]
    older = logprobs.get("token_logprobs")
    return older if isinstance(older, list) else ()
