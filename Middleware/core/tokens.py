"""Token estimates, used wherever no tokenizer is at hand (variables §2.3)."""

from collections.abc import Iterable


def estimate_tokens(text: str) -> int:
    """``int(max(words * 1.35, characters / 3.5) * 1.10)``: high rather than low."""
    return int(max(len(text.split()) * 1.35, len(text) / 3.5) * 1.10)


def estimate_all(texts: Iterable[str]) -> int:
    return sum(map(estimate_tokens, texts))
