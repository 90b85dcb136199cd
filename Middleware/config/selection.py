"""The model field of a request -> user and workflow (front-doors §3, decisions §2)."""

from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

from Middleware.config.files import Snapshot
from Middleware.config.store import ConfigStore
from Middleware.config.user import User
from Middleware.core.errors import ConfigError, KeyNotAllowed, MalformedRequest, UnknownModel
from Middleware.core.messages import Caller


@dataclass(frozen=True, slots=True)
class Selection:
    """Who answers, and with what."""

    user: str
    workflow: str | None
    """The shared workflow that was named; None means the user's normal routing."""
    served_name: str
    """The model's name in responses; never an echo of the request."""
    folder: str | None = None
    """Where ``workflow`` is, below ``Workflows/``: its ``_DefaultWorkflow`` runs."""


def select(store: ConfigStore, model: str, caller: Caller | None = None) -> Selection:
    """Raises UnknownModel with near names, and MalformedRequest when a user must be named.

    With a user's key, aliases are that user's, and only names that may be used are near.
    """
    name = model.strip().removesuffix(":latest")
    users = store.user_names
    if len(users) > 1:
        return _among_users(store, name, caller)
    snapshot = store.snapshot(users[0])
    # The part before the first colon is not compared with the user (Surprise 16).
    return _of_user(store, snapshot, name, name.partition(":")[2] or name)


def own_model(store: ConfigStore, caller: Caller | None) -> str:
    """Who answers a request that names no model: the user whose key came with it."""
    return caller.user if caller is not None and caller.user in store.user_names else ""


def require_own(caller: Caller | None, selection: Selection) -> None:
    """Raise KeyNotAllowed for a key of another user. The key of the command line opens all."""
    if caller is not None and caller.user and caller.user != selection.user:
        raise KeyNotAllowed(f"This API key may not use the models of {selection.user!r}.")


def user_of(store: ConfigStore, model: str) -> User:
    """Whose settings hold for a request. Raises as :func:`select` does."""
    return store.snapshot(select(store, model).user).user


def find_model(store: ConfigStore, name: str, caller: Caller | None = None) -> str:
    """The listed name that ``name`` stands for, or an alias as it is. Raises UnknownModel."""
    names = model_names(store, caller)
    asked = name.strip().removesuffix(":latest") or name
    if name in names or asked in names:
        return name if name in names else asked
    # By the workflow's name alone too, as in requests.
    found = next((one for one in names if one.partition(":")[2] == asked), None)
    if found is not None:
        return found
    for user in _users_of(store, caller):
        if _by_alias(store.snapshot(user), asked.removeprefix(f"{user}:")) is not None:
            return asked
    raise UnknownModel(_short(name), _near(store, asked, caller))


def _users_of(store: ConfigStore, caller: Caller | None) -> tuple[str, ...]:
    """Those whose models a caller may use."""
    users = store.user_names
    if caller is None or not caller.user:
        return users
    return tuple(user for user in users if user == caller.user)


def model_names(store: ConfigStore, caller: Caller | None = None) -> tuple[str, ...]:
    """What the model lists show: ``user:workflow``, or ``user`` where none is to be shown. A user's
    key shows that user's."""
    names: list[str] = []
    for user in _users_of(store, caller):
        try:
            snapshot = store.snapshot(user)
            shown = snapshot.shared_workflows() if snapshot.user.allow_shared_workflows else ()
        except ConfigError:
            shown = ()
        names.extend(f"{user}:{workflow}" for workflow in shown)
        if not shown:
            names.append(user)
    return tuple(names)


def _among_users(store: ConfigStore, name: str, caller: Caller | None) -> Selection:
    users = store.user_names
    if not name:
        first = store.snapshot(users[0]).user
        if first.dialect == "headrace":
            return Selection(first.name, None, first.name)
        raise MalformedRequest("model", f"must name one of the users {', '.join(users)}")
    user, _, workflow = name.partition(":")
    if user in users:
        return _of_user(store, store.snapshot(user), name, workflow)
    for other in _users_of(store, caller):
        aliased = _by_alias(store.snapshot(other), name)
        if aliased is not None:
            return aliased
    raise UnknownModel(_short(name), _near(store, name, caller))


def _of_user(store: ConfigStore, snapshot: Snapshot, name: str, workflow: str) -> Selection:
    """``workflow`` is the part of ``name`` that may be one; empty means normal routing."""
    user = snapshot.user
    found = _by_name(snapshot, workflow) if workflow else None
    if found is None and (not workflow or name == user.name):
        found = Selection(user.name, None, user.name)
    found = found or _by_alias(snapshot, name.removeprefix(f"{user.name}:"))
    if found is not None:
        return found
    if user.dialect == "headrace":
        raise UnknownModel(_short(name), _near(store, name))
    store.warn_once(
        f"There is no model {_short(name)!r}; the normal routing of user {user.name!r} answers."
    )
    return Selection(user.name, None, user.name)


def _by_name(snapshot: Snapshot, workflow: str) -> Selection | None:
    folder = snapshot.shared_workflow(workflow)
    if folder is None:
        return None
    found = folder.rpartition("/")[2]
    user = snapshot.user.name
    return Selection(user, found, f"{user}:{found}", folder)


def _by_alias(snapshot: Snapshot, name: str) -> Selection | None:
    """Names that the user file accepts besides; an exact one comes before wildcards."""
    user = snapshot.user
    target = user.model_aliases.get(name)
    if target is None:
        patterns = user.model_aliases.items()
        target = next((to for pattern, to in patterns if fnmatchcase(name, pattern)), None)
    if target is None:
        return None
    if target.strip() in ("", user.name):
        return Selection(user.name, None, user.name)
    found = _by_name(snapshot, target.strip().removeprefix(f"{user.name}:"))
    if found is None:
        raise ConfigError(
            f"It stands for {target!r}, which is no shared workflow.",
            file=f"Users/{user.name}.json",
            where="modelAliases",
            remedy=f"Name a folder of Workflows/{user.shared_folder}.",
        )
    return found


def _near(store: ConfigStore, name: str, caller: Caller | None = None) -> tuple[str, ...]:
    """Up to three names that may have been meant, among those that the caller may use."""
    known = model_names(store, caller)
    by_text: dict[str, str] = {}
    for one in known:
        by_text.setdefault(one.partition(":")[2].lower() or one.lower(), one)
        by_text.setdefault(one.lower(), one)
        by_text.setdefault(one.partition(":")[0].lower(), one)
    asked = name.lower()[:200]
    close = get_close_matches(asked, by_text, n=3, cutoff=0.6)
    close += get_close_matches(asked.rpartition(":")[2], by_text, n=3, cutoff=0.6)
    return tuple(dict.fromkeys(by_text[text] for text in close))[:3]


def _short(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:80]}…"
