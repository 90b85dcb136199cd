"""What doors need to know of models and their owners, for whoever asks now."""

from collections.abc import Callable
from dataclasses import dataclass

from flask import request

from Middleware.api.admission import ENVIRON_CALLER
from Middleware.config.user import User
from Middleware.core.messages import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """Three questions to the configuration. Call the methods in a view."""

    listed: Callable[[Caller | None], tuple[str, ...]]
    found: Callable[[str, Caller | None], str]
    """The name that another one stands for; raises UnknownModel."""
    owner: Callable[[str], User]
    """Whose settings hold for a model; raises UnknownModel."""

    def names(self) -> tuple[str, ...]:
        """Names of models, as they are listed."""
        return self.listed(_caller())

    def find(self, name: str) -> str:
        """The listed name, or the alias, that a client means. Raises UnknownModel."""
        return self.found(name, _caller())


def _caller() -> Caller | None:
    caller: Caller | None = request.environ.get(ENVIRON_CALLER)
    return caller
