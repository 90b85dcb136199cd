"""What calls of models cost: ``Prices.json`` beside the folders of the configuration.

Nobody has to have one. It is the owner's list: this program knows no price by itself.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from pydantic import Field

from Middleware.config.models import Settings, Text
from Middleware.config.validation import require_object, unknown_keys, validated
from Middleware.config.watched_file import Source
from Middleware.core.events import Usage

FILE = "Prices"
_MILLION = 1_000_000


class Price(Settings):
    """What a model costs, in the currency of the file, for a million tokens."""

    input_per_million: float = Field(ge=0)
    """For a million tokens of the prompt."""
    output_per_million: float = Field(ge=0)
    """For a million tokens of the answer, thinking included."""

    def of(self, usage: Usage) -> float:
        """The cost of one call, in the currency of the file."""
        prompt = usage.prompt_tokens * self.input_per_million
        return (prompt + usage.completion_tokens * self.output_per_million) / _MILLION


class Prices(Settings):
    """``Prices.json``: what models cost."""

    currency: Text = "USD"
    """Of all prices in the file; only shown, never converted."""
    models: Mapping[str, Price] = Field(default_factory=dict)
    """Model, as ``modelNameToSendToAPI`` of the endpoint says it -> its price. ``*`` stands for any
    text: an exact name wins, then the longest pattern that fits."""

    def price(self, model: str) -> Price | None:
        """None for a model that the file does not name: what it costs is not known."""
        known = self.models.get(model)
        if known is not None:
            return known
        fitting = [name for name in self.models if "*" in name and _fits(model, name)]
        return self.models[max(fitting, key=len)] if fitting else None


NO_PRICES = Prices()


def parse_prices(raw: Any, source: Source) -> Prices:
    prices = validated(Prices, require_object(raw, source.file), source.file)
    for problem in unknown_keys(prices, source.file):
        source.report(problem)
    return prices


@lru_cache(maxsize=1024)
def _fits(model: str, pattern: str) -> bool:
    # Only the star is special here: names of models hold brackets.
    return fnmatchcase(model, pattern.replace("[", "[[]").replace("?", "[?]"))
