"""Profiles among the models that are listed (MAP-1)."""

from collections.abc import Callable
from dataclasses import replace

from Middleware.api.catalogue import Catalogue
from Middleware.api.durable_access import key_name
from Middleware.config.user import User
from Middleware.conversations.service import Conversations
from Middleware.core.errors import ConfigError
from Middleware.core.messages import Caller


def with_profiles(
    catalogue: Catalogue, conversations: Conversations, user: Callable[[], User]
) -> Catalogue:
    """``user`` is the one whose workflows conversations run."""

    def listed(caller: Caller | None) -> tuple[str, ...]:
        key = key_name(caller)
        profiles = (one.name for one in conversations.models() if one.lets_send(key))
        return (*catalogue.listed(caller), *profiles)

    def found(name: str, caller: Caller | None) -> str:
        profile = _profile(name)
        return profile if profile is not None else catalogue.found(name, caller)

    def owner(model: str) -> User:
        return user() if _profile(model) is not None else catalogue.owner(model)

    def _profile(name: str) -> str | None:
        try:
            profile = conversations.model(name)
        except ConfigError:
            return None
        return profile.name if profile is not None else None

    return replace(catalogue, listed=listed, found=found, owner=owner)
